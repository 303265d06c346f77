"""Texts of pages of finished sweeps, and refusals of `dprl report`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dprl.platform.command_line import main
from tests.platform.conftest import draw_once
from tests.platform.reports.cases import page_of, tables_of

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
TWO_ALGORITHMS = """\
name: pair
algorithm:
  name: {grid_search: [private_ucb_vi, bernstein_vi]}
  preset: proved
  replan_growth: 0.1
  bonus_scale: 0.01
env: {name: riverswim, n_states: 3, horizon: 3}
privacy: {model: jdp, epsilon: 10, delta: 1e-6}
episodes: 2000
seeds: 3
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
    assert page.startswith("# Two horizons\n\ndprl report \u00b7 Two horizons \u00b7 RiverSwim, 3 states, osband")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings[-3:] == [
        "## Do the claims hold?",
        "## All 4 cells",
        "## Methods",
    ]
    *_, cells = tables_of(page)
    assert [(row["Algorithm"], row["Trust model"], row["Horizon"], row["Episodes"]) for row in cells] == [
        ("private_ucb_vi", model, horizon, episodes)
        for horizon in ("3", "4")
        for model, episodes in (("none", "500"), ("central", "300"))
    ]
    private = cells[1]
    assert (private["Certified \u03b5"], private["\u03b4"], private["Claim"]) == ("1", "10\u207b\u2076", "holds")
    assert private["Episodes to half regret"] == ">300"
    assert "[CZ22] Theorem" in private["Note"]
    told = " ".join(page.split())
    assert "in a run of another length this number would differ" in told
    assert re.search(r"Noise in 2 of 4 cells is up to [0-9.]+ times the least known for its claim and releases; ", told)


@pytest.mark.usefixtures("fixed_draws")
def test_a_requested_ratio_is_the_seconds_episodes_to_the_firsts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    (tmp_path / "pair.yaml").write_text(TWO_ALGORITHMS)
    assert main(["run", str(tmp_path / "pair.yaml")]) == 0
    for one, other in (("private_ucb_vi", "bernstein_vi"), ("bernstein_vi", "private_ucb_vi")):
        page = page_of(tmp_path, "pair", compared=(one, other))
        assert page.count(" at equal noise\n") == 1
        assert f"\n## {one} against {other} at equal noise\n" in page
        told = f"Median episodes to half regret of {other}, divided by those of {one}: above 1, {one} needs fewer."
        assert told in " ".join(page.split())
        *_, cells = tables_of(page)
        halved = {row["Algorithm"]: int(row["Episodes to half regret"]) for row in cells}
        assert halved[one] != halved[other]
        (line,) = next(table for table in tables_of(page) if "environment" in table[0])
        ratio = f"{halved[other] / halved[one]:.3g} ({halved[other]} / {halved[one]})"
        assert ratio in line.values()


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
    assert "a: 2 of 2 cells done" in page_of(home, "sweeps/a/")
    assert "a: 2 of 2 cells done" in page_of(tmp_path, "sweeps/a")  # of another home
    assert "got 'results/a'; give its name: a\n" in refusal(capsys, home, "results/a")


def test_a_markdown_page_is_refused(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    told = refusal(capsys, home, "a", "--out", "page.md")
    assert told == "dprl: --out: must be a folder for report.html, got 'page.md'; write e.g. --out report\n"


def test_a_sweep_that_is_not_finished_says_so(home: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    status = copy / "sweeps" / "b" / "status.json"
    # A sweep that is killed leaves the status of its start.
    status.write_text('{"cells": 3, "cells_finished": 0, "cells_failed": 1}')
    page = " ".join(page_of(copy, "a", "b").split())
    assert "**Not finished.** b lacks 1 of 3 cells, 1 of them failed" in page
    assert "resume with: dprl sweep CONFIG --name b" in page


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
