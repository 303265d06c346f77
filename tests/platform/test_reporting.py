"""`dprl report`: pages of finished sweeps, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dprl.platform.command_line import main

CONFIG = """\
name: NAME
env: {name: riverswim, n_states: 3, horizon: HORIZON}
grid_search:
  - {algorithm: {name: private_ucb_vi, bonus_scale: 0.1}, episodes: 500, privacy: {model: none}}
  - {algorithm: {name: private_ucb_vi}, episodes: 300, privacy: {model: jdp, epsilon: 1, delta: 1e-6}}
seeds: 6
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the finished sweeps a and b, only to be read."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRL_HOME", str(folder))
        for name, horizon in (("a", 3), ("b", 4)):
            file = folder / f"{name}.yaml"
            file.write_text(CONFIG.replace("NAME", name).replace("HORIZON", str(horizon)))
            assert main(["run", str(file)]) == 0
    return folder


def output(capsys: pytest.CaptureFixture[str], home: Path, *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["report", *map(str, words), "--storage", str(home)]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def rows(page: str) -> list[list[str]]:
    """The cells of all tables, headers included."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


def test_a_page_has_a_table_for_each_environment(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a", "b", "--title", "What was found")
    assert page.startswith("# What was found\n\n")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [f"## riverswim (n_states=3, horizon={horizon}, version=osband)" for horizon in (3, 4)]
    header, rule, free, private, *others = rows(page)
    assert len(others) == 4
    assert {len(row) for row in (header, rule, free, private)} == {len(header)}
    told = dict(zip(header, private, strict=True))
    assert (told["algorithm"], told["trust model"], told["constants"]) == ("private_ucb_vi", "jdp", "printed")
    assert (told["proved \u03b5"], told["\u03b4"], told["verdict"], told["K"]) == ("1", "1e-06", "holds", "300")
    assert told["halved at [95 %]"] == ">300 [>300, >300]"
    assert told["seeds halved"] == "0%"
    told = dict(zip(header, free, strict=True))
    assert (told["trust model"], told["constants"], told["\u03b4"]) == ("none", "bonus_scale=0.1", "")


def test_the_page_says_how_it_was_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a")
    assert page.startswith("# Results of a\n")
    assert f"Made by `dprl report a --storage {home}`." in page
    assert page.count("source_digest") == 1


def test_the_page_goes_to_a_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "page.md"
    assert output(capsys, home, "a", "--out", file) == f"report    {file}\n"
    assert len(rows(file.read_text())) == 4


def test_json_is_the_rows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(output(capsys, home, "a", "b", "--json"))
    assert [cell["sweep"] for cell in cells] == ["a", "a", "b", "b"]
    assert [cell["privacy.model"] for cell in cells] == ["none", "jdp"] * 2
    assert cells[1]["halved_at"] == "inf"


def test_what_is_no_sweep_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = output(capsys, home, "aa", code=2)
    assert told.startswith("dprl: SWEEP: must be a sweep in ")
    assert "got 'aa'; valid: a, b; run `dprl sweep aa` first" in told
    assert told.count("\n") == 1
    assert "name: must be 1 to 100 letters" in output(capsys, home, "../a", code=2)
    assert "--out: must be a file that can be written" in output(capsys, home, "a", "--out", home, code=2)


def test_a_sweep_that_is_not_finished_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    (copy / "sweeps" / "b" / "status.json").write_text('{"cells": 3, "cells_finished": 2, "cells_failed": 1}')
    told = output(capsys, copy, "a", "b", code=2)
    assert "SWEEP: must be finished, and lacks 1 of 3 cells, got 'b'; run `dprl sweep b`, which resumes it" in told
    (copy / "sweeps" / "b" / "status.json").unlink()
    told = output(capsys, copy, "b", code=2)
    assert "SWEEP: must be summarised by this version of dprl, got 'b'; run `dprl sweep b` again" in told


def test_cells_of_an_earlier_grid_are_not_waited_for(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    (copy / "sweeps" / "b" / "cells" / "0123456789ab").mkdir()
    assert len(rows(output(capsys, copy, "b"))) == 4
