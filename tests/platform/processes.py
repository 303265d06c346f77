"""Helpers that run the command in separate processes, as a user does, and read its results."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from tests.servers import kill_group

PATIENCE = 400.0
"""Timeout of a command in seconds; the machine may be busy."""

SMALL: dict[str, Any] = {
    "name": "small",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {"model": "none"},
    "episodes": 20,
    "seeds": 1,
}
CONFIG: dict[str, Any] = {
    "name": "grid",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}, {"model": "ldp", "epsilon": 1.0}]},
    "episodes": 5000,
    "seeds": 2,
}


def write_config(folder: Path, **changes: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(CONFIG | changes))
    return path


def start(home: Path, *words: object, **environment: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start the command; at the end kill it and its children if they still run."""
    return _started(home, words, environment, subprocess.STDOUT)


def start_with_errors_apart(home: Path, *words: object) -> AbstractContextManager[subprocess.Popen[str]]:
    """Like `start`, but with standard error apart from standard output."""
    return _started(home, words, {}, subprocess.PIPE)


@contextmanager
def _started(
    home: Path, words: Sequence[object], environment: Mapping[str, str], stderr: int
) -> Iterator[subprocess.Popen[str]]:
    # A shell that runs the tests in the background makes them and their children ignore Ctrl-C.
    heeding = ["env", "--default-signal=INT"]
    command = [*heeding, sys.executable, "-P", "-m", "dprl.platform.command_line", *map(str, words)]
    with subprocess.Popen(
        command,
        env={**os.environ, "DPRL_HOME": str(home), **environment},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            kill_group(process)


def dprl(home: Path, *words: object, expect: int = 0, **environment: str) -> str:
    with start(home, *words, **environment) as process:
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == expect, output
    return output


def records(home: Path) -> Mapping[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in home.glob("sweeps/grid/cells/*/records.parquet")}


def mlflow_runs(home: Path, uri: str | None = None) -> list[Run]:
    client = MlflowClient(uri or f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("dprl")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until the condition holds, while the process lives."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checkpoints(home: Path) -> list[Path]:
    """Return the checkpoints of unfinished cells."""
    return list(home.glob("sweeps/grid/cells/*/state.npz"))


def holders(home: Path) -> list[int]:
    """Return the processes that run a cell, or died while they ran one."""
    unfinished = {file.parent.name for file in checkpoints(home)}
    return [process for cell, process in _locks(home).items() if cell in unfinished]


def last_holders(home: Path) -> set[int]:
    """Return the last process of each cell, finished or not."""
    return set(_locks(home).values())


def _locks(home: Path) -> dict[str, int]:
    """Return the processes that hold or held the lock of each cell."""
    locks = [lock for lock in home.glob("sweeps/grid/locks/*") if lock.name != "sweep"]
    found = {lock.name: lock.read_text().split() for lock in locks}
    return {cell: int(words[1]) for cell, words in found.items() if words}  # "process 123 on host"


def kill(process_id: int) -> None:
    """Kill a process with SIGKILL; it may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGKILL)
