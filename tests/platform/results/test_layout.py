"""The folders of a sweep: its progress, read from files, and the removal of its cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.errors import UserError
from dprl.platform.results import layout as layouts
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.layout import SweepLayout, SweepStatus


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file, status = tmp_path / "status.json", SweepStatus(5, 3, 1, "dprl sweep a")
    assert SweepStatus.read(file, "dprl sweep b") == SweepStatus(0, 0, 0, "dprl sweep b")
    status.write(file)
    assert SweepStatus.read(file, "dprl sweep b") == status


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"cells": null}', b'{"cells": "five"}', b"\xff"])
def test_a_damaged_file_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"^.*status\.json: must be what an earlier call wrote, got .*; remove it$"):
        SweepStatus.read(file, "dprl sweep b")


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
