"""Sweeps in this process: skipped, resumed, kept and deleted cells. test_end_to_end.py uses Ray."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from mlflow.tracking import MlflowClient

from dprl.platform.command_line import main
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.sweeps.cell import LockedCell
from dprl.platform.sweeps.events import CellEvent, CellProgress, RayLostError
from dprl.platform.sweeps.progress import ProgressDisplay
from dprl.platform.sweeps.sweep import SweepOptions, SweepResult, run_in_process, run_sweep
from tests.platform.processes import mlflow_runs

pytestmark = pytest.mark.usefixtures("one_drawing")

CONFIG = {
    "name": "small",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}]},
    "episodes": 400,
    "seeds": 2,
}


def cells_of(folder: Path, **changes: object) -> list[Experiment]:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(CONFIG | changes))
    return load_cells(path)


def options(home: Path, **changes: object) -> SweepOptions:
    plain = SweepOptions(
        name="small",
        home=home,
        executor="process",
        address=None,
        tracking_uri=None,
        fresh=False,
        command="dprl run small.yaml",
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def records(result: SweepResult) -> dict[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in result.folder.glob("cells/*/records.parquet")}


def test_a_sweep_leaves_a_row_and_all_artifacts_a_cell(tmp_path: Path) -> None:
    cells = cells_of(tmp_path)
    result = run_sweep(cells, options(tmp_path / "home"))
    assert result.failed == []
    assert result.folder == tmp_path / "home" / "sweeps" / "small"
    assert list(result.summary["cell"]) == [cell.digest for cell in cells]
    assert len(pd.read_csv(result.folder / "summary.csv")) == 2
    assert (result.folder / "frontier.png").stat().st_size > 0
    kept = {"certificate.html", "certificate.json", "experiment.yaml", "finished.json", "policy.npz", "records.parquet"}
    for cell in cells:
        files = {file.name for file in (result.folder / "cells" / cell.digest).iterdir()}
        assert files == kept | {"versions.json"}


def test_a_second_call_runs_nothing_and_a_grown_grid_only_what_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = options(tmp_path / "home")
    first = run_sweep(cells_of(tmp_path), how)
    stamps = {file: file.stat().st_mtime_ns for file in first.folder.glob("cells/*/*") if file.suffix != ".html"}
    capsys.readouterr()
    second = run_sweep(cells_of(tmp_path), how)
    assert "2 of 2 cells finished already" in capsys.readouterr().err
    pd.testing.assert_frame_equal(first.summary, second.summary)

    grown = {"grid_search": [*CONFIG["privacy"]["grid_search"], {"model": "ldp", "epsilon": 2.0}]}  # type: ignore[index]
    third = run_sweep(cells_of(tmp_path, privacy=grown), how)
    assert "running 1 cell (2 seeds)" in capsys.readouterr().err
    assert len(third.summary) == 3
    assert stamps == {file: file.stat().st_mtime_ns for file in stamps}


def test_equal_cells_run_once(tmp_path: Path) -> None:
    cells = cells_of(tmp_path)
    assert len(run_sweep([*cells, *cells], options(tmp_path / "home")).summary) == 2


def test_a_process_with_other_code_does_not_run_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker started after an edit would write its results under the old digest."""
    (cell, *_) = SweepLayout(tmp_path / "home", "small").cells(cells_of(tmp_path))
    monkeypatch.setattr("dprl.platform.plugins.results_version", lambda _: "0123456789abcdef")
    locked = LockedCell(cell)
    with pytest.raises(UserError, match=f"code: must not change while a sweep runs, .* cell {cell.folder.path.name}"):
        locked.advance(0.0)
    assert not cell.folder.path.exists()


def test_what_other_code_has_finished_is_not_finished(tmp_path: Path) -> None:
    cells = cells_of(tmp_path)
    run_sweep(cells, options(tmp_path / "home"))
    (cell, other) = SweepLayout(tmp_path / "home", "small").cells(cells)
    marker = cell.folder.marker_file
    marker.write_text(marker.read_text().replace(cell.digest, "0123456789ab"))
    assert (cell.finished, other.finished) == (False, True)


def test_a_failing_cell_is_named_and_the_others_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = cells_of(tmp_path)
    broken = tmp_path / "home" / "sweeps" / "small" / "cells" / cells[0].digest
    (broken / "state.npz").mkdir(parents=True)
    result = run_sweep(cells, options(tmp_path / "home"))
    assert len(result.failed) == 1
    line = result.failed[0]
    assert line.startswith("none: ")
    assert "\n" not in line
    log = Path(line.rpartition("(log: ")[2].removesuffix(")"))
    assert "Traceback" in log.read_text()
    assert list(result.summary["cell"]) == [cells[1].digest]
    assert "FAILED" in capsys.readouterr().err
    assert [*SweepLayout(tmp_path / "home", "small").status().values()][:3] == [2, 1, 1]
    statuses = {run.data.tags.get("digest", "sweep"): run.info.status for run in mlflow_runs(tmp_path / "home")}
    assert statuses == {"sweep": "FAILED", cells[0].digest: "FAILED", cells[1].digest: "FINISHED"}

    (broken / "state.npz").rmdir()
    repaired = run_sweep(cells, options(tmp_path / "home"))
    assert repaired.failed == []
    assert len(repaired.summary) == 2
    assert not log.exists()


def test_fresh_deletes_the_cells_of_this_sweep_and_nothing_else(tmp_path: Path) -> None:
    cells = cells_of(tmp_path)
    home = tmp_path / "home"
    before = run_sweep(cells, options(home))
    other = run_sweep(cells, options(home, name="other"))
    mine = before.folder / "cells" / "notes"
    mine.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (before.folder / "cells" / "0123456789ab").symlink_to(elsewhere)
    first_cell = before.folder / "cells" / cells[0].digest / "finished.json"
    stamp = first_cell.stat().st_mtime_ns
    other_stamps = {file: file.stat().st_mtime_ns for file in other.folder.glob("cells/*/*")}

    after = run_sweep(cells, options(home, fresh=True))
    assert first_cell.stat().st_mtime_ns > stamp
    assert records(after) == records(before)
    assert mine.is_dir()
    assert elsewhere.is_dir()
    assert other_stamps == {file: file.stat().st_mtime_ns for file in other_stamps}


@pytest.mark.parametrize("place", ["", "locks", "logs", "cells", "locks/sweep"])
def test_no_link_makes_a_sweep_write_to_or_delete_its_target(tmp_path: Path, place: str) -> None:
    link = tmp_path / "home" / "sweeps" / "small" / place
    link.parent.mkdir(parents=True)
    target = tmp_path / "target"
    if place == "locks/sweep":
        target.write_text("mine")
    else:
        (target / "0123456789ab").mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(UserError, match=r"(a|be a) (symbolic link|file)"):
        run_sweep(cells_of(tmp_path), options(tmp_path / "home", fresh=True))
    assert target.read_text() == "mine" if target.is_file() else (target / "0123456789ab").is_dir()
    assert len(list(tmp_path.rglob("finished.json"))) == 0


def test_a_log_that_is_a_link_or_a_pipe_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link, pipe = tmp_path / "link.log", tmp_path / "pipe.log"
    link.symlink_to(tmp_path / "mine")
    os.mkfifo(pipe)
    for file in (link, pipe):
        ProgressDisplay(log=file).say("starting")
        assert "cannot be written (it is a" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


def test_a_pipe_among_the_files_of_a_cell_keeps_nobody_waiting(tmp_path: Path) -> None:
    (cell := CellFolder(tmp_path)).marker_file.write_text("{}")
    os.mkfifo(cell.certificate_file)
    with pytest.raises(DamagedCellError, match="a pipe among its files"):
        cell.results()


@pytest.mark.parametrize("fresh", [True, False])
def test_no_table_shows_a_cell_that_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool) -> None:
    """Whatever ends the call: a kill writes nothing at all."""
    cells, home = cells_of(tmp_path), tmp_path / "home"
    (folder := run_sweep(cells, options(home)).folder).joinpath("notes.csv").write_text("mine")
    (layout := SweepLayout(home, "small")).cells(cells)[0].folder.records_file.write_bytes(b"damaged")
    assert {"summary.csv", "report.html", "report.csv"} <= {file.name for file in folder.iterdir()}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LockedCell, "advance", killed)
    monkeypatch.setattr("dprl.platform.sweeps.sweep._Sweep._write_report", lambda *_: ([], None))
    with pytest.raises(KeyboardInterrupt):
        run_sweep(cells, options(home, fresh=fresh))
    left = {file.name for file in folder.iterdir() if file.is_file()}
    assert left == {"grid.json", "notes.csv", "status.json", "sweep_id"}
    assert len(layout.finished_cells()) == (0 if fresh else 1)


def test_two_sweeps_of_one_name_do_not_run_at_once(tmp_path: Path) -> None:
    layout = SweepLayout(tmp_path / "home", "small")
    with layout.lock(), pytest.raises(UserError, match=r"^sweep small is in use by process"):
        run_sweep(cells_of(tmp_path), options(tmp_path / "home"))
    assert not (tmp_path / "home" / "mlflow.db").exists()


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", ".hidden", "a b", "x" * 101])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"^name: ") as caught:
        run_sweep(cells_of(tmp_path), options(tmp_path / "home", name=name))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5"])
def test_a_bad_number_of_cpus_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str) -> None:
    monkeypatch.setenv("DPRL_NUM_CPUS", count)
    with pytest.raises(UserError, match=r"^DPRL_NUM_CPUS: "):
        run_sweep(cells_of(tmp_path), options(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_cells_in_one_process_keep_to_the_allowed_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def noted(_: Experiment, cpus: int) -> int:
        given.append(cpus)
        return 1

    monkeypatch.setattr("dprl.platform.sweeps.cell.seeds_at_once", noted)
    monkeypatch.setenv("DPRL_NUM_CPUS", "61")
    run_sweep(cells_of(tmp_path), options(tmp_path / "home"))
    assert given == [61, 61]


def test_an_address_is_for_ray_only(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^address: "):
        options(tmp_path, address="auto")


def test_an_empty_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expands to nothing"):
        run_sweep([], options(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_ctrl_c_keeps_what_is_done_and_says_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = cells_of(tmp_path)
    advance = LockedCell.advance

    def interrupted(self: LockedCell) -> object:
        if self.cell.digest == cells[1].digest:
            raise KeyboardInterrupt
        return advance(self)

    monkeypatch.setattr(LockedCell, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(cells, options(tmp_path / "home"))
    assert "resume with: dprl run small.yaml" in capsys.readouterr().err
    status = json.loads(SweepLayout(tmp_path / "home", "small").status_file.read_text())
    assert status == {"cells": 2, "cells_finished": 1, "cells_failed": 0, "command": "dprl run small.yaml"}
    monkeypatch.undo()
    run_sweep(cells, options(tmp_path / "home"))
    assert "1 of 2 cells finished already" in capsys.readouterr().err


class FakeRay:
    """Runs cells in this process in place of Ray, with these events of each and this end."""

    def __init__(self, end: type[BaseException] | None = None) -> None:
        self.cluster = SimpleNamespace(n_cpus=2)
        self.end = end

    def require_memory(self, cells: list[SweepCell]) -> None:
        pass

    def run(self, cells: list[SweepCell], *_: object) -> Iterator[CellEvent | None]:
        yield None
        yield from run_in_process(cells)

    def __enter__(self) -> FakeRay:
        return self

    def __exit__(self, *_: object) -> None:
        if self.end is not None:
            raise self.end


def on_ray(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprl.platform.sweeps.sweep._ray_process", lambda *_: ray)


def test_ctrl_c_again_while_ray_stops_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_ray(FakeRay(KeyboardInterrupt), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(cells_of(tmp_path), options(tmp_path / "home", executor="tune"))
    layout = SweepLayout(tmp_path / "home", "small")
    assert len(pd.read_csv(layout.summary_file)) == 2
    assert json.loads(layout.status_file.read_text())["cells_finished"] == 2
    assert "resume with: dprl run small.yaml" in capsys.readouterr().err


def test_the_death_of_ray_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dying(FakeRay):
        def run(self, cells: list[SweepCell], *_: object) -> Iterator[CellEvent | None]:
            yield from run_in_process(cells[:1])
            yield CellEvent(cells[1].digest, None, "its process died")
            raise RayLostError("Ray's raylet died")

    on_ray(Dying(), monkeypatch)
    result = run_sweep(cells_of(tmp_path), options(tmp_path / "home", executor="tune"))
    assert result.failed == ["Ray's raylet died; what is done is kept, resume with: dprl run small.yaml"]
    assert len(result.summary) == 1
    told = capsys.readouterr().err
    assert "its process died; it starts again in another process, from its checkpoint" in told
    assert "Ray's raylet died; writing the results so far" in told
    assert {run.info.status for run in mlflow_runs(tmp_path / "home")} == {"FINISHED", "KILLED"}


@pytest.mark.parametrize("late", [True, False])
def test_files_of_another_node_may_be_seen_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """NFS caches for a while that a file does not exist."""

    class Elsewhere(FakeRay):
        def run(self, cells: list[SweepCell], *_: object) -> Iterator[CellEvent | None]:
            yield CellEvent(cells[0].digest, CellProgress(1, 1, 0, True))
            yield from run_in_process(cells if late else cells[1:])

    monkeypatch.setattr("dprl.platform.sweeps.sweep._UNSEEN_SECONDS", 20.0 if late else 0.0)
    on_ray(Elsewhere(), monkeypatch)
    result = run_sweep(cells_of(tmp_path), options(tmp_path / "home", executor="tune"))
    assert len(result.summary) == 1 + late
    assert late or "it finished, but not in " in result.failed[0]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_call_that_is_refused_when_mlflow_opens_changes_nothing(tmp_path: Path, fresh: bool) -> None:
    cells, home = cells_of(tmp_path), tmp_path / "home"
    before = run_sweep(cells, options(home))
    kept = {name: (before.folder / name).read_bytes() for name in ("grid.json", "status.json", "summary.csv")}
    stamps = {file: file.stat().st_mtime_ns for file in before.folder.glob("cells/*/*")}
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("dprl")
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(UserError, match=r"^tracking-uri: .* was deleted"):
        run_sweep(cells[:1], options(home, fresh=fresh))
    assert {name: (before.folder / name).read_bytes() for name in kept} == kept
    assert {file: file.stat().st_mtime_ns for file in before.folder.glob("cells/*/*")} == stamps


def test_a_kill_while_cells_are_deleted_leaves_none_that_counts_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, home = cells_of(tmp_path), tmp_path / "home"
    whole = records(run_sweep(cells, options(home)))

    remove = shutil.rmtree

    def killed(folder: Path, **how: Any) -> None:
        if Path(folder).parent.name != "cells":
            remove(folder, **how)
            return
        # In the directory's order, which is arbitrary.
        (folder / "records.parquet").unlink()
        raise SystemExit(137)

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(SystemExit):
        run_sweep(cells, options(home, fresh=True))
    monkeypatch.undo()
    after = run_sweep(cells, options(home))
    assert not after.failed
    assert records(after) == whole


def test_runs_are_ended_whatever_the_report_comes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> list[Path]:
        raise RuntimeError("a figure that nobody can draw")

    monkeypatch.setattr("dprl.platform.reports.report.SweepReport.write", broken)
    with pytest.raises(RuntimeError, match="nobody can draw"):
        run_sweep(cells_of(tmp_path), options(tmp_path / "home"))
    assert {run.info.status for run in mlflow_runs(tmp_path / "home")} == {"FINISHED"}


def test_a_file_that_cannot_be_written_is_reported_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    cells_of(tmp_path, privacy={"model": "none"})
    (tmp_path / "home" / "sweeps" / "small" / "summary.csv").mkdir(parents=True)
    assert main(["run", str(tmp_path / "config.yaml")]) == 1
    assert "not written: " in capsys.readouterr().err
