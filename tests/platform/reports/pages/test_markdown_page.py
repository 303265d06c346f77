"""`dprl report --out FILE.md`: Markdown pages of finished sweeps, and refusals."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dprl.platform.command_line import main
from tests.platform.conftest import draw_once
from tests.platform.reports.cases import tables_of

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


def output(capsys: pytest.CaptureFixture[str], home: Path, *words: object, code: int = 0) -> str:
    """The error, or the printed text, or, if no file was requested, the page."""
    capsys.readouterr()
    file = [] if "--out" in words else ["--out", str(home / "page.md")]
    assert main(["report", *map(str, words), "--storage", str(home), *file]) == code
    shown = capsys.readouterr()
    return shown.err if code else (home / "page.md").read_text() if file and "--json" not in words else shown.out


def test_a_page_says_what_the_report_for_browsers_says(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a", "b", "--title", "Two horizons")
    assert page.startswith("# Two horizons\n\ndprl report \u00b7 Two horizons \u00b7 RiverSwim, 3 states, osband")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings[-4:] == [
        "## Regret per episode over episodes at certified \u03b5 = 1",
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


def test_its_figures_are_in_a_folder_beside_it(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "page.md"
    assert output(capsys, home, "a", "--out", file).endswith(f"report    {file}\n")
    linked = re.findall(r"!\[Figure \d\. [^]]*\]\((page_figures/\w+\.svg)\)", file.read_text())
    assert len(linked) >= 2
    assert all((file.parent / name).read_text().startswith("<?xml") for name in linked)
    assert {path.name for path in (file.parent / "page_figures").iterdir()} == {Path(name).name for name in linked}


def test_a_preface_stands_at_the_top(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preface = tmp_path / "preface.md"
    preface.write_text("Why this was run.\n")
    page = output(capsys, home, "a", "--preface", preface, "--title", "A")
    assert page.index("# A\n") < page.index("\n\nWhy this was run.\n\n") < page.index("![Figure 1.")
    assert "--preface: must be a Markdown file that can be read (No such file or directory), got 'no.md'; " in output(
        capsys, home, "a", "--preface", "no.md", code=2
    )
    preface.write_bytes(b"\xff")
    assert "(it is not UTF-8 text)" in output(capsys, home, "a", "--preface", preface, code=2)


def test_the_page_says_how_it_was_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a")
    assert f"**Regenerate.** `dprl report a --storage {home} --out" in page
    assert page.count("source_digest") == 1


@pytest.mark.usefixtures("fixed_draws")
def test_a_requested_ratio_is_the_seconds_episodes_to_the_firsts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    (tmp_path / "pair.yaml").write_text(TWO_ALGORITHMS)
    assert main(["run", str(tmp_path / "pair.yaml")]) == 0
    for one, other in (("private_ucb_vi", "bernstein_vi"), ("bernstein_vi", "private_ucb_vi")):
        page = output(capsys, tmp_path, "pair", "--compare", one, other, "--no-figures")
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


def test_json_is_that_of_the_report(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, home, "a", "b", "--json"))
    assert found["page"] == str(home / "page.md")
    assert [cell["privacy.model"] for cell in found["cells"]] == ["none", "jdp"] * 2
    assert found["cells"][1]["halved_at"] == "inf"


def test_what_is_no_sweep_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = output(capsys, home, "aa", code=2)
    assert told.startswith("dprl: SWEEP: must be a sweep in ")
    assert "got 'aa'; valid: a, b; run `dprl sweep CONFIG --name aa` first" in told
    assert told.count("\n") == 1
    assert "got 'smoke'; valid: a, b; run `dprl sweep smoke` first" in output(capsys, home, "smoke", code=2)
    assert "name: must be 1 to 100 letters" in output(capsys, home, ".a", code=2)


def test_the_path_of_a_sweeps_folder_names_the_sweep(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert "a: 2 of 2 cells done" in output(capsys, home, "sweeps/a/")
    assert json.loads(output(capsys, home, home / "sweeps" / "a", "--json"))["cells"][0]["sweep"] == "a"
    assert "got 'results/a'; give its name: a\n" in output(capsys, home, "results/a", code=2)
    assert "a: 2 of 2 cells done" in output(capsys, tmp_path, "sweeps/a")  # of another home


def test_a_page_that_cannot_be_written_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder.md"
    folder.mkdir()
    assert "--out: must be a file that can be written" in output(capsys, home, "a", "--out", folder, code=2)


def test_a_sweep_that_is_not_finished_says_so(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    status = copy / "sweeps" / "b" / "status.json"
    # A sweep that is killed leaves the status of its start.
    status.write_text('{"cells": 3, "cells_finished": 0, "cells_failed": 1}')
    page = " ".join(output(capsys, copy, "a", "b").split())
    assert "**Not finished.** b lacks 1 of 3 cells, 1 of them failed" in page
    assert "resume with: dprl sweep CONFIG --name b" in page


def test_a_sweep_without_a_finished_cell_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    shutil.rmtree(copy / "sweeps" / "b" / "cells")
    told = output(capsys, copy, "b", code=2)
    assert (
        f"SWEEP: must be finished, and has no finished cell, got 'b'; resume with `dprl run {home / 'b.yaml'}`\n"
        in told
    )
