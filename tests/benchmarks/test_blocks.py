"""The benchmark of blocks runs."""

from __future__ import annotations

from benchmarks.blocks import NOISES, one_by_one, whole_run
from dprl.envs import RiverSwim


def test_a_run_in_blocks_is_timed_against_users_one_by_one() -> None:
    mdp, privacy = RiverSwim(n_states=3, horizon=4).build(), NOISES["local, Laplace"]
    assert 0.0 < whole_run(mdp, "private_ucb_vi", privacy, 10**8) < one_by_one(mdp, "private_ucb_vi", privacy, 10**8)
