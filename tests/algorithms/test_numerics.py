"""Numerical kernels: exponentials, inverses, and the least-squares projection of counts."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.bernstein_vi import restore_totals_and_flow
from dprl.algorithms.numerics import exponential, inverted
from dprl.privacy.base import Float64Array

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


# Consistent counts: the closed form is the orthogonal projection, keeps true counts, and reduces noise.


SHAPES = [(4, 3, 2), (1, 3, 2), (2, 1, 3), (3, 4, 1), (1, 1, 1)]
EACH = pytest.mark.parametrize("shape", SHAPES, ids=str)


def equations(horizon: int, n_states: int, n_actions: int) -> Float64Array:
    """One row for every equation on counts [H, S', S, A]: the totals of each step, then arrivals less departures."""
    rows = []
    for h in range(horizon):
        row = np.zeros((horizon, n_states, n_states, n_actions))
        row[h] = 1.0
        rows.append(row.ravel())
    for h in range(horizon - 1):
        for s in range(n_states):
            row = np.zeros((horizon, n_states, n_states, n_actions))
            row[h, s] += 1.0
            row[h + 1, :, s] -= 1.0
            rows.append(row.ravel())
    return np.array(rows)


def projected(transitions: Float64Array, users: int) -> Float64Array:
    """The counts [H, S', S, A] nearest to `transitions` that solve the equations, by least squares."""
    horizon, n_states, _, n_actions = transitions.shape
    matrix = equations(horizon, n_states, n_actions)
    right = np.zeros(matrix.shape[0])
    right[:horizon] = users
    lacking = right - matrix @ transitions.ravel()
    change = np.linalg.lstsq(matrix, lacking, rcond=None)[0]
    return np.asarray(transitions + change.reshape(transitions.shape), dtype=np.float64)


def restored(transitions: Float64Array, users: int) -> Float64Array:
    """The result of `restore_totals_and_flow` for counts [H, S', S, A]; the scratch array starts with garbage."""
    horizon, n_states, _, n_actions = transitions.shape
    found = transitions.reshape(horizon, n_states, n_states * n_actions).copy()
    restore_totals_and_flow(found, users, np.full((horizon + 1, n_states), 7.0))
    return found.reshape(transitions.shape)


@EACH
def test_the_closed_form_is_the_least_squares_projection(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    horizon, n_states, n_actions = shape
    for scale in (1.0, 1e3):
        noisy = scale * rng.normal(3.0, 5.0, size=(horizon, n_states, n_states, n_actions))
        np.testing.assert_allclose(restored(noisy, 40), projected(noisy, 40), atol=1e-10 * scale)
