"""The learning loop: what one user leaves on the device never becomes a part of the next user's message."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, PrivateUCBVIConfig
from dprl.algorithms.tabular import learning_loop
from dprl.algorithms.tabular.simulator import clear_device, write_contribution
from dprl.compiled import no_alloc_kernel
from dprl.envs import Env, FiniteMDP, RiverSwim
from dprl.privacy import CountPrivacy, Streams
from tests.algorithms.cases import TABULAR, Environments
from tests.algorithms.test_logged_vi import logged


def _plan(counts: Any, bonus: Any, tables: Any) -> tuple[bool, float]:
    """No kernel, so that the loop runs uncompiled."""
    return False, 0.0


@no_alloc_kernel
def _write_some_cells(simulator: Any, policy: Any, user: int) -> None:
    """The first user takes three steps, and everyone else one; all are in state 2."""
    device = simulator.device
    for step in range(3 if user == 1 else 1):
        device.cells[step, :] = 5
        device.amounts[step, :] = 1.0


@no_alloc_kernel
def _write_some_states(simulator: Any, policy: Any, user: int) -> None:
    """The same; the trajectory is turned into a contribution of three steps for everyone."""
    device = simulator.device
    for step in range(3 if user == 1 else 1):
        device.states[step], device.actions[step] = 2, 1
    write_contribution(device.states, device.actions, simulator.observed, device.cells, device.amounts)


class _NotingBuffer(NamedTuple):
    """A plugin's device with an array of its own."""

    cells: np.ndarray
    amounts: np.ndarray
    notes: np.ndarray


class _NotingSimulator(NamedTuple):
    device: _NotingBuffer
    episodes: int
    key: np.ndarray

    def identity(self) -> tuple[np.ndarray, ...]:
        return (self.key,)


def _noting_simulator(self: Any, env: FiniteMDP, episodes: int, streams: Streams) -> _NotingSimulator:
    device = _NotingBuffer(np.zeros((3, 3), np.int64), np.zeros((3, 3)), np.zeros(3))
    return _NotingSimulator(device, episodes, streams.key("env"))


@no_alloc_kernel
def _write_some_notes(simulator: Any, policy: Any, user: int) -> None:
    """The same; a step contributes as often as it is noted."""
    device = simulator.device
    for step in range(3 if user == 1 else 1):
        device.notes[step] = 1.0
    for step in range(3):
        device.cells[step, :] = 5
        device.amounts[step, :] = device.notes[step]


@no_alloc_kernel
def _no_regret(simulator: Any, policy: Any) -> float:
    return 0.0


@pytest.mark.parametrize("play", [_write_some_cells, _write_some_states, _write_some_notes])
def test_a_user_who_leaves_early_sends_nothing_of_the_user_before(play: Any) -> None:
    mdp, streams = RiverSwim(n_states=3, horizon=3).build(), Streams(0, "early")
    parts: dict[str, Any] = {"run": staticmethod(learning_loop(_plan, play))}
    if play is _write_some_notes:
        parts = {"run": staticmethod(learning_loop(_plan, play, _no_regret)), "simulator": _noting_simulator}
    settings: Any = type("Early", (PrivateUCBVIConfig,), parts)()
    learner = settings.build(mdp, settings.privatizer(mdp, CountPrivacy("none"), 4, streams), 4, streams)
    learner.learn(4)
    counts = learner.privatizer.release()
    assert counts.users == 3
    last_pair = learner.privatizer.query.family(counts, "visits")[:, 5]
    assert last_pair.tolist() == [3.0, 1.0, 1.0]


_SETTINGS = [
    (name, {option: True} if option else {})
    for name in [*TABULAR, "logged_vi"]
    for option in ("", "known_transitions", "stationary")
    if not option or hasattr(ALGORITHMS[name], option)
]


@pytest.mark.parametrize(("name", "options"), _SETTINGS)
def test_what_a_user_leaves_depends_on_no_other(
    name: str, options: dict[str, Any], environments: dict[type[Env], Environments[Any]], tmp_path: Path
) -> None:
    config: Any = ALGORITHMS[name](**options)
    if name == "logged_vi":
        env: Any = logged(tmp_path, stationary=config.stationary)
    elif config.plays is FiniteMDP:
        env = RiverSwim(n_states=4, horizon=5).build()
    else:
        env = environments[config.plays].random
    users, policy = config.simulator(env, 9, Streams(0, "device")), config.tables(env, 9).policy
    play, left = config.run.play, list[Any]()
    for before in (-1, 7):
        for array in users.device:
            array[:] = before
        for user in (2, 1) if before == 7 else (1,):
            clear_device(users)
            play(users, policy, user)
        left.append((users.device.cells.copy(), users.device.amounts.copy()))
    for first, second in zip(*left, strict=True):
        assert np.array_equal(first, second)
    assert left[0][0].min() >= 0
    assert set(left[0][1].ravel().tolist()) - {0.0}
