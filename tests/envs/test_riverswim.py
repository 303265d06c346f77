"""RiverSwim against the numbers of its sources."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.envs import RiverSwim

# Effect of `right`: first (stay, right), middle (left, stay, right), last (left, stay).
FIRST, MIDDLE, LAST, SMALL = (0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6), 0.005


def test_optimal_value_of_the_default() -> None:
    assert RiverSwim().build().optimal_start_value() == pytest.approx(3.3973, abs=5e-5)


def test_optimum_of_two_steps_by_hand() -> None:
    """S = 3, H = 2 from state 0: left twice gives 0.01; right cannot reach the reward in two steps."""
    mdp = RiverSwim(n_states=3, horizon=2).build()
    values, policy = mdp.optimum()
    # State 1: right, then right from state 2 with probability 0.35, left from state 0 with 0.05.
    np.testing.assert_allclose(values[0], [0.01, 0.35 + 0.05 * 0.005, 1.6], rtol=1e-14)
    assert policy[0].tolist() == [0, 1, 1]


def test_numbers_of_the_source() -> None:
    mdp = RiverSwim().build()
    for transitions in mdp.transitions:
        left, right = transitions[:, 0], transitions[:, 1]
        np.testing.assert_array_equal(left, np.eye(6)[[0, 0, 1, 2, 3, 4]])
        np.testing.assert_array_equal(right[0], [*FIRST, 0, 0, 0, 0])
        np.testing.assert_array_equal(right[5], [0, 0, 0, 0, *LAST])
        for s in range(1, 5):
            expected = np.zeros(6)
            expected[s - 1 : s + 2] = MIDDLE
            np.testing.assert_array_equal(right[s], expected)
    rewards = np.zeros((6, 2))
    rewards[0, 0], rewards[5, 1] = SMALL, 1.0
    np.testing.assert_array_equal(mdp.rewards, np.tile(rewards, (20, 1, 1)))
    np.testing.assert_array_equal(mdp.start, np.eye(6)[0])
