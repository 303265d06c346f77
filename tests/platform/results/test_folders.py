"""The folder of all results and those of a sweep: where they are, what is read from them, and one writer at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprl.algorithms.pgc.journaled_privatizer import journal_folder
from dprl.platform.command_line import main
from dprl.platform.configs.config import load_cells
from dprl.platform.errors import UserError
from dprl.platform.results import layout as layouts
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.home import home_folder
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.lock import FolderLock


@pytest.mark.parametrize("chosen", [None, "", "elsewhere"])
def test_ledgers_of_runs_on_rllib_lie_in_the_folder_of_all_results(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The algorithms do not import the platform, but know the variable and the default, too.
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPRL_HOME", raising=False)
    if chosen is not None:
        monkeypatch.setenv("DPRL_HOME", chosen)
    assert journal_folder(None, None).parents[1] == home_folder(None) == tmp_path / (chosen or "dprl_runs")


def test_results_can_be_read_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert home_folder(str(tmp_path), written=False) == tmp_path
    with pytest.raises(UserError, match="--storage: must be a folder that can be written, got"):
        home_folder(str(tmp_path))


def test_a_folder_that_is_not_utf_8_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    for words in (["run", "smoke"], ["ui"], ["report", "smoke"], ["certify", os.fsdecode(b"caf\xe9.yaml")]):
        assert main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "UTF-8" in line
        line.encode()
    assert not list(tmp_path.iterdir())


def test_the_backend_of_a_notebook_does_not_matter() -> None:
    """Jupyter sets it for every `!dprl`, where the package with the backend may be missing."""
    code = "from dprl.platform.command_line import main; assert main(['list']) == 0; import matplotlib.figure"
    environment = os.environ | {"MPLBACKEND": "module://not_there.backend_inline"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"cells": null}', b'{"cells": "five"}', b"\xff"])
def test_a_damaged_status_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    sweep = SweepLayout(tmp_path, "smoke")
    assert sweep.status()["cells"] == 0
    sweep.folder.mkdir(parents=True)
    sweep.status_file.write_bytes(content)
    with pytest.raises(UserError, match=r"^.*status\.json: must be what an earlier call wrote, got .*; remove it$"):
        sweep.status()


HEAD = "label,cell,episodes,seeds,verdict\n"


@pytest.mark.parametrize("content", ["", "x\n", f"{HEAD}a,b,9,3,holds\nx\n", f"{HEAD}a,b,9\n", f"{HEAD},,,,\n"])
def test_a_damaged_summary_is_reported_in_one_line(content: str, tmp_path: Path) -> None:
    sweep = SweepLayout(tmp_path, "smoke")
    sweep.folder.mkdir(parents=True)
    sweep.summary_file.write_text(content)
    with pytest.raises(UserError, match=r"^.*summary\.csv: must have one row per finished cell, got .*; delete it and"):
        sweep.summary()


def test_a_sweep_that_was_killed_has_no_summary_yet(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"summary\.csv: must exist, and is written when a sweep ends, got 'no file'; res"
    ):
        SweepLayout(tmp_path, "killed").summary()


@pytest.mark.parametrize("labels", [["NA", "None", ""], ["08", "010", "1e5"]])
def test_labels_in_a_summary_are_words(tmp_path: Path, labels: list[str]) -> None:
    sweep = SweepLayout(tmp_path, "smoke")
    for cell in "bcd":
        CellFolder(sweep.cell_folder(cell)).path.mkdir(parents=True)
        CellFolder(sweep.cell_folder(cell)).marker_file.touch()
    rows = [f"{label},{cell},9,3,holds\n" for label, cell in zip(labels, "bcd", strict=True)]
    sweep.summary_file.write_text(HEAD + "".join(rows))
    assert sweep.summary()["label"].fillna("").tolist() == labels


def test_a_cell_that_someone_writes_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_ORPHAN_PATIENCE", 0.0)
    sweep = SweepLayout(tmp_path, "smoke")
    cell = sweep.cells(load_cells("smoke"))[0]
    cell.folder.path.mkdir(parents=True)
    cell.folder.marker_file.touch()
    with cell.lock(), pytest.raises(UserError, match=f"^{cell.folder.path.name} is in use by process"):
        sweep.delete_cells()
    assert cell.folder.marker_file.exists()
    assert sweep.delete_cells() == 1
    assert not cell.folder.path.exists()


def test_a_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "cell"
    with FolderLock(path), pytest.raises(UserError, match="cell is in use by process"):
        FolderLock(path, patience=0.2).acquire()
    with FolderLock(path):
        pass


def test_only_the_present_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    path.write_text("process 123456789 on a.machine.with.a.long.name.of.many.parts.example.org" * 2)
    with FolderLock(path), pytest.raises(UserError) as caught:
        FolderLock(path).acquire()
    holder = f"process {os.getpid()} on {os.uname().nodename}"
    assert str(caught.value) == f"cell is in use by {holder}: wait until it ends, or end it"


def test_a_lock_of_another_user_can_be_held_and_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.write_text("process 1 on elsewhere")
    original = os.open

    def read_only(file: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return original(file, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    with FolderLock(path), pytest.raises(UserError, match="in use by process 1 on elsewhere"):
        FolderLock(path).acquire()
    assert path.read_text() == "process 1 on elsewhere"
