"""Finite MDPs: valid and immutable arrays, exact values, roll-outs, and episodes in Gymnasium."""

from __future__ import annotations

import itertools
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from dprl.envs import MDPS, FiniteMDP, FiniteMDPEnv, Garnet, RandomMDP, RiverSwim
from dprl.envs.dynamics import roll_out, roll_out_stochastic

# A FiniteMDP is valid, immutable and survives pickling; anything else is refused in one line.


def parts() -> dict[str, Any]:
    mdp = RiverSwim(n_states=3, horizon=2).build()
    return {"name": "test"} | {key: getattr(mdp, key).copy() for key in ("transitions", "rewards", "start")}


def changed(key: str, index: tuple[int, ...], value: float | list[float]) -> dict[str, Any]:
    arguments = parts()
    arguments[key][index] = value
    return arguments


BAD_MDPS = [
    (parts() | {"rewards": np.zeros((2, 3))}, "rewards must be a non-empty array of 3 dimensions"),
    (parts() | {"rewards": np.zeros((0, 3, 2))}, "rewards must be a non-empty array"),
    (parts() | {"rewards": np.zeros((2, 3, 4))}, "transitions must have shape"),
    (parts() | {"rewards": "many"}, "rewards must be an array of numbers, got str"),
    (parts() | {"transitions": [[1.0], [0.5, 0.5]]}, "transitions must be an array of numbers, got list"),
    (parts() | {"start": np.array([0.5, 0.5])}, "start must have shape"),
    (changed("rewards", (0, 0, 0), 1.5), "rewards must lie in [0, 1], got 1.5"),
    (changed("rewards", (0, 0, 0), -0.25), "rewards must lie in [0, 1], got -0.25"),
    (changed("rewards", (0, 0, 0), np.nan), "rewards must be finite"),
    (changed("transitions", (0, 0, 0, 0), np.inf), "transitions must be finite"),
    (changed("transitions", (0, 0, 0, 0), 0.5), "transitions must sum to 1 over the last axis, got a sum of 0.5"),
    (changed("start", (0,), 2.0), "start must sum to 1 over the last axis, got a sum of 2"),
]
NEGATIVE = parts()
NEGATIVE["transitions"][0, 0, 0] = [1.5, -0.5, 0.0]
BAD_MDPS.append((NEGATIVE, "transitions must hold probabilities >= 0, got -0.5"))


@pytest.mark.parametrize(("arguments", "message"), BAD_MDPS, ids=[message for _, message in BAD_MDPS])
def test_bad_arrays_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole line is checked below
        FiniteMDP(**arguments)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value), "the remedy is missing"


BAD_POLICIES = [
    (np.zeros((3, 2), np.int64), "policy must have shape (2, 3) (actions) or (2, 3, 2) (probabilities)"),
    (np.zeros((2, 3)), "policy of shape [H, S] must hold integers, got float64"),
    (np.zeros((2, 3), bool), "policy of shape [H, S] must hold integers, got bool"),
    (np.full((2, 3), 2), "policy must hold actions in 0..1, got 2"),
    (np.array([[0, 1, 1], [0, 1, -1]]), "policy must hold actions in 0..1, got -1"),
    (np.full((2, 3, 2), 0.4), "policy must sum to 1 over the last axis, got a sum of 0.8"),
    (np.tile([1.5, -0.5], (2, 3, 1)), "policy must hold probabilities >= 0, got -0.5"),
    (np.full((2, 3, 2), np.nan), "policy must be finite"),
]


@pytest.mark.parametrize(("policy", "message"), BAD_POLICIES, ids=[message for _, message in BAD_POLICIES])
def test_bad_policies_are_refused_in_one_line(policy: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        RiverSwim(n_states=3, horizon=2).build().value(policy)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_arrays_are_copied_contiguous_and_read_only() -> None:
    arguments = parts()
    arguments["transitions"] = np.asfortranarray(arguments["transitions"].astype(np.float64))
    mdp = FiniteMDP(**arguments)
    arguments["rewards"][:] = 0.5
    assert mdp.rewards.max() == 1.0
    for array in (mdp.transitions, mdp.rewards, mdp.start, mdp.cdf, mdp.start_cdf):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 0.0


def test_steps_that_are_alike_are_stored_once() -> None:
    """With one stored step all values and episodes are, bit for bit, those of H equal ones."""
    once = RiverSwim(n_states=5, horizon=6).build()
    each = FiniteMDP("each", once.transitions.copy(), once.rewards, once.start)
    assert (once.layers, each.layers) == (1, 6)
    assert (once.transitions.strides[0], once.cdf.strides[0]) == (0, 0)
    assert len(pickle.dumps(once)) < len(pickle.dumps(each))
    assert pickle.loads(pickle.dumps(once)).layers == 1
    rng = np.random.default_rng(0)
    mixed = rng.dirichlet(np.ones(2), size=(6, 5))
    for one, other in zip(once.optimum(), each.optimum(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(once.value(mixed), each.value(mixed))
    found = []
    for mdp in (once, each):
        states, actions = np.zeros(7, np.int64), np.zeros(6, np.int64)
        uniforms = np.random.default_rng(1).random(13)
        cdf = mdp.cdf[: mdp.layers]
        assert cdf.flags.c_contiguous
        roll_out_stochastic(cdf, mdp.start_cdf, mixed, uniforms, states, actions)
        found.append((states.tolist(), actions.tolist()))
    assert found[0] == found[1]


def test_an_mdp_is_stationary_if_no_step_differs() -> None:
    assert FiniteMDP(**parts()).stationary
    assert not FiniteMDP(**changed("rewards", (1, 0, 0), 0.25)).stationary
    assert not FiniteMDP(**changed("transitions", (1, 0, 0), [0.0, 1.0, 0.0])).stationary


def test_a_pickled_mdp_comes_back_equal_and_read_only() -> None:
    mdp = RiverSwim().build()
    back = pickle.loads(pickle.dumps(mdp))
    assert back.name == mdp.name
    for key in ("transitions", "rewards", "start", "cdf", "start_cdf"):
        np.testing.assert_array_equal(getattr(back, key), getattr(mdp, key))
        assert not getattr(back, key).flags.writeable


def test_policies_of_any_integer_type_and_layout_have_one_value() -> None:
    mdp = RiverSwim().build()
    _, policy = mdp.optimum()
    expected = mdp.value(policy)
    for same in (policy.astype(np.uint8), np.asfortranarray(policy), policy.tolist()):
        np.testing.assert_array_equal(mdp.value(same), expected)


# Exact values against enumeration, roll-outs against exact values, compiled code against plain Python.

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


# The Gymnasium side: the env checker, seeding, termination and agreement with the arrays.

IDS = [f"dprl/{spec.__name__}-v0" for spec in MDPS.values()]
# Fields of a small environment in which returns differ, where they are not n_states and horizon.
SMALL: dict[str, dict[str, Any]] = {
    "dprl/GridWorld-v0": {"width": 2, "height": 2, "horizon": 4},
    "dprl/DeepSea-v0": {"size": 4, "deterministic": False},
    "dprl/GymnasiumTable-v0": {"horizon": 12},
}


def make(env_id: str, **fields: Any) -> FiniteMDPEnv:
    env = gymnasium.make(env_id, **fields).unwrapped
    assert isinstance(env, FiniteMDPEnv)
    return env


def episode(env: FiniteMDPEnv, seed: int) -> list[tuple[int, int, float, bool]]:
    observation, _ = env.reset(seed=seed)
    rows = [(int(observation[0]), int(observation[1]), 0.0, False)]
    choose = np.random.default_rng(seed)
    while not rows[-1][3]:
        action = int(choose.integers(env.mdp.n_actions))
        observation, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        assert info == {"state": observation[1], "step": observation[0]}
        rows.append((int(observation[0]), int(observation[1]), reward, terminated))
    return rows


@pytest.mark.parametrize("env_id", IDS)
def test_the_env_checker_has_nothing_to_say(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(env_id))


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_ends_by_termination_after_its_horizon(env_id: str) -> None:
    env = make(env_id, **SMALL.get(env_id, {"horizon": 7}))
    horizon = env.mdp.horizon
    rows = episode(env, seed=0)
    assert [row[0] for row in rows] == list(range(horizon + 1))
    assert [row[3] for row in rows] == [False] * horizon + [True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("env_id", IDS)
def test_one_seed_one_episode(env_id: str) -> None:
    assert episode(make(env_id), seed=5) == episode(make(env_id), seed=5)
    assert any(episode(make(env_id), seed=5) != episode(make(env_id), seed=other) for other in range(5))


def test_the_fields_of_the_spec_are_keyword_arguments() -> None:
    env = make("dprl/RiverSwim-v0", horizon=10, n_states=4)
    expected = RiverSwim(n_states=4, horizon=10).build()
    np.testing.assert_array_equal(env.mdp.transitions, expected.transitions)
    assert env.observation_space == gymnasium.spaces.MultiDiscrete([11, 4])
    assert env.action_space == gymnasium.spaces.Discrete(2)
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1"):
        gymnasium.make("dprl/RiverSwim-v0", horizon=0)


def test_bad_actions_and_a_missing_reset_are_refused() -> None:
    env = FiniteMDPEnv(RiverSwim(n_states=3, horizon=2).build())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match=r"^action must be in 0\.\.1, got"):
            env.step(action)  # type: ignore[arg-type]


class Replay:
    """A fake generator of an environment with fixed draws, all of them at steps of a distribution function."""

    def __init__(self, draws: NDArray[np.float64]) -> None:
        self._draws = iter(draws)

    def random(self) -> float:
        return float(next(self._draws))


def test_steps_and_roll_outs_turn_equal_draws_into_equal_states() -> None:
    mdp = RiverSwim(n_states=3, horizon=6).build()
    policy = np.ones((6, 3), np.int64)
    states, actions = np.empty(7, np.int64), np.empty(6, np.int64)
    for draws in itertools.product([0.0, 0.05, 0.4, 0.65], repeat=7):
        uniforms = np.array(draws)
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
        env = FiniteMDPEnv(mdp)
        env.np_random = Replay(uniforms)  # type: ignore[assignment]
        seen = [env.reset()[1]["state"], *(env.step(1)[4]["state"] for _ in range(6))]
        if seen != states.tolist():
            pytest.fail(f"draws {draws}: steps give {seen}, the roll-out {states.tolist()}")
