"""The learning loop: what one user leaves on the device never becomes a part of the next user's message."""

from __future__ import annotations

from typing import Any

import numpy as np

from dprl.algorithms import ALGORITHMS, PrivateUCBVIConfig
from dprl.algorithms.tabular import learning_loop
from dprl.compiled import no_alloc_kernel
from dprl.envs import RiverSwim
from dprl.privacy import NoPrivacy, Streams
from tests.algorithms.cases import EACH, Environments


@no_alloc_kernel
def _plan(counts: Any, bonus: Any, tables: Any) -> tuple[bool, float]:
    return False, 0.0


@no_alloc_kernel
def _play(simulator: Any, policy: Any, user: int) -> None:
    """The first user takes three steps, and everyone else one."""
    device = simulator.device
    for step in range(3 if user == 1 else 1):
        device.cells[step, :] = 5
        device.amounts[step, :] = 1.0


def test_a_user_who_leaves_early_sends_nothing_for_later_steps() -> None:
    mdp, streams = RiverSwim(n_states=3, horizon=3).build(), Streams(0, "early")
    settings: Any = type("Early", (PrivateUCBVIConfig,), {"run": staticmethod(learning_loop(_plan, _play))})()
    learner = settings.build(mdp, settings.privatizer(mdp, NoPrivacy(), 4, streams), 4, streams)
    learner.learn(4)
    counts = learner.privatizer.release()
    assert counts.users == 3
    assert learner.privatizer.query.family(counts, "visits").sum(axis=1).tolist() == [3.0, 1.0, 1.0]


@EACH
def test_our_kernels_write_the_whole_device(name: str, envs: Environments[Any]) -> None:
    config: Any = ALGORITHMS[name]()
    users, policy = config.simulator(envs.random, 9, Streams(0, "device")), config.tables(envs.random, 9).policy
    left: list[Any] = []
    for before in (-1, 7):
        users.device.cells[:], users.device.amounts[:] = before, before
        config.run.py_func.__globals__["play"](users, policy, 1)
        left.append((users.device.cells.copy(), users.device.amounts.copy()))
    for first, second in zip(*left, strict=True):
        assert np.array_equal(first, second)
    assert left[0][0].min() >= 0
