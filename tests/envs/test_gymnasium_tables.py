"""Environments of Gymnasium as MDPs: exact values, ends of episodes, mapped rewards."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

from dprl.envs import GymnasiumTable


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
        (
            {"env_id": "Taxi-v3", "horizon": 200},
            "gymnasium needs transitions of at most 100000000 entries, got 200 steps",
        ),
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
    for env_id, kwargs in (
        ("Taxi-v3", "is_rainy=True"),
        ("CliffWalking-v1", "is_slippery=True"),
        ("FrozenLake-v1", ""),
    ):
        GymnasiumTable(env_id, 3, kwargs)
    with pytest.raises(ValueError, match=r"'Taxi-v3' \(in state \d+ action \d leads to state \d+ with reward -1\)"):
        GymnasiumTable("Taxi-v3", 3, "fickle_passenger=True")


def test_a_horizon_beyond_the_time_limit_is_refused() -> None:
    for kwargs, limit in (("", 100), ("max_episode_steps=7", 7)):
        with pytest.raises(
            ValueError, match=rf"horizon must be at most {limit} with FrozenLake-v1, .*, got 101; lower"
        ):
            GymnasiumTable("FrozenLake-v1", 101, kwargs)
    assert GymnasiumTable("FrozenLake-v1", 101, "max_episode_steps=101").horizon == 101
