"""Any environment of Gymnasium: as a control task, as an MDP with a table, and the digests of its source."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import math
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.spaces import Box, Discrete

from dprl.envs import Control, GymnasiumTable
from dprl.envs.control import from_space, to_space
from dprl.platform.environments import register_env

# Any environment of Gymnasium as a control task: one episode per user, and refusals.


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_episodes_are_those_of_the_environment(env_id: str) -> None:
    """Replayed one by one, from the same first states where they can be set: same lengths, ends and rewards."""
    task = pickle.loads(pickle.dumps(Control(env_id, horizon=40))).build()
    rng = np.random.default_rng(0)

    def act(seen: np.ndarray) -> np.ndarray:
        if task.n_actions:
            return rng.integers(0, task.n_actions, len(seen))
        return rng.standard_normal((len(seen), task.action_size)).astype(np.float32)

    episodes = task.play(task.vector(6), act, seed=3)
    assert episodes.observations.shape == (6, episodes.rewards.shape[1], task.observation_size)
    assert repr(episodes) == "Episodes(6 users)"
    if env_id == "CartPole-v1":
        return  # its copies share one generator
    for user in range(6):
        env: Any = gymnasium.make(env_id)
        seen, _ = env.reset(seed=3 + user)
        for t in range(int(episodes.lengths[user])):
            assert np.array_equal(task.flat(np.asarray(seen)[np.newaxis])[0], episodes.observations[user, t])
            seen, reward, terminated, truncated, _ = env.step(to_space(task.taken, episodes.actions[user, [t]])[0])
            assert reward == pytest.approx(episodes.rewards[user, t])
        assert terminated == episodes.ended[user]
        assert terminated or truncated or episodes.lengths[user] == 40
    assert episodes.scores == pytest.approx(episodes.rewards.sum(axis=1))


@pytest.mark.parametrize(
    ("space", "actions", "expected"),
    [
        (Box(np.array([0, -2]), np.array([1e3, 2]), dtype=np.float64), [[-1, 0.5], [0.5, 9]], [[0, 1], [750, 2]]),
        (Box(0.0, 10.0, (2, 1)), [[-0.5, 1.0]], [[[2.5], [10.0]]]),
        (Box(4.0, 6.0, ()), [[0.5]], [5.5]),
        (Box(3.0, 3.0, (1,)), [[0.5]], [[3.0]]),
        (Box(0.0, np.inf, (1,)), [[7.0], [-7.0]], [[7.0], [0.0]]),
        (Discrete(2, start=5), [0, 1], [5, 6]),
    ],
)
def test_a_policys_actions_fill_a_bounded_box(space: Any, actions: Any, expected: Any) -> None:
    found = to_space(space, np.array(actions))
    np.testing.assert_array_equal(found, expected)
    assert all(space.contains(each if found.ndim > 1 else np.asarray(each)[()]) for each in found)
    np.testing.assert_array_equal(to_space(space, from_space(space, found)), found)


def test_numbers_are_one_hot_from_the_first_on() -> None:
    task = dataclasses.replace(Control("FrozenLake-v1", horizon=5).build(), observed=Discrete(3, start=5))
    assert task.flat(np.array([7, 5])).tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_nobody_is_paid_after_the_end() -> None:
    task = Control("CartPole-v1", horizon=200).build()
    episodes = task.play(task.vector(50), lambda seen: np.zeros(len(seen), dtype=np.int64), seed=1)
    assert episodes.scores == pytest.approx(episodes.lengths)
    assert episodes.ended.all()
    assert 8 <= episodes.lengths.min() <= episodes.lengths.max() <= 11


def test_padding_ends_no_episode() -> None:
    """Time runs out after two steps; the next two, without a user, lead into a hole."""
    task = Control("FrozenLake-v1", horizon=4, kwargs="is_slippery=False, max_episode_steps=2").build()
    actions = iter([0, 0, 2, 1])
    episodes = task.play(task.vector(1, padded=True), lambda _: np.array([next(actions)]), seed=0, padded=True)
    assert (episodes.lengths.tolist(), episodes.ended.tolist()) == ([2], [False])


class Recorder:
    """An environment that ends its episodes after `length` steps and records how it is used."""

    def __init__(self, length: int) -> None:
        self.length, self.steps, self.total = length, 0, 0
        self.options: list[dict[str, int] | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, int] | None = None) -> tuple[int, dict[str, int]]:
        self.steps = 0
        self.options.append(options)
        return 0, {}

    def step(self, _: int) -> tuple[int, float, bool, bool, dict[str, int]]:
        self.steps, self.total = self.steps + 1, self.total + 1
        return 0, 1.0, self.steps == self.length, False, {}

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("padded", "steps"), [(False, [1, 3]), (True, [4, 4])])
def test_padded_copies_take_equally_many_steps(monkeypatch: pytest.MonkeyPatch, padded: bool, steps: list[int]) -> None:
    """Otherwise the time of a round would depend on the users' episodes."""
    copies = [Recorder(1), Recorder(3)]
    task, made = Control("FrozenLake-v1", horizon=4).build(), iter(copies)
    monkeypatch.setattr(gymnasium, "make", lambda *_, **__: next(made))
    vector = task.vector(2, padded=padded)
    episodes = task.play(vector, lambda seen: np.zeros(len(seen), dtype=np.int64), seed=0, padded=padded)
    assert [copy.total for copy in copies] == steps
    assert episodes.lengths.tolist() == episodes.scores.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("options", "told"), [(None, [None, None]), ({}, [{}, {}]), ({"agents": [7]}, [{"agent": 7}, {}])]
)
def test_every_copy_is_told_its_user(monkeypatch: pytest.MonkeyPatch, options: Any, told: list[Any]) -> None:
    copies = [Recorder(1), Recorder(1)]
    task, made = Control("FrozenLake-v1", horizon=4).build(), iter(copies)
    monkeypatch.setattr(gymnasium, "make", lambda *_, **__: next(made))
    task.vector(2).reset(seed=0, options=options)
    assert [copy.options for copy in copies] == [[each] for each in told]


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_finite_is_refused_or_in_episodes_of_users_counts_as_0(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    task = Control("Pendulum-v1", horizon=3).build()
    vector = task.vector(2)
    step = vector.step

    def broken(actions: np.ndarray) -> Any:
        found: Any = step(actions)
        found[place][1] = np.nan
        return found

    monkeypatch.setattr(vector, "step", broken)
    what = ("observations", "rewards")[place]
    with pytest.raises(ValueError, match=f"^Pendulum-v1 must have finite {what}, got nan or inf"):
        task.play(vector, lambda seen: np.zeros((len(seen), 1), dtype=np.float32), seed=0, checked=True)
    of_users = task.play(vector, lambda seen: np.zeros((len(seen), 1), dtype=np.float32), seed=0)
    assert (of_users.observations[1, 1:] == 0.0).all() if place == 0 else (of_users.rewards[1] == 0.0).all()


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"env_id": "NoSuch-v0"}, "env_id must be an environment of Gymnasium, got 'NoSuch-v0'"),
        (
            {"env_id": "Blackjack-v1", "horizon": 5},
            r"env_id must observe an array or a number, got Tuple.*; wrap it: dprl\.register_env\(",
        ),
        ({"horizon": 501}, "horizon must be at most 500 with CartPole-v1, got 501; lower it"),
        ({"horizon": 0}, "horizon must be an integer of at least 1"),
        ({"kwargs": "no=1"}, "kwargs must be those of CartPole-v1"),
        ({"source": "abc"}, "source must be [0-9a-f]{12}, the digest of CartPole-v1 as it is now, got 'abc'"),
    ],
)
def test_what_cannot_be_played_is_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Control(**fields)


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ValueError, match=r"^env_id must have its packages installed, got 'LunarLander-v3' .*pip"):
        Control("LunarLander-v3")


class Faulty(gymnasium.Env[Any, Any]):
    """Its reset or step returns something else than Gymnasium's interface."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def __init__(self, fault: str = "none") -> None:
        self.fault = fault

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        seen = np.zeros(3 if self.fault == "shape" else 2, np.float32)
        return seen if self.fault == "reset" else (seen, {})

    def step(self, action: Any) -> Any:
        rewards = {"array": np.ones(1), "none": np.float32(1.0), "flag": True, "text": "1", "empty": None}
        seen = np.zeros(2, np.float32)
        if self.fault == "four":
            return seen, 1.0, False, {}
        if self.fault == "error":
            raise KeyError("lost")
        return seen, rewards.get(self.fault, 1.0), False, False, {}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("none", None),
        ("flag", None),
        ("array", r"a number as the reward .*, got Faulty-v0 with an array .*\(1,\); return float\(reward\)"),
        ("text", "a number as the reward of a step, got Faulty-v0 with str; "),
        ("empty", "a number as the reward of a step, got Faulty-v0 with NoneType; "),
        (
            "four",
            r"got Faulty-v0 with .*\(expected 5, got 4\); .* step \(observation, reward, terminated, truncated, info\)",
        ),
        ("error", "that can be reset and take a step, got Faulty-v0 with KeyError: 'lost'; "),
        ("reset", r"with a reset that returns \(observation, info\), got Faulty-v0 with another value"),
        ("shape", r"with observations of shape \(2,\) from reset, .* got Faulty-v0 with shape \(3,\)"),
    ],
)
def test_an_environment_with_another_interface_is_refused_by_name(fault: str, told: str | None) -> None:
    gymnasium.register("Faulty-v0", lambda **_: Faulty(fault), max_episode_steps=5)
    try:
        if told is None:
            Control("Faulty-v0", horizon=5)
            return
        with pytest.raises(ValueError, match=told) as caught:
            Control("Faulty-v0", horizon=5)
        assert "\n" not in str(caught.value)
    finally:
        gymnasium.registry.pop("Faulty-v0")


# Environments of Gymnasium as MDPs: exact values, ends of episodes, mapped rewards.


def raw_value(spec: GymnasiumTable, value: float) -> float:
    """The value in the rewards of Gymnasium that a value of the MDP stands for."""
    low, high = spec.reward_range
    return spec.horizon * low + (high - low) * value


@pytest.mark.parametrize("slippery", [False, True])
def test_values_of_the_lake_are_those_of_episodes_in_gymnasium(slippery: bool) -> None:
    """An optimal policy in 4,000 episodes, within 6 standard errors of a coin: a false alarm in 1e-8."""
    horizon, episodes = 30, 4000
    mdp = GymnasiumTable("FrozenLake-v1", horizon, kwargs=f"is_slippery={slippery}").build()
    assert mdp.stationary
    policy = mdp.optimum()[1]
    lake = gymnasium.make("FrozenLake-v1", is_slippery=slippery, max_episode_steps=horizon)
    reached = 0.0
    lake.reset(seed=0)
    for _ in range(episodes):
        state, _ = lake.reset()
        for h in range(horizon):
            state, reward, terminated, truncated, _ = lake.step(int(policy[h, state]))
            reached += float(reward)
            if terminated or truncated:
                break
    value = mdp.optimal_start_value()
    assert abs(reached / episodes - value) <= 6.0 * np.sqrt(value * (1.0 - value) / episodes) + 1e-12
    assert slippery or value == 1.0


def test_rewards_are_mapped_and_an_ended_episode_earns_nothing() -> None:
    """The shortest way along the cliff has 13 steps of reward -1."""
    cliff = GymnasiumTable("CliffWalking-v1", 30)
    assert cliff.sizes == (30, 49, 4)
    assert raw_value(cliff, cliff.build().optimal_start_value()) == pytest.approx(-13.0)
    assert cliff.build().stationary


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        (
            {"env_id": "CartPole-v1"},
            r"add them \(30 lines: docs/extending/environment.md, or `dprl new env my_env`\), or take env: ",
        ),
        ({"env_id": "NoSuch-v0"}, "env_id must be an environment of Gymnasium, got 'NoSuch-v0'"),
        ({"kwargs": "map_name"}, "kwargs must be arguments with plain values, got 'map_name'"),
        ({"kwargs": "map_name=open('x')"}, "kwargs must be arguments with plain values"),
        ({"kwargs": "slippery=True"}, r"kwargs must be those of FrozenLake-v1, got \{'slippery': True\}"),
        ({"env_id": "Taxi-v3", "horizon": 200}, "needs transitions of at most 100000000 entries, got 200 steps"),
        ({"horizon": 0}, "horizon must be an integer of at least 1"),
    ],
)
def test_what_has_no_table_is_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        GymnasiumTable(**fields)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "ModuleNotFoundError: No module named "),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("unknown", "NameError: name 'unknown' is not defined"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError: invalid syntax "),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_in_one_line(
    source: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source is not None:
        (tmp_path / "dprl_test_corridors.py").write_text(f"{source}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    rule = r"^env_id must name a module that can be imported, got 'dprl_test_corridors:Corridor-v0' "
    with pytest.raises(ValueError, match=rf"{rule}\({reason}") as told:
        GymnasiumTable("dprl_test_corridors:Corridor-v0", 9)
    assert "\n" not in str(told.value)


class Corridor(gymnasium.Env[int, int]):
    """Two states; one action earns `reward` and stays, the other one leads back. Its table can be damaged."""

    observation_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def __init__(self, reward: float = 1.0, changes: dict[str, Any] | None = None) -> None:
        self.P: Any = {
            state: {0: [(1.0, 0, 0.0, False)], 1: [(0.5, 1, reward * state, False), (0.5, 0, 0.0, False)]}
            for state in range(2)
        }
        self.initial_state_distrib: Any = [1.0, 0.0]
        for attribute, value in (changes or {}).items():
            if attribute == "row":
                self.P[1][1] = value
            else:
                setattr(self, attribute, value)


def register(name: str, **fixed: Any) -> None:
    def creator(**kwargs: Any) -> gymnasium.Env[Any, Any]:
        return Corridor(**fixed, **kwargs)

    gymnasium.register(name, creator)


@pytest.fixture
def corridor() -> Iterator[str]:
    name = "dprl-test/Corridor-v0"
    register(name)
    yield name
    gymnasium.registry.pop(name)


def test_an_environment_that_was_registered_again_has_another_table(corridor: str) -> None:
    before = GymnasiumTable(corridor, 3)
    assert GymnasiumTable(corridor, 3, table=before.table) == before
    gymnasium.registry.pop(corridor)
    register(corridor, reward=0.5)
    now = GymnasiumTable(corridor, 3)
    assert now != before
    assert now.value_range == pytest.approx((0.0, before.value_range[1] / 2.0))
    with pytest.raises(ValueError, match=rf"table must be {now.table}, the digest .*, got '{before.table}'; omit it"):
        GymnasiumTable(corridor, 3, table=before.table)
    # The table goes along to a process that does not know the environment.
    gymnasium.registry.pop(corridor)
    register(corridor)
    assert pickle.loads(pickle.dumps(now)).build().optimal_start_value() == pytest.approx(now.value_range[1])


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"row": [(0.5, 1, 1.0, False)]}, r"P\[1\]\[1\] must sum to 1, got a sum that is off by -0.5; correct"),
        ({"row": [(0.99999, 1, 1.0, False)]}, "got a sum that is off by -1e-05; correct the environment"),
        ({"row": [(-1.0, 1, 1.0, False), (2.0, 1, 1.0, False)]}, r"must have probabilities in \[0, 1\], got -1"),
        ({"row": [(1.0, 1, math.inf, False)]}, "must have finite rewards, got inf"),
        ({"row": [(1.0, 2, 1.0, False)]}, r"must have next states in 0..1, got 2"),
        ({"row": [(1.0, 1, 1.0)]}, "must be a list of tuples"),
        ({"row": []}, "must be a list of tuples"),
        ({"row": 7}, "must be a list of tuples"),
        ({"P": {0: {0: [(1.0, 0, 0.0, False)]}, 2: {}}}, "P must have the keys 0, 1, ..., S - 1, got others"),
        ({"P": {0: {}}}, r"P\[0\] must have the keys 0, 1, ..., A - 1"),
        ({"P": {0: 7}}, r"P\[0\] must have the keys"),
        ({"P": {}}, "P must have the keys"),
        ({"initial_state_distrib": [1.0]}, "initial_state_distrib must be one probability for each of 2 states"),
        ({"initial_state_distrib": [0.7, 0.7]}, "initial_state_distrib must sum to 1, got a sum that is off by 0.4"),
        ({"initial_state_distrib": "x"}, "initial_state_distrib must be one probability"),
    ],
)
def test_damaged_tables_are_refused_in_one_line(corridor: str, changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        GymnasiumTable(corridor, 3, f"changes={changes!r}".replace("inf", "1e999"))


@pytest.mark.parametrize("third", [np.float32(1.0 / 3.0), 0.3333333])
def test_probabilities_of_a_few_digits_are_normalised(corridor: str, third: float, monkeypatch: Any) -> None:
    row = [(third, 0, 0.3, False), (third, 1, 0.3, False), (third, 1, 0.3, False)]
    table = {state: {0: row, 1: [(1.0, state, 0.7, False)]} for state in range(2)}
    monkeypatch.setattr(Corridor, "P", property(lambda _: table, lambda *_: None), raising=False)
    mdp = GymnasiumTable(corridor, 3).build()
    assert mdp.transitions[0, 0, 0].tolist() == pytest.approx([1.0 / 3.0, 2.0 / 3.0], abs=1e-12)
    assert mdp.rewards[0, 0, 0] == pytest.approx(0.3, abs=1e-12)


def test_rounding_of_constant_rewards_is_no_difference(corridor: str) -> None:
    """1/3 + 1/3 + 1/3 of 5 and 5 differ by 1e-15, an interval to which rewards would be mapped."""
    thirds = [(1.0 / 3.0, 0, 5.0 * (1.0 + 1e-15), False)] * 3
    table = {state: {0: [(1.0, 0, 5.0, False)], 1: thirds} for state in range(2)}
    with pytest.raises(ValueError, match="must be an environment with rewards that differ, got 5 everywhere"):
        GymnasiumTable(corridor, 3, f"changes={ {'P': table}!r}")


class Inverted(FrozenLakeEnv):
    """Its actions are others than those of its table; `change` has more differences."""

    def __init__(self, change: str = "none") -> None:
        super().__init__()
        self.change, self.taken = change, 0
        self.dealt = FrozenLakeEnv(success_rate=0.5).P

    def reset(self, **kwargs: Any) -> Any:
        super().reset(**kwargs)
        self.s = 4 if self.change == "start" else self.s
        return self.s, {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.change == "error":
            raise KeyError("lost")
        table = self.P
        self.P = self.dealt if self.change == "frequencies" else table
        state, reward, ended, _, _ = super().step(3 - action if self.change == "actions" else action)  # type: ignore[no-untyped-call]
        self.P = table
        return state, reward - 0.01 * (self.change == "fee"), ended, self.change == "cut" and self.taken > 5, {}


class Fickle(gymnasium.ActionWrapper[Any, Any, Any]):
    def action(self, action: Any) -> Any:
        return 3 - action


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("actions", r"in state \d+ action \d leads to state \d+"),
        ("fee", r"with reward -0\.01\)"),
        ("frequencies", "4000 steps have other frequencies"),
        ("start", "reset leads to state 4"),
        ("cut", "give the limit to gymnasium.register as max_episode_steps"),
        ("error", "it raises KeyError: 'lost'"),
        ("wrapped", "without wrappers that a table cannot have, got 'dprl-test/Other-v0' in Fickle"),
        ("none", None),
    ],
)
def test_an_environment_with_other_steps_than_its_table_is_refused(change: str, told: str | None) -> None:
    name = "dprl-test/Other-v0"
    wrapped = change == "wrapped"

    def creator(**_: Any) -> gymnasium.Env[Any, Any]:
        return Fickle(gymnasium.make("FrozenLake-v1")) if wrapped else Inverted(change)

    gymnasium.register(name, creator)
    try:
        if told is None:
            assert GymnasiumTable(name, 8).table == GymnasiumTable("FrozenLake-v1", 8).table
        else:
            with pytest.raises(ValueError, match=told) as caught:
                GymnasiumTable(name, 8)
            assert "\n" not in str(caught.value)
    finally:
        gymnasium.registry.pop(name)


def test_tables_of_gymnasium_follow_their_steps_except_for_the_fickle_passenger() -> None:
    for name, kwargs in (("Taxi-v3", "is_rainy=True"), ("CliffWalking-v1", "is_slippery=True"), ("FrozenLake-v1", "")):
        GymnasiumTable(name, 3, kwargs)
    with pytest.raises(ValueError, match=r"'Taxi-v3' \(in state \d+ action \d leads to state \d+ with reward -1\)"):
        GymnasiumTable("Taxi-v3", 3, "fickle_passenger=True")


def test_a_horizon_beyond_the_time_limit_is_refused() -> None:
    for kwargs, limit in (("", 100), ("max_episode_steps=7", 7)):
        with pytest.raises(
            ValueError, match=rf"horizon must be at most {limit} with FrozenLake-v1, .*, got 101; lower"
        ):
            GymnasiumTable("FrozenLake-v1", 101, kwargs)
    assert GymnasiumTable("FrozenLake-v1", 101, "max_episode_steps=101").horizon == 101


# Digests of environments without a file: other code or another captured value is another environment.

CELL = """
import gymnasium, numpy as np
UNIT = {unit}
def paid(action):
    return float(action) * (UNIT if isinstance(UNIT, float) else 1.0)
class Pay(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {{}}
    def step(self, action):
        return np.zeros(1, np.float32), paid(action) + {bonus}, False, False, {{}}
    def close(self):
        return ENDED
ENDED = {ended}
"""


def source(creator: Any, **kwargs: Any) -> str:
    gymnasium.registry.pop("Mine-v0", None)
    gymnasium.register("Mine-v0", creator, max_episode_steps=10, kwargs=kwargs)
    return Control("Mine-v0", horizon=5).source


def cell(file: str = "<ipython-input-1>", unit: object = 1.0, bonus: object = 0.0, ended: object = 0) -> Any:
    """The class Pay after a cell of a notebook has run. Its module has a file, which does not count."""
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(CELL.format(unit=unit, bonus=bonus, ended=ended), file, "exec"), found)
    return found["Pay"]


@pytest.mark.parametrize("file", ["<ipython-input-1>", "<string>", "/nowhere/ipykernel_1/2.py"])
def test_a_class_without_a_file_has_the_digest_of_its_code_and_values(file: str) -> None:
    first = source(cell(file))
    assert source(cell(file)) == source(cell("<stdin>")) == first
    assert len({first, source(cell(file, bonus=1.0)), source(cell(file, unit=2.0)), source(cell(file, ended=1))}) == 4
    assert source(cell(file, unit="np.array([1.0])")) != source(cell(file, unit="np.array([2.0])"))
    assert source(cell(file, unit="np.float32(1)")) == source(cell(file, unit="np.float32(1)")) != first


def test_a_base_and_a_class_attribute_without_a_file_count() -> None:
    def below(base: type) -> type:
        return type("Below", (base,), {"__module__": "__main__", "size": 3})

    assert source(below(cell())) == source(below(cell())) != source(below(cell(bonus=1.0)))
    other = below(cell())
    other.size = 4  # type: ignore[attr-defined]
    assert source(other) != source(below(cell()))


def test_values_in_closures_defaults_and_arguments_count() -> None:
    made: list[Callable[[Any], Any]] = [_closure, _default, _wrapper, _method]
    digests = [source(each(factor)) for each in made for factor in (1.0, 2.0)]
    assert len(set(digests)) == 2 * len(made)
    assert digests == [source(each(factor)) for each in made for factor in (1.0, 2.0)]
    assert source(_scaled, factor=1.0) != source(_scaled, factor=2.0)


class _Scaled(gymnasium.RewardWrapper[Any, Any]):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * (self.factor if isinstance(self.factor, float) else 1.0)


def _scaled(factor: float) -> Any:
    return _Scaled(factor)


def _closure(factor: float) -> Any:
    return lambda: _Scaled(factor)


def _default(factor: float) -> Any:
    return lambda f=factor: _Scaled(f)


def _wrapper(factor: float) -> Any:
    def make() -> Any:
        class Local(gymnasium.RewardWrapper[Any, Any]):
            def reward(self, reward: Any) -> float:
                return float(reward) * factor

        return Local(gymnasium.make("CartPole-v1"))

    return make


def _method(factor: float) -> Any:
    class Local(_Scaled):
        def reward(self, reward: Any) -> float:
            return float(reward) * factor

    return partial(Local)


def test_a_class_in_a_file_has_the_digest_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for env_id in ("CartPole-v1", "FrozenLake-v1", "Pendulum-v1"):
        file = Path(sys.modules[type(gymnasium.make(env_id).unwrapped).__module__].__file__ or "")
        assert Control(env_id, horizon=5).source == hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "my_pay.py"
    for unit in (1.0, 2.0):
        file.write_text(CELL.format(unit=unit, bonus=0.0, ended=0) + "class Sub(Pay):\n    size = 3\n")
        importlib.invalidate_caches()
        os.utime(file, (2.0**30 + unit, 2.0**30 + unit))
        module = importlib.reload(importlib.import_module("my_pay"))
        for creator in (module.Pay, module.Sub, "my_pay:Pay"):
            assert source(creator) == hashlib.sha256(file.read_bytes()).hexdigest()[:12]


@pytest.mark.parametrize(("value", "other"), [(np.exp, np.log), (re.compile("a+"), re.compile("b+")), ({1, 2}, {1, 3})])
def test_values_that_pickle_reduces_by_their_class_count(value: Any, other: Any) -> None:
    assert source(_closure(value)) == source(_closure(value)) != source(_closure(other))


def test_a_value_that_has_no_digest_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^env_id must be an environment that reads only values that can be pickled"):
        source(_closure(threading.Lock()))  # type: ignore[arg-type]


def test_a_changed_registration_is_another_environment() -> None:
    """Of one name, in one process."""
    seen = []
    for bonus in (1.0, 2.0, 1.0):
        register_env("Cell-v0", cell(bonus=bonus), max_episode_steps=10)
        seen.append(Control("Cell-v0", horizon=5).source)
    assert seen[0] == seen[2] != seen[1]
