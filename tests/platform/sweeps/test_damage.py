"""Damaged files of finished cells: a sweep runs the cell again or refuses it, a report leaves it out and names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

import dprl
from dprl.platform.command_line import main
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.sweeps.test_sweep import CONFIG

pytestmark = pytest.mark.usefixtures("one_drawing")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def other_numbers(file: Path, epsilon: object) -> None:
    """Replace the proved epsilon."""
    found = json.loads(file.read_text())
    found["proved"]["epsilon_at_claimed_delta"] = epsilon
    file.write_text(json.dumps(found))


def without_checksum(file: Path) -> None:
    found = json.loads(file.read_text())
    del found["checksum"]
    file.write_text(json.dumps(found))


def other_records(cell: CellFolder, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_parquet(cell.records_file)).to_parquet(cell.records_file)


DAMAGES: dict[str, Callable[[CellFolder], object]] = {
    "records cut": lambda cell: cut(cell.records_file),
    "records gone": lambda cell: cell.records_file.unlink(),
    "records without rows": lambda cell: other_records(cell, lambda rows: rows.head(0)),
    "records without episodes": lambda cell: other_records(cell, lambda rows: rows.drop(columns="episode")),
    "records of unequal seeds": lambda cell: other_records(cell, lambda rows: rows.iloc[:-1]),
    "certificate empty": lambda cell: cell.certificate_file.write_text(""),
    "certificate a list": lambda cell: cell.certificate_file.write_text("[]"),
    "certificate a word": lambda cell: cell.certificate_file.write_text('"holds"'),
    "certificate without fields": lambda cell: cell.certificate_file.write_text("{}"),
    "certificate of other types": lambda cell: other_numbers(cell.certificate_file, [1]),
    "certificate without its checksum": lambda cell: without_checksum(cell.certificate_file),
    "certificate edited": lambda cell: other_numbers(cell.certificate_file, 0.1),
    "certificate not UTF-8": lambda cell: cell.certificate_file.write_bytes(b"\xff\xfe"),
    "versions a list": lambda cell: cell.versions_file.write_text("[]"),
    "marker a list": lambda cell: cell.marker_file.write_text("[]"),
    "marker cut": lambda cell: cut(cell.marker_file),
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    (folder / "small.yaml").write_text(yaml.safe_dump(CONFIG))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRL_HOME", str(folder / "home"))
        assert main(["run", str(folder / "small.yaml")]) == 0
    return folder


@pytest.fixture
def home(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(swept, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    return tmp_path


def cells(home: Path) -> list[CellFolder]:
    return [CellFolder(folder) for folder in sorted((home / "home/sweeps/small/cells").iterdir())]


@pytest.mark.parametrize(("damage", "summary"), [*((damage, True) for damage in DAMAGES), ("records cut", False)])
def test_a_report_leaves_the_cell_out_and_names_it(
    damage: str, summary: bool, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = cells(home)
    DAMAGES[damage](one)
    if not summary:
        (home / "home/sweeps/small/summary.csv").unlink()
    assert main(["report", "small"]) == 0
    told = capsys.readouterr().out
    (line,) = [line for line in told.splitlines() if "left out" in line]
    assert str(one.path) in line
    assert len(line) <= 300 + len(str(one.path))
    rows = (home / "home/sweeps/small/report.csv").read_text()
    assert other.path.name in rows
    assert one.path.name not in rows


def test_a_report_on_damaged_cells_alone_is_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cell in cells(home):
        cell.certificate_file.write_text("[]")
    assert main(["report", "small"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_loading_warns_of_a_certificate_that_was_edited(home: Path) -> None:
    one, _ = cells(home)
    DAMAGES["certificate edited"](one)
    with pytest.warns(UserWarning, match=f"^{one.path}: .* certificate.json was edited: its checksum does not match;"):
        loaded = dprl.load("small")
    assert [line.partition(":")[0] for line in loaded.failed] == [str(one.path)]
    assert len(loaded.frame) == 2


@pytest.mark.parametrize("damage", ["records cut", "certificate a list", "versions a list", "marker a list"])
def test_run_runs_the_cell_again_with_the_same_result(
    damage: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = cells(home)
    kept = [one.certificate_file.read_bytes(), one.records_file.read_bytes()]
    DAMAGES[damage](one)
    assert main(["run", str(home / "small.yaml")]) == 0
    assert "runs again, its files cannot be read" in capsys.readouterr().err
    assert [one.certificate_file.read_bytes(), one.records_file.read_bytes()] == kept


def shown(folder: Path) -> tuple[bool, str]:
    """Sort key of a folder of `cells`: the folder of charges comes first."""
    return folder.name != "charges", folder.name


@pytest.mark.parametrize("damage", ["certificate a list", "marker gone"])
def test_noise_that_cannot_be_drawn_again_is_refused_for_that_cell_alone(
    damage: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ["--name", "os", "--set", "noise={arithmetic: exact, entropy: os}", "--set", "episodes=20"]
    words = ["run", str(home / "small.yaml"), *changes]
    assert main(words) == 0
    folder = home / "home/sweeps/os"
    charges, one, other = (CellFolder(cell) for cell in sorted((folder / "cells").iterdir(), key=shown))
    assert charges.path.name == "charges"
    if damage == "marker gone":
        one.marker_file.unlink()
    else:
        DAMAGES[damage](one)
    records = one.records_file.read_bytes()
    shutil.rmtree(other.path)
    capsys.readouterr()
    assert main(words) == 1
    told = capsys.readouterr().err
    assert "a rerun is a second release to the same users" in told
    assert f"restore {one.path} from a backup, or delete it to permit that" in told
    assert one.records_file.read_bytes() == records
    assert other.finished  # the others continue
    shutil.rmtree(one.path)
    assert main(words) == 0


def test_a_damaged_checkpoint_is_reported_and_needs_no_flag(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = cells(home)
    kept = one.records_file.read_bytes()
    one.marker_file.unlink()
    one.state_file.write_bytes(b"PK\x03\x04 half a file")
    assert main(["run", str(home / "small.yaml")]) == 0
    assert capsys.readouterr().err.count("starts again, its checkpoint cannot be read (state.npz: ") == 1
    assert one.records_file.read_bytes() == kept
