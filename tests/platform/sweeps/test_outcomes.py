"""Exit codes, statuses and markers of sweeps with failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dprl.platform.command_line import main
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.layout import SweepLayout
from dprl.platform.sweeps.sweep import run_sweep
from tests.platform.processes import mlflow_runs
from tests.platform.sweeps.test_sweep import cells_of, options, records


def test_a_file_that_cannot_be_written_is_reported_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    cells_of(tmp_path, privacy={"model": "none"})
    (tmp_path / "home" / "sweeps" / "small" / "summary.csv").mkdir(parents=True)
    assert main(["run", str(tmp_path / "config.yaml")]) == 1
    assert "not written: " in capsys.readouterr().err


def test_a_failed_cell_fails_the_sweep_and_leaves_the_others_finished(tmp_path: Path) -> None:
    cells, home = cells_of(tmp_path), tmp_path / "home"
    broken = home / "sweeps" / "small" / "cells" / cells[0].digest
    (broken / "state.npz").mkdir(parents=True)
    result = run_sweep(cells, options(home))
    assert len(result.failed) == 1
    statuses = {run.data.tags.get("digest", "sweep"): run.info.status for run in mlflow_runs(home)}
    assert statuses == {"sweep": "FAILED", cells[0].digest: "FAILED", cells[1].digest: "FINISHED"}
    assert [*SweepLayout(home, "small").status().counts.values()] == [2, 1, 1]


def test_a_marker_of_another_cell_does_not_pass_for_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells, home = cells_of(tmp_path), tmp_path / "home"
    before = run_sweep(cells, options(home))
    whole = records(before)
    folder = CellFolder(before.folder / "cells" / cells[0].digest)
    marker = json.loads(folder.marker_file.read_text())
    folder.marker_file.write_text(json.dumps(marker | {"digest": cells[1].digest}))
    capsys.readouterr()
    assert records(run_sweep(cells, options(home))) == whole
    assert "1 of 2 cells finished already" in capsys.readouterr().err
    assert folder.finished_as(cells[0].digest)
