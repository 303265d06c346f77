"""The process that talks to Ray: its start, its death and its end, with a program in Ray's place; then with Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.sweeps import ray_process
from dprl.platform.sweeps.events import Cluster, RayLostError
from dprl.platform.sweeps.ray_process import RayProcess

PROGRAM = """
import json, sys
from multiprocessing.connection import Connection
start = json.loads(sys.argv[1])
sys.path[:] = start["path"]
pipe = Connection(start["descriptor"])
"""
READY = 'pipe.send(("ready", (2, 1, 2, 8.0)))\npipe.recv()\n'


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """A file with a line for each start."""
    return tmp_path / "starts"


def started(program: str, starts: Path, monkeypatch: pytest.MonkeyPatch, address: str | None = None) -> RayProcess:
    counting = f"open({str(starts)!r}, 'a').write('x')\nstarts = len(open({str(starts)!r}).read())\n"
    monkeypatch.setattr(ray_process, "_PROGRAM", PROGRAM + counting + program)
    return RayProcess(address, starts.parent)


@pytest.mark.parametrize("failing", [0, 2])
def test_a_start_that_fails_is_tried_again(failing: int, starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"if starts <= {failing}:\n    raise Exception('timed out')\n{READY}"
    with started(program, starts, monkeypatch) as ray:
        assert ray.cluster == Cluster(2, 1, 2, 8.0)
    assert len(starts.read_text()) == failing + 1


def test_a_machine_that_stays_busy_is_reported_in_one_line(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        started("raise Exception('timed out')", starts, monkeypatch) as ray,
        pytest.raises(UserError, match=r"^Ray: must start on this machine, and did not in 3 attempts .*timed out\)"),
    ):
        ray.cluster  # noqa: B018
    assert len(starts.read_text()) == 3


def test_a_cluster_that_refuses_is_asked_once(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = 'pipe.send(("refused", "address: nobody there"))\npipe.recv()'
    with (
        started(program, starts, monkeypatch, "10.0.0.1:6379") as ray,
        pytest.raises(UserError, match=r"^address: nobody there$"),
    ):
        ray.cluster  # noqa: B018
    assert len(starts.read_text()) == 1


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            'pipe.send(("died", "Ray\'s raylet (process 7) died with signal 9"))\npipe.recv()',
            r"^Ray's raylet \(process 7",
        ),
        ("import os\nos.kill(os.getpid(), 9)", r"^Ray's driver \(process \d+\) died with signal 9$"),
        ("raise ValueError('a mistake')", r"Ray's driver \(process \d+\) died with exit code 1: ValueError: a mistake"),
    ],
)
def test_the_death_of_ray_is_reported_after_the_events_before(
    end: str, told: str, starts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = READY + 'pipe.send(("event", None))\n' + end
    with started(program, starts, monkeypatch) as ray:
        events = ray.run([], starts.parent, 3, None)
        next(events)
        with pytest.raises(RayLostError, match=told):
            list(events)


def test_a_process_that_does_not_end_by_itself_is_killed(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_process, "_ENDING_SECONDS", 0.1)
    with started(READY + "import time\ntime.sleep(600)", starts, monkeypatch) as ray:
        assert ray.cluster.n_cpus == 2
        pid = ray._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


STARTING = """
import sys, time
from pathlib import Path
from dprl.platform.sweeps.ray_process import RayProcess
with RayProcess(None, Path(sys.argv[1])) as ray:
    print(ray._process.pid, ray.cluster.n_cpus, flush=True)
    if sys.argv[2] == "kill":
        time.sleep(600)
"""


def session_of(leader: int) -> set[int]:
    """Return the living processes of a session, without zombies."""
    found = set[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("how", ["kill", "end"])
def test_no_process_of_ray_outlives_the_driver(how: str, tmp_path: Path) -> None:
    """Neither after its end nor after a SIGKILL, and two drivers at once leave each other alone."""
    command = [sys.executable, "-P", "-c", STARTING, str(tmp_path)]
    environment = {**os.environ, "DPRL_NUM_CPUS": "1"}
    with (
        subprocess.Popen([*command, "kill"], stdout=subprocess.PIPE, env=environment, text=True) as other,
        subprocess.Popen([*command, how], stdout=subprocess.PIPE, env=environment, text=True) as driver,
    ):
        assert other.stdout is not None
        assert driver.stdout is not None
        leaders = [int(output.readline().split()[0]) for output in (other.stdout, driver.stdout)]
        if how == "kill":
            assert len(session_of(leaders[1])) > 3
            driver.send_signal(signal.SIGKILL)
        driver.wait()
        assert ended(leaders[1])
        assert len(session_of(leaders[0])) > 3
        other.kill()
    assert ended(leaders[0])


def ended(leader: int) -> bool:
    """Whether all processes of the session end within a few seconds."""
    deadline = time.monotonic() + 20.0
    while session_of(leader) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not session_of(leader)
