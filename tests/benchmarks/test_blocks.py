"""The naive program for blocks draws from the same distribution, and the benchmark runs."""

from __future__ import annotations

import numpy as np

from benchmarks.blocks import NOISES, naive_visits, one_by_one, whole_run
from dprl.algorithms.tabular.blocks import draw_visits
from dprl.envs import RiverSwim


def test_both_programs_have_the_same_law() -> None:
    """Means of 2,000 blocks agree within 6 standard errors."""
    mdp, generator = RiverSwim(n_states=4, horizon=5).build(), np.random.default_rng(1)
    policy = generator.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states))
    ours = np.array([draw_visits(mdp.transitions, mdp.start, policy, 50, generator) for _ in range(2000)])
    theirs = np.array([naive_visits(mdp, policy, 50, generator) for _ in range(2000)])
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 2000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 6.0 * error + 1e-12).all()


def test_a_run_in_blocks_is_timed_against_users_one_by_one() -> None:
    mdp, privacy = RiverSwim(n_states=3, horizon=4).build(), NOISES["local, Laplace"]
    assert 0.0 < whole_run(mdp, "private_ucb_vi", privacy, 10**8) < one_by_one(mdp, "private_ucb_vi", privacy, 10**8)
