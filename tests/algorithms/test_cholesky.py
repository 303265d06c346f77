"""Inverses of small matrices: exact if they are positive definite, and reported if they are not."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.numerics import inverted


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
