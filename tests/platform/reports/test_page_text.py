"""Texts of pages of finished sweeps, and refusals of `dprl report`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dprl.platform.command_line import main
from tests.platform.conftest import draw_once
from tests.platform.reports.cases import page_of, tables_of, text_of

CONFIG = """\
name: NAME
env: {name: riverswim, n_states: 3, horizon: HORIZON}
grid_search:
  - {algorithm: {name: private_ucb_vi, bonus_scale: 0.1}, episodes: 500, privacy: {model: none}}
  - algorithm: {name: private_ucb_vi}
    episodes: 300
    privacy: {model: jdp, epsilon: 1, delta: 1e-6, counter: binary_tree, families: separate}
seeds: 6
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the finished sweeps a and b, only to be read."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRL_HOME", str(folder))
        draw_once(patch)
        for name, horizon in (("a", 3), ("b", 4)):
            file = folder / f"{name}.yaml"
            file.write_text(CONFIG.replace("NAME", name).replace("HORIZON", str(horizon)))
            assert main(["run", str(file)]) == 0
    return folder


def refusal(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    """The error of a refused report."""
    capsys.readouterr()
    assert main(["report", "--storage", str(home), "--out", str(home / "report"), *words]) == 2
    return capsys.readouterr().err


def test_a_page_has_all_cells_and_methods(home: Path) -> None:
    page = page_of(home, "a", "b", title="Two horizons")
    done = "a: 2 of 2 cells done \u00b7 b: 2 of 2 cells done \u00b7 6 seeds per cell"
    assert f"dprl report \u00b7 Two horizons \u00b7 {done}" in text_of(page)
    assert re.findall(r"<h2>(.*?)</h2>", page)[-3:] == ["Do the claims hold?", "4 cells", "Methods"]
    *_, cells = tables_of(page)
    assert [(row["Group"], row["Cell"].partition(" ")[2]) for row in cells] == [
        (f"riverswim horizon={horizon} K={episodes}", model)
        for horizon in ("3", "4")
        for model, episodes in (("none", "500"), ("jdp epsilon=1 delta=1e-06", "300"))
    ]
    private = cells[1]
    assert (private["Certified \u03b5"], private["\u03b4"], private["Claim"]) == ("1", "10\u207b\u2076", "\u2713 holds")
    assert private["To half regret"] == ">300"
    assert "[CZ22] Theorem" in private["Covered by"]
    told = text_of(page)
    assert "in a run of another length this number would differ" in told
    assert re.search(r"Noise in 2 of 4 cells is up to [0-9.]+ times the least known for its claim and releases; ", told)


def test_what_is_no_sweep_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, home, "aa")
    assert told.startswith("dprl: SWEEP: must be a sweep in ")
    assert "got 'aa'; valid: a, b; run `dprl sweep CONFIG --name aa` first" in told
    assert told.count("\n") == 1
    assert "got 'smoke'; valid: a, b; run `dprl sweep smoke` first" in refusal(capsys, home, "smoke")
    assert "name: must be 1 to 100 letters" in refusal(capsys, home, ".a")


def test_the_path_of_a_sweeps_folder_names_the_sweep(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert "a: 2 of 2 cells done" in text_of(page_of(home, "sweeps/a/"))
    assert "a: 2 of 2 cells done" in text_of(page_of(tmp_path, "sweeps/a"))  # of another home
    assert "got 'results/a'; give its name: a\n" in refusal(capsys, home, "results/a")


def test_a_sweep_without_a_finished_cell_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    shutil.rmtree(copy / "sweeps" / "b" / "cells")
    told = refusal(capsys, copy, "b")
    assert (
        f"SWEEP: must be finished, and has no finished cell, got 'b'; resume with `dprl run {home / 'b.yaml'}`\n"
        in told
    )
