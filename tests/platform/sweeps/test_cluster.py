"""Ray on this machine: a start that takes too long is repeated, and reported in one line."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray
from ray._private.node import Node

from dprl.platform.errors import UserError
from dprl.platform.sweeps.cluster import connected

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
