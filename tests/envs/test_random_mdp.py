"""The random MDP has the distribution of its paper, also if gamma variables underflow."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.envs import RandomMDP
from dprl.envs.random_mdp import dirichlet_rows


@pytest.mark.parametrize("concentration", [0.1, 1e-3])
def test_moments_of_the_rows(concentration: float) -> None:
    """Mean and second moment within five standard errors: a false alarm in about 1e-6 of the seeds."""
    n, size = 40_000, 4
    rows = dirichlet_rows(np.random.default_rng(0), concentration, (n, size))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-14)
    assert rows.min() >= 0.0
    moments = {1: 1 / size, 2: (concentration + 1) / (size * (size * concentration + 1))}
    for power, expected in moments.items():
        sample = rows[:, 0] ** power
        assert abs(sample.mean() - expected) < 5 * sample.std() / np.sqrt(n)


def test_rows_that_underflow_are_drawn_again() -> None:
    naive = np.random.default_rng(1).standard_gamma(1e-3, size=(1000, 2))
    assert (naive.sum(axis=1) == 0.0).any(), "the case under test no longer occurs"
    rows = dirichlet_rows(np.random.default_rng(1), 1e-3, (1000, 2))
    assert np.isfinite(rows).all()
    assert not ((rows > 0.0) & (rows < np.finfo(np.float64).tiny)).any()


def test_transitions_depend_on_the_step() -> None:
    mdp = RandomMDP().build()
    assert not np.array_equal(mdp.transitions[0], mdp.transitions[1])
    assert not np.array_equal(mdp.rewards[0], mdp.rewards[1])


def test_rewards_are_sparse_and_uniform() -> None:
    """Share of zeros and mean of the others within five standard errors (about 1e-6 of the seeds)."""
    rewards = RandomMDP(n_states=20, n_actions=20, horizon=100).build().rewards.ravel()
    paid = rewards[rewards > 0.0]
    assert abs(paid.size / rewards.size - 0.15) < 5 * np.sqrt(0.15 * 0.85 / rewards.size)
    assert abs(paid.mean() - 0.5) < 5 * np.sqrt(1 / 12 / paid.size)


def test_the_stream_of_seed_zero_is_pinned() -> None:
    """A change here means that published seeds no longer name the MDPs that they named."""
    mdp = RandomMDP().build()
    row = [0.07500333044917905, 9.098726542586106e-14, 0.863567404681269, 0.046049787412465584]
    np.testing.assert_allclose(mdp.transitions[0, 0, 0, :4], row, rtol=1e-12)
    assert mdp.optimal_start_value() == pytest.approx(1.7302687326740915, rel=1e-12)
