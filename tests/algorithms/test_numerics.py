"""Kernels of numbers: the exponential function of the policy step, and inverses of small matrices."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.numerics import exponential, inverted

# The exponential function of the policy step.


def arguments() -> np.ndarray:
    rng = np.random.default_rng(0)
    near, far = 10.0 ** -rng.uniform(0, 20, 5_000), rng.uniform(0.0, 708.0, 5_000)
    return -np.concatenate([rng.random(5_000), near, far, np.arange(1021) * np.log(2.0)])


def test_it_is_within_two_ulp_of_numpy() -> None:
    x = arguments()
    ours = np.array([exponential(v) for v in x])
    assert np.max(np.abs(ours - np.exp(x)) / np.spacing(np.exp(x))) <= 2.0


def test_its_ends() -> None:
    assert exponential(0.0) == 1.0
    assert exponential(-0.0) == 1.0
    assert exponential(-708.0) == pytest.approx(np.exp(-708.0), rel=1e-15)
    for x in (np.nextafter(-708.0, -800.0), -745.0, -1e300, -np.inf):
        assert exponential(x) == 0.0


# Inverses of small matrices: exact if they are positive definite, and reported if they are not.


def symmetric(generator: np.random.Generator, d: int) -> np.ndarray:
    root = generator.standard_normal((d, d))
    return root @ root.T


@pytest.mark.parametrize("d", [1, 2, 4, 7, 20])
def test_an_inverse_is_exact_and_reads_the_upper_triangle(d: int) -> None:
    matrix = symmetric(np.random.default_rng(d), d)
    inverse, factor = np.full((2, d, d), np.nan)
    upper = np.where(np.tri(d, k=-1, dtype=bool), np.nan, matrix)
    assert inverted(upper, 0.3, factor, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix + 0.3 * np.eye(d)), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)


def test_what_has_no_cholesky_factor_is_said() -> None:
    matrix = np.diag([1.0, -2.0, 1.0])
    inverse, factor = np.zeros((2, 3, 3))
    assert not inverted(matrix, 1.9, factor, inverse)
    assert not inverted(matrix, 2.0, factor, inverse)
    assert inverted(matrix, 2.1, factor, inverse)
