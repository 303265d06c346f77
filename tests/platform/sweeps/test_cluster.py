"""Ray on this machine: a start that takes too long is repeated, and reported in one line; what trials ask of Ray."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune
from ray._private.node import Node

from dprl.platform.errors import UserError
from dprl.platform.sweeps.cluster import _trainable, connected
from dprl.platform.sweeps.execution import TrialOptions
from dprl.platform.sweeps.sweep import open_executor
from dprl.platform.sweeps.trial import CellTrial
from tests.platform.tracking.cases import cells_in

TOO_LATE = "The current node timed out during startup. This could happen because some of the raylet failed to startup."


class Starts:
    """A fake `ray.init` whose first calls fail."""

    def __init__(self, failing: int, error: Exception) -> None:
        self.failing = failing
        self.error = error
        self.calls = 0

    def __call__(self, **_: Any) -> None:
        self.calls += 1
        if self.calls <= self.failing:
            raise self.error


@pytest.fixture
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "shutdown", lambda: None)


@pytest.mark.usefixtures("_fake")
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_start_that_takes_too_long_is_tried_again(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(failing, Exception(TOO_LATE))
    monkeypatch.setattr(ray, "init", starts)
    with connected(None) as cluster:
        assert cluster.n_cpus == 2
    assert starts.calls == failing + 1


@pytest.mark.usefixtures("_fake")
@pytest.mark.parametrize(
    ("address", "told"), [(None, "starting Ray on this machine ..."), ("auto", "joining Ray at auto ...")]
)
def test_a_running_ray_is_joined_and_not_started(
    address: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "init", Starts(0, Exception()))
    said: list[str] = []
    with open_executor("tune", address, TrialOptions(tmp_path, 0, said.append), said.append):
        assert said == [told]


@pytest.mark.usefixtures("_fake")
def test_a_machine_that_stays_busy_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(9, Exception(TOO_LATE))
    monkeypatch.setattr(ray, "init", starts)
    with pytest.raises(UserError, match=r"^Ray: must start on this machine, and did not in 3 attempts ") as told:
        connected(None).__enter__()
    assert TOO_LATE in str(told.value)
    assert "`dprl run`" in str(told.value)
    assert starts.calls == 3


@pytest.mark.usefixtures("_fake")
def test_a_cluster_that_is_not_there_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(9, ConnectionError("nobody there"))
    monkeypatch.setattr(ray, "init", starts)
    with pytest.raises(UserError, match=r"^address: must be usable by Ray \(nobody there\), got '10.0.0.1:6379'"):
        connected("10.0.0.1:6379").__enter__()
    assert starts.calls == 1


@pytest.mark.usefixtures("_fake")
def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", Starts(9, TypeError("init() got an unexpected keyword argument")))
    with pytest.raises(TypeError):
        connected(None).__enter__()


@pytest.mark.parametrize(
    ("memories", "cpus", "asked"),
    [
        ((None, None), 1, None),
        ((4.0, None), 1, [{"CPU": 1, "memory": 4_000_000_000}, {"CPU": 1}]),
        ((None, 0.5), 1, [{"CPU": 1}, {"CPU": 1, "memory": 500_000_000}]),
        ((4.0, 0.5), 1, [{"CPU": 1, "memory": 4_000_000_000}, {"CPU": 1, "memory": 500_000_000}]),
        ((None, None), 2, [{"CPU": 2}, {"CPU": 2}]),
    ],
)
def test_each_cell_reserves_its_cpus_and_the_memory_that_it_asks_for(
    memories: tuple[float | None, ...],
    cpus: int,
    asked: list[dict[str, int]] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one CPU and no memory, Ray's default is enough."""
    cells = {
        cell.digest: dataclasses.replace(cell, experiment=dataclasses.replace(cell.experiment, memory=memory))
        for cell, memory in zip(cells_in(tmp_path), memories, strict=True)
    }
    monkeypatch.setattr(tune, "with_parameters", lambda trial, **_: trial)
    monkeypatch.setattr(tune, "with_resources", lambda _, resources: [resources({"cell": one}) for one in cells])
    found = _trainable(cells, cpus)
    assert (found is CellTrial) == (asked is None)
    assert asked is None or [one.bundles for one in found] == [[bundle] for bundle in asked]


@pytest.mark.slow
@pytest.mark.cluster
def test_what_a_failed_start_left_running_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray fails after its processes have started and before it knows the node."""
    left: list[int] = []
    original = Node.__init__

    def too_late(self: Node, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        if not left:
            left.extend(one.process.pid for kind in self.all_processes.values() for one in kind)
            raise Exception(TOO_LATE)

    monkeypatch.setattr(Node, "__init__", too_late)
    monkeypatch.setenv("DPRL_NUM_CPUS", "1")
    with connected(None) as cluster:
        assert cluster.n_cpus == 1
        assert len(left) > 2
        for pid in left:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
