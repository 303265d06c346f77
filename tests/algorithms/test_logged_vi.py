"""logged_vi: rows of a file count like the same simulated episodes, and other files are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from dprl.algorithms.offline_vi import LoggedVIConfig, OfflineVIConfig, _PessimisticVIConfig
from dprl.algorithms.tabular.simulator import play_stochastic
from dprl.envs import ENVIRONMENTS, Logged, LoggedEpisodes, RiverSwim, log_episodes
from dprl.platform.command_line import main
from dprl.platform.configs import config as config_files
from dprl.platform.configs.config import cells_of
from dprl.platform.errors import UserError
from dprl.platform.policies.loading import load_policy
from dprl.privacy import CountPrivacy, Streams

USERS = 40
SIZES: dict[str, Any] = {"n_states": 3, "n_actions": 2, "horizon": 4}
RIVER = RiverSwim(n_states=3, horizon=4)
CONFIG = """\
name: logs
algorithm: {{name: logged_vi}}
env: {{name: logged, file: {file}, n_states: 3, n_actions: 2, horizon: 4}}
privacy: {{model: {model}, epsilon: 5.0}}
episodes: {episodes}
seeds: 1
release: true
"""
Arrays = dict[str, np.ndarray]


def logged_arrays() -> Arrays:
    """The episodes that offline_vi simulates from the streams of `Streams(0, "same")`."""
    env, settings = RIVER.build(), OfflineVIConfig()
    users = settings.simulator(env, USERS + 1, Streams(0, "same"))
    policy, rows = settings.tables(env, USERS + 1).policy, []
    for user in range(1, USERS + 1):
        play_stochastic(users, policy, user)
        rows.append((users.device.states.copy(), users.device.actions.copy()))
    states, actions = (np.array(each) for each in zip(*rows, strict=True))
    return {"states": states, "actions": actions, "rewards": env.rewards[np.arange(4), states[:, :-1], actions]}


def write(folder: Path, **arrays: np.ndarray) -> Path:
    file = folder / "episodes.npz"
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file


def logged(folder: Path, **settings: Any) -> LoggedEpisodes:
    return Logged(str(write(folder, **logged_arrays())), **SIZES, **settings).build()


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize(
    "privacy", [CountPrivacy("none"), CountPrivacy("jdp", 20.0), CountPrivacy("ldp", 200.0)], ids=lambda p: p.model
)
def test_the_file_gives_the_counts_of_the_simulated_episodes(privacy: Any, stationary: bool, tmp_path: Path) -> None:
    learners = []
    for config, env in (
        (OfflineVIConfig(stationary=stationary, simulation="users"), RIVER.build()),
        (LoggedVIConfig(stationary=stationary), logged(tmp_path, stationary=stationary)),
    ):
        streams = Streams(0, "same")
        # Not that of LoggedVIConfig, which refuses noise of a seed.
        privatizer = _PessimisticVIConfig.privatizer(config, env, privacy, USERS + 1, streams)  # type: ignore[arg-type]
        learner: Any = config.build(env, privatizer, USERS + 1, streams)  # type: ignore[arg-type]
        learners.append((learner, learner.learn(USERS + 1)))
    (ours, found), (theirs, expected) = learners[1], learners[0]
    released = [one.privatizer.release() for one in (ours, theirs)]
    assert released[0].users == released[1].users == USERS
    assert np.array(released[0].values).tobytes() == np.array(released[1].values).tobytes()
    assert np.array_equal(ours.policy, theirs.policy)
    assert found == {name: expected[name] for name in ("saturated", "lower_bound")}


def test_noise_of_a_seed_and_another_number_of_users_are_refused(tmp_path: Path) -> None:
    env = logged(tmp_path)
    with pytest.raises(ValueError, match=r"^entropy must be os with logged_vi, got seed; .*: write noise: "):
        LoggedVIConfig().privatizer(env, CountPrivacy("jdp", 1.0), USERS + 1, Streams(0, "x"))
    with pytest.raises(ValueError, match=r"^episodes must be 41, the file's 40 users and one, got 40; "):
        LoggedVIConfig().privatizer(env, CountPrivacy("none"), USERS, Streams(0, "x"))


def test_no_record_is_part_of_the_identity_or_printed(tmp_path: Path) -> None:
    env = logged(tmp_path)
    users = LoggedVIConfig().simulator(env, USERS + 1, Streams(0, "x"))
    assert [part.size for part in users.identity()] == [4, 3]
    assert "array" not in repr(env) + repr(users)


def changed(key: str, value: float, at: tuple[int, int] = (7, 2)) -> Callable[[Arrays], Arrays]:
    def change(arrays: Arrays) -> Arrays:
        arrays[key][at] = value
        return arrays

    return change


BAD: dict[str, tuple[Callable[[Arrays], Arrays], str]] = {
    "state": (changed("states", 3), r"states\[7, 2\] must be in 0\.\.2, got another value \(not shown"),
    "action": (changed("actions", -1), r"actions\[7, 2\] must be in 0\.\.1"),
    "reward": (changed("rewards", 1.5), r"rewards\[7, 2\] must be a number in \[0, 1\]"),
    "NaN": (changed("rewards", np.nan), r"rewards\[7, 2\] must be a number in \[0, 1\]"),
    "start": (changed("states", 1, (5, 0)), r"states\[5, 0\] must be the first state 0"),
    "dtype": (lambda found: found | {"states": found["states"] * 1.0}, "states must hold integers, got float64"),
    "whole rewards": (lambda found: found | {"rewards": found["actions"]}, "rewards must hold floats, got int64"),
    "horizon": (lambda found: found | {"states": found["states"][:, 1:]}, r"states must have shape \[N, 5\]"),
    "users": (lambda found: found | {"actions": found["actions"][1:]}, r"actions must have shape .*, got \[39, 4\]"),
    "nobody": (lambda found: {key: array[:0] for key, array in found.items()}, r"states must have shape .*N >= 1"),
    "scalar": (lambda found: found | {"states": np.array(1)}, r"states must have shape .*, got \[\]"),
    "next state": (lambda found: found | {"next_states": found["actions"] + 2}, r"next_states\[\d+, \d\] must be in"),
    "next states": (lambda found: found | {"next_states": found["states"]}, r"next_states must have shape \[N, 4\]"),
    "missing": (lambda found: {"states": found["states"]}, "actions must be there beside states, rewards"),
    "pickled": (lambda found: found | {"actions": found["actions"].astype(object)}, "no Python objects, got"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_does_not_fit_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    file = write(tmp_path, **change(logged_arrays()))
    with pytest.raises(ValueError, match=message) as caught:
        Logged(str(file), **SIZES).build()
    assert repr(str(file)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_files_and_a_single_array_are_refused(tmp_path: Path) -> None:
    file, single = write(tmp_path, **logged_arrays()), tmp_path / "single.npy"
    np.save(single, np.zeros(3))
    content = file.read_bytes()
    changed_byte = bytes([*content[:300], content[300] ^ 0xFF, *content[301:]])
    for damaged in (*(content[:cut] for cut in (0, 1, 100, -40)), changed_byte, single.read_bytes()):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^file must be an undamaged \.npz of numbers"):
            Logged(str(file), **SIZES).build()


@pytest.mark.parametrize(
    "settings", [{"file": ""}, {"start": 3}, {"n_states": 0}, {"stationary": 1}], ids=lambda one: next(iter(one))
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(settings))} must be "):
        Logged(**(SIZES | settings))


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_releases_of_a_file_have_no_regret(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    file = tmp_path / "logs.yaml"
    file.write_text(CONFIG.format(file=write(tmp_path, **logged_arrays()), model=model, episodes=USERS + 1))
    assert main(["run", str(file)]) == 0
    files = list((tmp_path / "home").rglob("records.parquet"))
    assert files
    for records in files:
        columns = set(pd.read_parquet(records).columns)
        assert {"saturated", "lower_bound"} <= columns
        assert not {"regret", "regret_per_episode", "value", "optimum_gap"} & columns
    with pytest.raises(UserError, match="must be a cell with a simulated environment, got logged"):
        load_policy(next(file for file in (tmp_path / "home" / "sweeps").rglob("policy.npz")))


def test_users_of_plugins_environments_have_the_rules_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One private cell, and no record among a plugin's files: their digest names cells."""
    ward = type("Ward", (Logged,), {"name": "ward", "__module__": "ours"})
    monkeypatch.setitem(ENVIRONMENTS, "ward", ward)
    file = write(tmp_path, **logged_arrays())
    raw: dict[str, Any] = yaml.safe_load(CONFIG.format(file=file, model="jdp", episodes=USERS + 1))
    raw["env"]["name"] = "ward"
    assert len(cells_of(raw)) == 1
    with pytest.raises(UserError, match="must have one private cell"):
        cells_of({**raw, "privacy": {"model": "jdp", "epsilon": {"grid_search": [1.0, 2.0]}}})
    monkeypatch.setattr(config_files, "plugin_files", lambda: [("ours/users.npz", file.resolve())])
    with pytest.raises(UserError, match=r"^env\.file: must lie outside of plugins: their digest is in names of cells"):
        cells_of(raw)


def episode(observations: list[int], actions: list[int], rewards: list[float], **flags: list[bool]) -> SimpleNamespace:
    given = {"observations": observations, "actions": actions, "rewards": rewards, **flags}
    return SimpleNamespace(**{key: np.array(value) for key, value in given.items()})


def test_recorded_episodes_are_padded_cut_and_mapped(tmp_path: Path) -> None:
    """Episodes end after 2, 4 and 3 steps; state 3 comes after the end, and state 4 is the common first one."""
    users = [episode([0, 1, 2], [1, 0], [-1.0, 3.0]), episode([2, 2, 1, 0, 1], [0, 0, 1, 1], [0.0, 1.0, 1.0, 1.0])]
    users.append(episode([1, 2, 0], [1, 1, 0], [3.0, 3.0, 3.0]))  # without an observation after the last step
    sizes: dict[str, Any] = {"n_states": 3, "n_actions": 2, "horizon": 3, "reward_range": (-1.0, 3.0)}
    made = log_episodes(users, tmp_path / "users.npz", **sizes)
    found = made.build()
    assert (made.n_states, made.horizon, made.start) == (5, 4, 4)
    assert Path(made.file).stat().st_mode & 0o777 == 0o600  # for its owner only
    assert found.states[:, :4].tolist() == [[4, 0, 1, 3], [4, 2, 2, 1], [4, 1, 2, 0]]
    assert found.next_states.tolist() == [[0, 1, 3, 3], [2, 2, 1, 0], [1, 2, 0, 3]]
    assert found.actions.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0]]
    assert found.rewards.tolist() == [[0.0, 0.0, 1.0, 0.25], [0.0, 0.25, 0.5, 0.5], [0.0, 1.0, 1.0, 1.0]]
    same = log_episodes(users[:1], tmp_path / "one.npz", start=0, **sizes)
    assert (same.n_states, same.horizon, same.build().next_states.tolist()) == (4, 3, [[1, 3, 3]])
    with pytest.raises(ValueError, match="must be the first state 0"):
        log_episodes(users, tmp_path / "two.npz", start=0, **sizes)


ENDED, CUT = [False, True], [False, False]


@pytest.mark.parametrize(
    ("flags", "after"),
    [
        ({}, 3),
        ({"terminations": ENDED}, 3),
        ({"terminations": ENDED, "truncations": ENDED}, 3),
        ({"truncations": CUT}, 3),
        ({"terminations": CUT}, 2),
        ({"terminations": CUT, "truncations": ENDED}, 2),
        ({"truncations": ENDED}, 2),
    ],
)
@pytest.mark.parametrize("kind", [SimpleNamespace, dict])
def test_a_cut_episode_counts_up_to_the_cut_and_does_not_end(
    kind: Any, flags: dict[str, list[bool]], after: int, tmp_path: Path
) -> None:
    """After two steps a user is in state 2, or in state 3 if the episode ended; then visits of state 3 fill the row."""
    given = kind(observations=[0, 1, 2], actions=[1, 0], rewards=[0.5, 0.5], **flags)
    found = log_episodes([given], tmp_path / "users.npz", **SIZES, start=0).build()
    assert found.states[0, :4].tolist() == [0, 1, 3, 3]
    assert found.next_states.tolist() == [[1, after, 3, 3]]
    assert found.rewards.tolist() == [[0.5, 0.5, 0.0, 0.0]]


def test_the_last_step_of_a_stationary_log_counts_nowhere(tmp_path: Path) -> None:
    """Whether an episode ended there, and with or without the observation after it: the row must be the same."""
    states, actions, rewards = [0, 1, 2, 0], [1, 0, 1, 1], [0.5] * 4
    ends = [False] * 3
    users = [
        episode([*states, 2], actions, rewards, terminations=[*ends, True]),
        episode([*states, 2], actions, rewards, terminations=[*ends, False]),
        episode(states, actions, rewards, truncations=[*ends, True]),
        episode([*states, 2, 1], [*actions, 0], [*rewards, 0.5], terminations=[*ends, False, True]),
    ]
    found = log_episodes(users, tmp_path / "users.npz", **SIZES, start=0, stationary=True).build()
    for array, row in ((found.states[:, :4], [0, 1, 2, 3]), (found.next_states, [1, 2, 0, 3])):
        assert array.tolist() == [row] * 4
    assert found.rewards.tolist() == [[0.5, 0.5, 0.5, 0.0]] * 4
    short = episode(states[:3], actions[:3], rewards[:3], terminations=[*ends[1:], True])
    ended = log_episodes([short], tmp_path / "short.npz", **SIZES, start=0, stationary=True).build()
    assert ended.next_states.tolist() == [[1, 2, 3, 3]]


@pytest.mark.parametrize(
    ("reward", "ends", "mapped"),
    [(np.float32(-0.1), (-0.1, 1.0), 0.0), (0.1 + 0.2, (0.0, 0.3), 1.0), (np.float32(0.1), (-100.0, 0.1), 1.0)],
)
def test_a_reward_at_the_edge_of_the_range_is_rounded_to_it(
    reward: float, ends: tuple[float, float], mapped: float, tmp_path: Path
) -> None:
    given = episode([0, 1], [1], [reward])
    assert log_episodes([given], tmp_path / "one.npz", **SIZES, reward_range=ends).build().rewards[0, 1] == mapped


@pytest.mark.parametrize(
    ("given", "more", "told"),
    [
        (episode([0, 7], [1], [0.0]), {}, r"observations must be in 0..2, got another value"),
        (episode([0, 1], [1], [0.5, 0.5]), {}, "a reward for each action"),
        (episode([0, 1], [1], [5.0]), {}, r"must be a number in \[0, 1\], got another value"),
        (episode([0, 1], [4], [0.5]), {}, r"must be in 0..1, got another value"),
        (episode([0, 1], [1], [0.5]), {"reward_range": (0.5, 1.0)}, "reward_range must hold 0"),
        (episode([0, 1], [1], [0.5]), {"reward_range": (-np.inf, 1.0)}, "reward_range must be finite"),
        (episode([0, 1], [1], [0.5]), {"reward_range": (-1e308, 1e308)}, "reward_range must be finite"),
        (episode([0, 1], [1], [0.5]), {"start": 3}, r"start must be in 0\.\.2, got 3"),
        (SimpleNamespace(observations=[[0], [1, 2]], actions=[0], rewards=[0.0]), {}, "one integer a step"),
        (episode([0, 1], [1], ["one"]), {}, "rewards must be one number a step"),  # type: ignore[list-item]
        (SimpleNamespace(observations=np.zeros((2, 3)), actions=np.zeros(1), rewards=np.zeros(1)), {}, "one integer"),
        (
            SimpleNamespace(observations=[0], actions=np.zeros(0, int), rewards=[]),
            {},
            "an observation and a reward for each action",
        ),
        (episode([0, 1], [1, 0], [0.5, 0.5], truncations=ENDED), {}, "must have an observation after their last"),
        (episode([0, 1, 2], [1, 0], [0.5, 0.5], terminations=[True, False]), {}, "true at the last one only"),
        (episode([0, 1, 2], [1, 0], [0.5, 0.5], truncations=[True]), {}, "false or true for each action"),
        (episode([0, 1, 2], [1, 0], [0.5, 0.5], dones=ENDED), {}, "must name their flags terminations and truncations"),
    ],
)
def test_episodes_that_do_not_fit_are_refused_without_a_value_of_theirs(
    given: SimpleNamespace, more: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        log_episodes([given], tmp_path / "users.npz", **SIZES, **more)
    both = [episode([0, 1], [1], [0.5]), episode([0, 1], [1], [0.5], terminations=[True])]
    with pytest.raises(ValueError, match="must all have terminations, or none of them"):
        log_episodes(both, tmp_path / "users.npz", **SIZES)
    assert not any(f"got {value}" in str(caught.value) for value in (7, 5.0, 4, "one"))
    assert not (tmp_path / "users.npz").exists()
    with pytest.raises(ValueError, match=r"file must end in \.npz, got 'users'"):
        log_episodes([given], "users", **SIZES)


def test_a_release_that_proves_nothing_says_so_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the number of users that it names it proves something: the yardstick is this file, with rewards of 1."""
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))

    def spread(users: int) -> str:
        visits = np.arange(users)
        states = np.stack([visits % 2 if h else np.zeros(users, dtype=np.int64) for h in range(3)], axis=1)
        actions = np.stack([visits // 2 % 2, visits // 4 % 2], axis=1)
        sizes = "n_states: 2, n_actions: 2, horizon: 2"
        (tmp_path / "logs.yaml").write_text(
            CONFIG.format(
                file=write(tmp_path, states=states, actions=actions, rewards=np.ones((users, 2))),
                model="jdp",
                episodes=users + 1,
            ).replace("n_states: 3, n_actions: 2, horizon: 4", sizes)
        )
        return str(tmp_path / "logs.yaml")

    assert main(["run", spread(USERS)]) == 0
    told = capsys.readouterr()
    before = re.search(r"a release of 40 users proves nothing .*: about ([0-9,]+) users are needed; take", told.err)
    assert before
    assert told.err.index("proves nothing") < told.err.index("running 1 cell")
    assert re.search(r"the release proves nothing \(lower bound 0\); actions are arbitrary in \d+% of all", told.out)
    enough = int(before[1].replace(",", ""))
    assert main(["certify", spread(enough // 2)]) == 0
    assert "proves nothing" in capsys.readouterr().err
    assert main(["run", spread(enough), "--name", "enough"]) == 0
    told = capsys.readouterr()
    assert "proves nothing" not in told.err + told.out
