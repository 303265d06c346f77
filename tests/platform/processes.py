"""The command in processes of its own, as a user starts it, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

CONFIG: dict[str, Any] = {
    "name": "grid",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {
        "grid_search": [
            {"model": "none"},
            {"model": "jdp", "epsilon": 1.0},
            {"model": "ldp", "epsilon": 1.0},
        ]
    },
    "episodes": 5000,
    "seeds": 2,
}


def write_config(folder: Path, **changes: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(CONFIG | changes))
    return path


def start(home: Path, *words: object, **environment: str) -> subprocess.Popen[str]:
    # A shell that starts the tests in the background has them, and so all their children, ignore Ctrl-C.
    heeding = ["env", "--default-signal=INT"]
    command = [*heeding, sys.executable, "-P", "-m", "dprl.platform.command_line", *map(str, words)]
    return subprocess.Popen(
        command,
        env=os.environ | {"DPRL_HOME": str(home)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def dprl(home: Path, *words: object, expect: int = 0, **environment: str) -> str:
    process = start(home, *words, **environment)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == expect, output
    return output


def records(home: Path) -> Mapping[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in home.glob("sweeps/grid/cells/*/records.parquet")}


def mlflow_runs(home: Path, uri: str | None = None) -> list[Run]:
    client = MlflowClient(uri or f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("dprl")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def wait_for(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 200
) -> None:
    """Wait until the condition holds, while the process, if one is given, lives."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checkpoints(home: Path) -> list[Path]:
    """Return the checkpoints of cells that are on their way."""
    return list(home.glob("sweeps/grid/cells/*/state.npz"))


def holders(home: Path) -> list[int]:
    """Return the processes that run a cell now, or have died with one."""
    unfinished = {file.parent.name for file in checkpoints(home)}
    locks = [lock for lock in home.glob("sweeps/grid/locks/*") if lock.name in unfinished]
    return [int(words[1]) for words in (lock.read_text().split() for lock in locks) if words]  # "process 123 on host"


def kill(process_id: int) -> None:
    """Kill a process as the system would; it may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGKILL)
