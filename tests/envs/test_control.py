"""Any environment of Gymnasium as a control task: one episode per user, and refusals."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from dprl.envs import Control


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
            seen, reward, terminated, truncated, _ = env.step(task.to_env(episodes.actions[user, t : t + 1])[0])
            assert reward == pytest.approx(episodes.rewards[user, t])
        assert terminated == episodes.ended[user]
        assert terminated or truncated or episodes.lengths[user] == 40
    assert episodes.scores == pytest.approx(episodes.rewards.sum(axis=1))


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
        (
            "array",
            r"a number as the reward of a step, got Faulty-v0 with an array of shape \(1,\); return float\(reward\)",
        ),
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
