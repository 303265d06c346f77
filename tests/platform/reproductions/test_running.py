"""The sweep of every reproduction: the place of its runs, and files that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.reproductions.engine import Request, _Ran, run_cells
from dprl.platform.sweeps.sweep import SweepOptions
from tests.platform.processes import mlflow_runs


def ran(home: Path, uri: str | None = None) -> _Ran:
    small = ("episodes=50", "seeds=1", "privacy={model: none}")
    sweep = SweepOptions("", home, "process", None, uri, False, "dprl reproduce")
    return run_cells(Request(sweep, False, small), "smoke", 1)


def test_runs_go_where_the_user_wants_them(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/other.db"
    assert not ran(tmp_path / "home", uri).failed
    assert not (tmp_path / "home" / "mlflow.db").exists()
    assert {run.info.status for run in mlflow_runs(tmp_path, uri)} == {"FINISHED"}


@pytest.mark.parametrize("file", ["summary.csv", "status.json"])
def test_what_could_not_be_written_is_no_success(tmp_path: Path, file: str) -> None:
    (tmp_path / "sweeps" / "smoke" / file / "in the way").mkdir(parents=True)
    found = ran(tmp_path)
    assert found.complete
    assert any(file in line and "the same command writes it later" in line for line in found.failed)
