"""Exact values against enumeration, roll-outs against exact values, compiled code against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import MDPS, FiniteMDP, Garnet, RandomMDP, RiverSwim
from dprl.envs.dynamics import roll_out, roll_out_stochastic

TINY = [
    RandomMDP(n_states=2, n_actions=2, horizon=3, seed=1).build(),
    RandomMDP(n_states=3, n_actions=2, horizon=2, seed=2).build(),
    Garnet(n_states=2, n_actions=2, branching=2, horizon=3, seed=3).build(),
    RiverSwim(n_states=3, horizon=2).build(),
]


def random_mdp(seed: int, horizon: int = 3, n_states: int = 2, n_actions: int = 2) -> FiniteMDP:
    """Dense: no probability and no reward is 0, so that no path drops out of the comparison."""
    rng = np.random.default_rng(seed)
    shape = (horizon, n_states, n_actions)
    transitions = rng.dirichlet(np.ones(n_states), size=shape)
    return FiniteMDP("dense", transitions, rng.random(shape), rng.dirichlet(np.ones(n_states)))


def enumerated_start_value(mdp: FiniteMDP, policy: NDArray[np.float64]) -> float:
    """Sum of probability times return over every trajectory s_1 a_1 s_2 ... a_H."""
    total = 0.0
    states, actions = range(mdp.n_states), range(mdp.n_actions)
    for path in itertools.product(itertools.product(states, actions), repeat=mdp.horizon):
        probability, collected = mdp.start[path[0][0]], 0.0
        for h, (s, a) in enumerate(path):
            probability *= policy[h, s, a]
            collected += mdp.rewards[h, s, a]
            if h + 1 < mdp.horizon:
                probability *= mdp.transitions[h, s, a, path[h + 1][0]]
        total += probability * collected
    return float(total)


def all_policies(mdp: FiniteMDP) -> list[NDArray[np.int64]]:
    cells = mdp.horizon * mdp.n_states
    return [
        np.array(choice).reshape(mdp.horizon, mdp.n_states)
        for choice in itertools.product(range(mdp.n_actions), repeat=cells)
    ]


def one_hot(policy: NDArray[np.int64], n_actions: int) -> NDArray[np.float64]:
    return np.eye(n_actions)[policy]


@pytest.mark.parametrize("mdp", [*TINY, random_mdp(4), random_mdp(5, 2, 3, 2)])
def test_value_equals_the_enumeration_of_all_trajectories(mdp: FiniteMDP) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        mixed = rng.dirichlet(np.ones(mdp.n_actions), size=(mdp.horizon, mdp.n_states))
        assert mdp.start_value(mixed) == pytest.approx(enumerated_start_value(mdp, mixed), abs=1e-13)
        pure = rng.integers(0, mdp.n_actions, size=(mdp.horizon, mdp.n_states))
        expected = enumerated_start_value(mdp, one_hot(pure, mdp.n_actions))
        assert mdp.start_value(pure) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("mdp", [*TINY, random_mdp(6), random_mdp(7, 2, 3, 2), random_mdp(8, 1, 3, 4)])
def test_optimum_equals_the_best_of_all_policies_in_every_state(mdp: FiniteMDP) -> None:
    values, policy = mdp.optimum()
    best = np.max([mdp.value(candidate) for candidate in all_policies(mdp)], axis=0)
    np.testing.assert_array_equal(values, best)
    np.testing.assert_array_equal(mdp.value(policy), values)


@pytest.mark.parametrize("environment", sorted(MDPS))
def test_regret_of_the_optimal_policy_is_exactly_zero(environment: str) -> None:
    mdp = MDPS[environment]().build()
    assert mdp.start_value(mdp.optimum()[1]) == mdp.optimal_start_value()


@pytest.mark.parametrize("environment", sorted(MDPS))
def test_one_hot_policy_has_the_bits_of_the_deterministic_one(environment: str) -> None:
    mdp = MDPS[environment]().build()
    policy = np.random.default_rng(1).integers(0, mdp.n_actions, size=(mdp.horizon, mdp.n_states))
    np.testing.assert_array_equal(mdp.value(one_hot(policy, mdp.n_actions)), mdp.value(policy))


def test_ties_go_to_the_lowest_action() -> None:
    transitions = np.full((4, 3, 3, 3), 1 / 3)
    rewards = np.full((4, 3, 3), 0.1)
    rewards[2, :, 1:] = 0.3
    _, policy = FiniteMDP("ties", transitions, rewards, np.array([1.0, 0.0, 0.0])).optimum()
    np.testing.assert_array_equal(policy, np.array([[0] * 3, [0] * 3, [1] * 3, [0] * 3]))


def test_roll_out_takes_the_first_state_above_the_draw() -> None:
    mdp = RiverSwim(n_states=3, horizon=3).build()
    states, actions = np.empty(4, np.int64), np.empty(3, np.int64)
    policy = np.ones((3, 3), np.int64)
    below_one = np.nextafter(1.0, 0.0)
    roll_out(mdp.cdf, mdp.start_cdf, policy, np.array([below_one, 0.4, 0.65, 0.0]), states, actions)
    assert states.tolist() == [0, 1, 2, 1]
    assert actions.tolist() == [1, 1, 1]
    roll_out(mdp.cdf, mdp.start_cdf, policy, np.array([0.0, 0.399999, below_one, 0.04]), states, actions)
    assert states.tolist() == [0, 0, 1, 0]


def test_a_one_hot_policy_rolls_out_as_the_deterministic_one() -> None:
    mdp = random_mdp(9, horizon=6, n_states=4, n_actions=3)
    rng = np.random.default_rng(5)
    policy = rng.integers(0, 3, size=(6, 4))
    states, actions = np.empty((2, 7), np.int64), np.empty((2, 6), np.int64)
    for _ in range(200):
        uniforms = rng.random(13)
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms[::2].copy(), states[0], actions[0])
        roll_out_stochastic(mdp.cdf, mdp.start_cdf, one_hot(policy, 3), uniforms, states[1], actions[1])
        np.testing.assert_array_equal(states[0], states[1])
        np.testing.assert_array_equal(actions[0], actions[1])


def test_stochastic_roll_out_takes_the_first_action_above_the_draw() -> None:
    mdp = FiniteMDP("one state", np.ones((5, 1, 3, 1)), np.zeros((5, 1, 3)), np.ones(1))
    policy = np.tile(np.array([0.25, 0.0, 0.75]), (5, 1, 1))
    policy[4] = [0.25, 0.5, 0.0]  # rounding has left a gap, which belongs to the last action
    states, actions = np.empty(6, np.int64), np.empty(5, np.int64)
    below_one = np.nextafter(1.0, 0.0)
    uniforms = np.zeros(11)
    uniforms[1::2] = [0.0, np.nextafter(0.25, 0.0), 0.25, below_one, below_one]
    roll_out_stochastic(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
    assert actions.tolist() == [0, 0, 2, 2, 2]
    assert states.tolist() == [0] * 6


def test_roll_out_never_picks_an_impossible_state() -> None:
    """Ten times 0.1 sums to less than 1; the gap must not belong to the states of probability 0."""
    row = np.array([0.1] * 10 + [0.0] * 2)
    assert np.cumsum(row)[-1] < 1.0
    mdp = FiniteMDP("gap", np.tile(row, (1, 12, 1, 1)), np.zeros((1, 12, 1)), row)
    states, actions = np.empty(2, np.int64), np.empty(1, np.int64)
    draws = np.full(2, np.nextafter(1.0, 0.0))
    roll_out(mdp.cdf, mdp.start_cdf, np.zeros((1, 12), np.int64), draws, states, actions)
    assert states.tolist() == [9, 9]
