"""`dprl report`: the page, its files, unfinished sweeps, and refusals."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from dprl.platform.command_line import main
from dprl.platform.reports import report
from dprl.platform.reports.report import SweepReport
from dprl.platform.results import cells as results_cells
from dprl.platform.results import summary
from tests.platform.reports.cases import page_of, text_of
from tests.platform.reports.conftest import SWEEP

pytestmark = pytest.mark.usefixtures("one_drawing")

FILES = ["report.html", "report.csv", "comparisons.csv"]
FIGURES = ["frontier", "horizon", "curves"]
FIGURE_FILES = [f"{name}.png" for name in FIGURES]


@pytest.fixture
def home(finished: Path) -> Path:
    """The folder of results with the sweep of conftest.py, only to be read."""
    return finished


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home, tmp_path / "copy"))


def output(capsys: pytest.CaptureFixture[str], home: Path, *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["report", *map(str, words), "--storage", str(home)]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def test_the_report_goes_to_the_folder_of_its_sweep(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, copy, "small")
    folder = copy / "sweeps" / "small"
    assert f"report    {folder / 'report.html'}\n" in shown
    assert "certified \u03b5 \u2264 1 (central, \u03b4 = 0)" in shown
    for name in (*FILES, *FIGURE_FILES):
        assert (folder / name).stat().st_size > 0
    page = (folder / "report.html").read_text()
    assert len(re.findall(r"<figure", page)) == len(FIGURES)
    assert not re.search(r"<script|(src|href)=\"(?!data:|#|cells/[0-9a-f]+/certificate\.html\")", page)
    assert page.index("<h1>") < page.index("<figure")
    assert "fails" in page


def test_cells_and_comparisons_are_data_too(home: Path, tmp_path: Path) -> None:
    files = SweepReport.of(home, ["small"]).write(tmp_path / "out", "a test")
    assert [file.name for file in files] == [*FILES, *FIGURE_FILES]
    cells = pd.read_csv(files[1], keep_default_na=False, na_values=[""])
    assert len(cells) == 10
    assert (cells["n_seeds"] == 3).all()
    assert (cells["band_lower"] <= cells["headline"]).all()
    assert set(cells["scale"]) <= {"log", "linear"}
    # A geometric mean is at most the mean.
    assert (cells["headline"] <= cells["regret"] * (1 + 1e-12)).all()
    failing = cells[cells["verdict"] == "fails"]
    assert len(failing) == 2
    for _, row in failing.iterrows():
        assert f"jdp epsilon={row['proved_epsilon']:.4g}" in row["name"]
    pairs = pd.read_csv(files[2])
    # In each group one pair of neighbouring epsilons at the same noise, and no pair across horizons.
    assert pairs["kind"].tolist() == ["epsilon", "epsilon"]
    assert (pairs["p_holm"] >= pairs["p_value"]).all()
    assert (pairs["effect_lower"] <= pairs["effect"]).all()


def test_json_says_the_same(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, copy, "small", "--json", "--out", tmp_path / "out"))
    assert found["page"] == str(tmp_path / "out" / "report.html")
    assert Path(found["page"]).is_file()
    assert len(found["cells"]) == 10
    assert found["answer"].startswith("At certified \u03b5 \u2264 1 (central, \u03b4 = 0), private_ucb_vi on ")
    assert [finding["model"] for finding in found["findings"]].count("none") == 2
    assert found["missing"] == []


def test_the_answer_stands_before_its_figure_and_text_of_users_is_escaped(home: Path, tmp_path: Path) -> None:
    page = SweepReport.of(home, ["small"]).write(tmp_path, "a test", "<b>&title")[0].read_text()
    parts = ["<h1>", "<figure>", 'id="budgets"', 'id="curves"', 'id="claims"', 'id="cells"', 'id="methods"']
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "Not complete." not in page
    assert "<b>&title" not in page
    assert "&lt;b&gt;&amp;title" in page


def test_what_is_not_finished_is_reported_with_what_resumes_it(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy / "sweeps" / "small"
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "cells": 13, "cells_failed": 1}))
    (folder / "summary.csv").unlink()
    lost = next((folder / "cells").iterdir())
    (lost / "finished.json").unlink()
    shown = output(capsys, copy, "small")
    failed = f"1 failed (logs in {folder / 'logs'}); resume with: {status['command']}\n"
    assert f"not complete: small has 9 of 13 cells, {failed}" in shown
    page = (folder / "report.html").read_text()
    assert page.index("Not complete.") < page.index("<h1>")
    assert len(pd.read_csv(folder / "report.csv")) == 9


def test_cells_that_differ_in_the_seed_only_are_side_by_side(copy: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRL_HOME", str(copy))
        more = yaml.safe_load(SWEEP) | {"name": "more", "seed": 3, "seeds": 2}
        (tmp_path / "more.yaml").write_text(yaml.safe_dump(more))
        assert main(["run", str(tmp_path / "more.yaml")]) == 0
    for versions in (copy / "sweeps" / "more").glob("cells/*/versions.json"):
        versions.write_text(json.dumps(json.loads(versions.read_text()) | {"git_commit": "another"}))
    files = SweepReport.of(copy, ["small", "more"]).write(tmp_path / "out", "a test")
    cells = pd.read_csv(files[1])
    assert sorted(cells["n_seeds"]) == [2] * 10 + [3] * 10
    assert cells["name"].str.contains("seeds=").all()
    made = re.findall(r"Cells were run with [^<\n]*", files[0].read_text())
    assert sorted("git_commit another" in line for line in made) == [False, True]
    # The same sweep twice adds nothing.
    again = pd.read_csv(SweepReport.of(copy, ["small", "small"]).write(tmp_path / "again", "a test")[1])
    assert again["n_seeds"].tolist() == [3] * 10


@pytest.mark.parametrize("privacy", ["{model: none}", "{model: jdp, epsilon: 1}"])
def test_a_cell_alone_and_of_two_seeds_has_a_page(
    privacy: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep stopped after its first cell may have no claim or no band in any row."""
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    changes = [word for change in (f"privacy={privacy}", "seeds=2", "env.horizon=2") for word in ("--set", change)]
    assert main(["run", str(home / "small.yaml"), *changes]) == 0
    frontier = set() if "none" in privacy else {"frontier.png"}
    assert {file.name for file in (tmp_path / "sweeps" / "small").glob("*.png")} == {"curves.png", *frontier}
    assert "<h1>" in (tmp_path / "sweeps" / "small" / "report.html").read_text()


def test_page_and_tables_are_there_before_figures(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops the drawing has them, and the next report removes the figures that were drawn."""
    seen: list[set[str]] = []

    def stopped(_: object, kind: str) -> bytes:
        if kind == "svg":  # of the page
            return b"<svg/>"
        seen.append({file.name for file in tmp_path.iterdir()})
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "render", stopped)
    with pytest.raises(KeyboardInterrupt):
        SweepReport.of(home, ["small"]).write(tmp_path, "a test")
    assert seen == [{"report.html", "report.csv", "comparisons.csv", "report_figures.json"}]


def test_figures_of_an_earlier_report_are_removed_and_nothing_else(home: Path, copy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "curves_of_mine.png").write_bytes(b"mine")
    (folder / "gaps.png").write_bytes(b"mine")
    SweepReport.of(home, ["small"]).write(folder, "a test")
    assert (folder / "horizon.png").is_file()
    # The cells of one horizon only.
    grid_file = copy / "sweeps" / "small" / "grid.json"
    grid = json.loads(grid_file.read_text())
    grid["cells"] = {digest: cell for digest, cell in grid["cells"].items() if cell["env.horizon"] == 2}
    grid_file.write_text(json.dumps(grid))
    SweepReport.of(copy, ["small"]).write(folder, "a test")
    assert not (folder / "horizon.png").exists()
    assert (folder / "curves_of_mine.png").read_bytes() == b"mine"
    assert (folder / "gaps.png").read_bytes() == b"mine"


@pytest.mark.parametrize("damaged", ["no JSON", "7", '["../mine.png", "mine.txt", 7]'])
def test_a_damaged_list_of_figures_removes_nothing(damaged: str, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    mine = [tmp_path / "mine.png", folder / "mine.txt"]
    for file in mine:
        file.touch()
    (folder / "report_figures.json").write_text(damaged)
    SweepReport.of(home, ["small"]).write(folder, "a test")
    assert all(file.is_file() for file in mine)


def test_a_plugins_sweep_is_not_reported_without_it(
    copy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the plugin its own metrics are unknown; the regret of a function of another script is known."""
    page = copy / "sweeps" / "small" / "report.html"
    page.unlink(missing_ok=True)
    monkeypatch.setattr(results_cells, "ALGORITHMS", {})
    output(capsys, copy, "small")
    assert page.exists()
    page.unlink()
    monkeypatch.setattr(summary, "ALGORITHMS", {})
    told = output(capsys, copy, "small", code=2)
    assert told == (
        "dprl: SWEEP: must have algorithms that are known here, got 'private_ucb_vi'; name its plugin in DPRL_PLUGINS, "
        "as when it ran\n"
    )
    assert not page.exists()


def test_what_cannot_be_asked_for_is_refused(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = output(capsys, home, "small", "small", code=2)
    assert "--out: must be given with several sweeps, got None; write e.g. --out report\n" in told
    file = tmp_path / "file"
    file.touch()
    told = output(capsys, home, "small", "--out", file, code=2)
    assert "--out: must be a folder that can be written" in told
    assert "SWEEP: must be a sweep in " in output(capsys, home, "smal", code=2)


def test_the_path_of_a_sweeps_folder_names_the_sweep(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert "small: 10 of 10 cells done" in text_of(page_of(home, "sweeps/small/"))
    assert "small: 10 of 10 cells done" in text_of(page_of(tmp_path, "sweeps/small"))  # of another home
    told = output(capsys, home, "results/small", "--out", tmp_path, code=2)
    assert "got 'results/small'; give its name: small\n" in told


def test_a_sweep_without_a_finished_cell_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(copy / "sweeps" / "small" / "cells")
    told = output(capsys, copy, "small", code=2)
    assert "SWEEP: must be finished, and has no finished cell, got 'small'; resume with `dprl run " in told
