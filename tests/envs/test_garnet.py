"""Garnet: the number of successors and the distribution of the cut points."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.envs import Garnet


@pytest.mark.parametrize("branching", [1, 2, 5])
def test_every_pair_has_exactly_b_successors(branching: int) -> None:
    mdp = Garnet(n_states=5, n_actions=4, branching=branching).build()
    np.testing.assert_array_equal((mdp.transitions > 0.0).sum(axis=-1), branching)


def test_dynamics_and_rewards_are_the_same_at_every_step() -> None:
    mdp = Garnet().build()
    np.testing.assert_array_equal(mdp.transitions, np.broadcast_to(mdp.transitions[0], mdp.transitions.shape))
    np.testing.assert_array_equal(mdp.rewards, np.broadcast_to(mdp.rewards[0], mdp.rewards.shape))


def test_law_of_successors_and_probabilities() -> None:
    """Parts of [0, 1] cut at 2 uniform points have mean 1/3 and variance 1/18, each state is a successor with
    probability b / S; five standard errors, a false alarm in about 1e-6 of the seeds."""
    transitions = Garnet(n_states=30, n_actions=100, branching=3, horizon=1).build().transitions[0]
    parts = transitions[transitions > 0.0]
    pairs = 3000
    # Parts of one pair sum to 1, so their squares carry the information on the spread.
    spread = ((parts.reshape(pairs, 3) - 1 / 3) ** 2).mean(axis=1)
    assert abs(spread.mean() - 1 / 18) < 5 * spread.std() / np.sqrt(pairs)
    hits = (transitions > 0.0).reshape(pairs, 30).sum(axis=0)
    assert np.abs(hits - pairs * 0.1).max() < 5.7 * np.sqrt(pairs * 0.1 * 0.9)


def test_branching_beyond_the_states_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^branching must be at most n_states = 3, got 4; lower branching"):
        Garnet(n_states=3, branching=4)


def test_the_stream_of_seed_zero_is_pinned() -> None:
    """A change here means that published seeds no longer name the MDPs that they named."""
    mdp = Garnet().build()
    row = [0.0, 0.0, 0.49253013945547286, 0.0, 0.4603553288673248, 0.0, 0.047114531677202365, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(mdp.transitions[0, 0, 0], row, rtol=1e-12)
    assert mdp.optimal_start_value() == pytest.approx(7.942451466919258, rel=1e-12)
