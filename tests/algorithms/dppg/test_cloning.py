"""Behaviour cloning of logged users: the file, one update for each user, and learning under privacy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dprl.algorithms import DPBCConfig
from dprl.algorithms.base import Float64Array
from dprl.envs import ControlLog, LoggedControl, log_trajectories
from dprl.platform.configs.config import cells_of, require_one_release
from dprl.platform.errors import UserError
from dprl.platform.tuning import trainable
from dprl.privacy import GradientPrivacy, Streams

SIZES: dict[str, Any] = {"horizon": 12, "observation_size": 3, "n_actions": 2}


def users(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Users who take action 1 where the first observation is positive; each paid the number of the step."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        seen = rng.standard_normal((int(rng.integers(3, 12)), 3))
        taken = (seen[:, 0] > 0.0).astype(np.int64)
        found.append({"observations": seen, "actions": taken, "rewards": np.arange(len(seen), dtype=float)})
    return found


def logged(folder: Path, n: int, **settings: Any) -> LoggedControl:
    return log_trajectories(users(n), folder / "users.npz", **SIZES, **settings).build()


def learned(env: LoggedControl, privacy: GradientPrivacy, episodes: int, **settings: Any) -> Float64Array:
    config = DPBCConfig(**{"users_per_update": 10, "hidden": "4", **settings})
    streams = Streams(3, "cloning")
    learner = config.build(env, config.privatizer(env, privacy, episodes, streams), episodes, streams)
    learner.learn(episodes)
    return learner.policy


def agreement(env: LoggedControl, theta: Float64Array) -> float:
    """Share of logged actions that the policy takes."""
    network = DPBCConfig(hidden="4").network(env.task)
    return float((network.acting(theta, None)(env.observations) == env.actions).mean())


def test_a_log_holds_each_users_steps_up_to_the_horizon(tmp_path: Path) -> None:
    made = users(4)
    made[2] = {key: np.concatenate([array] * 5) for key, array in made[2].items()}
    as_attributes = [SimpleNamespace(**each) for each in made]  # as Minari has them
    spec = log_trajectories(as_attributes, tmp_path / "users.npz", **SIZES)
    assert spec == ControlLog(str(tmp_path / "users.npz"), **SIZES)
    episodes = spec.build().episodes(np.array([3, 1]))
    assert episodes.lengths.tolist() == [12, len(made[0]["actions"])]
    for row, user in enumerate((2, 0)):
        n = episodes.lengths[row]
        np.testing.assert_allclose(episodes.observations[row, :n], made[user]["observations"][:n], rtol=1e-6)
        np.testing.assert_array_equal(episodes.actions[row, :n], made[user]["actions"][:n])
        np.testing.assert_array_equal(episodes.rewards[row, :n], made[user]["rewards"][:n])
        assert not episodes.observations[row, n:].any()


def test_a_logs_actions_are_scaled_from_the_simulators_box(tmp_path: Path) -> None:
    torques = np.array([[-2.0], [0.5], [2.0]])
    made = {"observations": np.zeros((3, 3)), "actions": torques, "rewards": np.zeros(3)}
    env = log_trajectories([made], tmp_path / "users.npz", env_id="Pendulum-v1", horizon=3).build()
    np.testing.assert_array_equal(env.episodes(np.array([1])).actions[0], torques / 2.0)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"actions": np.array([0, 5, 0])}, "steps must be finite numbers, and actions in 0..n_actions - 1"),
        ({"rewards": np.array([0.0, np.nan, 0.0])}, "steps must be finite numbers"),
        ({"rewards": np.zeros(2)}, "^actions of each episode must be 1 numbers a step"),
        ({"observations": np.zeros((3, 2))}, "^observations of each episode must be 3 numbers a step"),
        ({"observations": np.zeros((5, 3))}, "^observations of each episode must be 3 numbers a step"),
        ({"actions": None}, "^actions of each episode must be 1 numbers a step"),
    ],
)
def test_a_wrong_log_is_refused_without_its_values_and_nothing_is_written(
    tmp_path: Path, change: dict[str, Any], rule: str
) -> None:
    wrong = {"observations": np.full((3, 3), 0.123), "actions": np.zeros(3, int), "rewards": np.zeros(3)} | change
    with pytest.raises(ValueError, match=rule) as caught:
        log_trajectories([*users(2), wrong], tmp_path / "users.npz", **SIZES)
    assert "0.123" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_update_is_the_gradient_of_the_mean_log_probability_with_the_users_weight(tmp_path: Path) -> None:
    env = logged(tmp_path, 30, lowest_return=0.0, highest_return=66.0)
    streams, privacy = Streams(3, "cloning"), GradientPrivacy("none")
    config = DPBCConfig(users_per_update=10, hidden="4", sharpness=2.0)
    learner: Any = config.build(env, config.privatizer(env, privacy, 30, streams), 30, streams)
    theta, episodes = learner.policy, env.episodes(np.array([7, 2]))
    found, radius = learner._rollout.updates(theta, episodes), learner._rollout.radius
    for row in range(2):
        n, point = int(episodes.lengths[row]), torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        seen, taken = torch.as_tensor(episodes.observations[row, :n]), torch.as_tensor(episodes.actions[row, :n])
        (-learner._rollout.policy.evaluate(point, seen, taken)[0].mean()).backward()
        assert point.grad is not None
        expected = point.grad.double().numpy()
        weight = np.exp(-2.0 * (66.0 - episodes.scores[row]) / 66.0)
        np.testing.assert_allclose(found[row], weight * radius * expected / np.linalg.norm(expected), atol=1e-6)


def test_an_extreme_record_changes_no_other_users_update(tmp_path: Path) -> None:
    made = users(30)
    for each, scale in zip(made[:2], (1e29, -1e29), strict=True):
        each["observations"] = np.full((3, 3), scale)
        each["rewards"], each["actions"] = np.full(3, scale), np.zeros(3, dtype=int)
    updates = []
    for log in (made, [*users(2, seed=8), *made[2:]]):
        env = log_trajectories(log, tmp_path / "users.npz", **SIZES).build()
        config, streams = DPBCConfig(users_per_update=30, hidden="4"), Streams(3, "cloning")
        privatizer = config.privatizer(env, GradientPrivacy("none"), 30, streams)
        learner: Any = config.build(env, privatizer, 30, streams)
        updates.append(learner._round(1)[0])
    np.testing.assert_array_equal(updates[0][2:], updates[1][2:])
    assert np.isfinite(updates[0]).all()
    for wrong in (1e39, np.inf, np.nan):
        made[0]["observations"] = np.full((3, 3), wrong)
        with pytest.raises(ValueError, match="steps must be finite numbers"):
            log_trajectories(made, tmp_path / "users.npz", **SIZES)


def test_a_round_that_nobody_joins_is_released_like_others(tmp_path: Path) -> None:
    drawn = GradientPrivacy("jdp", 10.0, 1e-6, sampling="poisson", population=30)
    assert np.isfinite(learned(logged(tmp_path, 30), drawn, 40, users_per_update=1)).all()


def test_it_imitates_users_and_noise_costs_agreement(tmp_path: Path) -> None:
    env = logged(tmp_path, 400)
    none = learned(env, GradientPrivacy("none"), 400, learning_rate=0.1)
    central = learned(env, GradientPrivacy("jdp", 10.0, 1e-6), 400, learning_rate=0.1)
    drawn = GradientPrivacy("jdp", 10.0, 1e-6, sampling="poisson", population=400)
    sampled = learned(env, drawn, 1200, learning_rate=0.1)
    scores = [agreement(env, theta) for theta in (none, central, sampled)]
    assert min(scores) > 0.8, scores
    assert agreement(env, learned(env, GradientPrivacy("jdp", 0.01, 1e-6), 400, learning_rate=0.1)) < scores[0]


def test_replacing_a_user_changes_the_round_of_this_user_only(tmp_path: Path) -> None:
    """Without noise, so that nothing hides a change: parameters before round 3 do not depend on user 25."""
    made = users(30)
    first = log_trajectories(made, tmp_path / "one.npz", **SIZES).build()
    made[24] = users(1, seed=9)[0]
    other = log_trajectories(made, tmp_path / "two.npz", **SIZES).build()
    for until, same in ((20, True), (30, False)):
        one, two = (learned(env, GradientPrivacy("none"), until) for env in (first, other))
        assert np.array_equal(one, two) is same


def test_a_log_is_released_once_under_secret_noise(tmp_path: Path) -> None:
    log_trajectories(users(40), tmp_path / "users.npz", **SIZES)
    drawn = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "sampling": "poisson", "population": 40}
    turns = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "release_scores": "none"}
    raw: dict[str, Any] = {
        "name": "cloned",
        "algorithm": {"name": "dp_bc", "users_per_update": 10, "hidden": "4"},
        "env": {"name": "control_log", "file": str(tmp_path / "users.npz"), **SIZES},
        "privacy": drawn,
        "noise": {"entropy": "os"},
        "episodes": 40,
        "seeds": 1,
    }
    exact = {"noise": {"arithmetic": "exact", "entropy": "os"}, "release": True}
    for change in ({}, {"privacy": turns, **exact}):
        assert cells_of(raw | change)[0].certificate().to_dict()["verdict"] == "holds"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"seeds": 2}, "seeds: must be 1"),
        ({"noise": {}}, "noise.entropy must be os"),
        ({"privacy": turns}, "release must be true"),
        ({"privacy": drawn | {"epsilon": {"grid_search": [1.0, 2.0]}}}, "must have one private cell"),
    ]
    for change, rule in refused:
        with pytest.raises(UserError, match=rule):
            require_one_release(cells_of(raw | change))
    with pytest.raises(UserError, match="must not hold users' records in a search"):
        trainable(raw).experiment({"seed": 3})


@pytest.mark.parametrize(
    ("privacy", "episodes", "settings", "rule"),
    [
        (GradientPrivacy("none"), 50, {}, "^episodes must be at most 30, updates of the 30 users in the log, got 50"),
        (GradientPrivacy("jdp", 1.0, 1e-6, sampling="poisson", population=40), 50, {}, "^population must be 30"),
        (GradientPrivacy("none"), 30, {"sharpness": 1.0}, "^sharpness must be 0 without bounds of returns"),
    ],
)
def test_a_run_that_does_not_fit_the_log_is_refused(
    tmp_path: Path, privacy: GradientPrivacy, episodes: int, settings: dict[str, Any], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        learned(logged(tmp_path, 30), privacy, episodes, **settings)
