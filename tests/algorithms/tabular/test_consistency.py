"""Consistent counts: the closed form is the orthogonal projection, keeps true counts, and reduces noise."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.bernstein_vi import restore_totals_and_flow
from dprl.privacy.base import Float64Array

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
