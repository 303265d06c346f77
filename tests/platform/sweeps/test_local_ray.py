"""A server process of the local Ray dies: the sweep notices, ends the other processes, and does not wait for Ray."""

from __future__ import annotations

import atexit
import signal
import subprocess
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import ray

from dprl.platform.errors import EXIT_SOME_FAILED
from dprl.platform.sweeps.execution import RayLost
from dprl.platform.sweeps.local_ray import LocalRay


class FakeNode:
    """Two processes instead of Ray's."""

    def __init__(self) -> None:
        processes = {name: subprocess.Popen(["sleep", "600"]) for name in ("gcs_server", "raylet")}
        self.all_processes = {name: [SimpleNamespace(process=process)] for name, process in processes.items()}

    def kill_all_processes(self, check_alive: bool, allow_graceful: bool) -> None:
        assert not check_alive
        assert not allow_graceful
        for (one,) in self.all_processes.values():
            one.process.kill()
            one.process.wait()


@pytest.fixture
def node() -> Iterator[FakeNode]:
    made = FakeNode()
    yield made
    made.kill_all_processes(check_alive=False, allow_graceful=False)


@pytest.mark.parametrize("server", ["gcs_server", "raylet"])
def test_the_death_of_a_server_ends_what_waits_for_it(
    server: str, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[tuple[object, int]] = []
    monkeypatch.setattr(ray, "shutdown", lambda: pytest.fail("it would wait for the server"))
    monkeypatch.setattr(atexit, "register", lambda *call: at_exit.append(call))
    local, told = LocalRay(node), list[str]()
    before = signal.getsignal(signal.SIGUSR2)
    victim = node.all_processes[server][0].process
    reason = rf"^Ray's {server} \(process {victim.pid}\) died with signal 9$"

    def wait_without_end() -> None:
        victim.kill()
        while True:
            time.sleep(0.05)

    with pytest.raises(RayLost, match=reason) as lost, local.watched(told.append):
        wait_without_end()
    assert told == [str(lost.value)]
    assert all(one.process.poll() is not None for (one,) in node.all_processes.values())
    assert signal.getsignal(signal.SIGUSR2) == before
    local.stop()
    assert [code for _, code in at_exit] == [EXIT_SOME_FAILED]


def test_while_all_live_nothing_is_reported(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    local, told = LocalRay(node), list[str]()
    with local.watched(told.append):
        time.sleep(1.2)
    local.stop()
    assert (told, ended, local.death) == ([], [True], "")
