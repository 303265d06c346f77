"""RiverSwim against the numbers of its sources."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.envs import RiverSwim

# Effect of `right`: first (stay, right), middle (left, stay, right), last (left, stay).
PRINTED = {
    "osband": ((0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6), 0.005, [1.0, 0, 0, 0, 0, 0]),
    "strehl_littman": ((0.7, 0.3), (0.1, 0.6, 0.3), (0.7, 0.3), 0.0005, [0, 0.5, 0.5, 0, 0, 0]),
    "bourel": ((0.6, 0.4), (0.05, 0.55, 0.4), (0.4, 0.6), 0.05, [1.0, 0, 0, 0, 0, 0]),
}


def test_the_default_is_osbands_six_states_and_twenty_steps() -> None:
    assert RiverSwim() == RiverSwim(n_states=6, horizon=20, version="osband")


def test_optimal_value_of_the_default() -> None:
    assert RiverSwim().build().optimal_start_value() == pytest.approx(3.3973, abs=5e-5)


@pytest.mark.parametrize("version", PRINTED)
def test_optimal_value_equals_that_of_tridiagonal_matrices(version: str) -> None:
    first, middle, last, small, start = PRINTED[version]
    right = np.diag([first[0], *[middle[1]] * 4, last[1]])
    right += np.diag([first[1], *[middle[2]] * 4], 1) + np.diag([*[middle[0]] * 4, last[0]], -1)
    left = np.eye(6, k=-1)
    left[0, 0] = 1.0
    value = np.zeros(6)
    for _ in range(20):
        value = np.maximum(left @ value + small * np.eye(6)[0], right @ value + np.eye(6)[5])
    assert RiverSwim(version=version).build().optimal_start_value() == pytest.approx(value @ start, rel=1e-13)


def test_optimum_of_two_steps_by_hand() -> None:
    """S = 3, H = 2 from state 0: left twice gives 0.01; right cannot reach the reward in two steps."""
    mdp = RiverSwim(n_states=3, horizon=2).build()
    values, policy = mdp.optimum()
    # State 1: right, then right from state 2 with probability 0.35, left from state 0 with 0.05.
    np.testing.assert_allclose(values[0], [0.01, 0.35 + 0.05 * 0.005, 1.6], rtol=1e-14)
    assert policy[0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("version", PRINTED)
def test_numbers_of_the_source(version: str) -> None:
    mdp = RiverSwim(version=version).build()
    first, middle, last, small, start = PRINTED[version]
    for transitions in mdp.transitions:
        left, right = transitions[:, 0], transitions[:, 1]
        np.testing.assert_array_equal(left, np.eye(6)[[0, 0, 1, 2, 3, 4]])
        np.testing.assert_array_equal(right[0], [*first, 0, 0, 0, 0])
        np.testing.assert_array_equal(right[5], [0, 0, 0, 0, *last])
        for s in range(1, 5):
            expected = np.zeros(6)
            expected[s - 1 : s + 2] = middle
            np.testing.assert_array_equal(right[s], expected)
    rewards = np.zeros((6, 2))
    rewards[0, 0], rewards[5, 1] = small, 1.0
    np.testing.assert_array_equal(mdp.rewards, np.tile(rewards, (20, 1, 1)))
    np.testing.assert_array_equal(mdp.start, start)


@pytest.mark.parametrize("version", PRINTED)
def test_a_chain_of_three_states(version: str) -> None:
    mdp = RiverSwim(n_states=3, horizon=4, version=version).build()
    np.testing.assert_array_equal(mdp.transitions[0, 1, 1], PRINTED[version][1])


@pytest.mark.parametrize("version", ["Osband", "", None, 1, ["osband"]])
def test_unknown_version(version: object) -> None:
    with pytest.raises(ValueError, match=r"^version must be one of osband, strehl_littman, bourel, got .*; "):
        RiverSwim(version=version)  # type: ignore[arg-type]
