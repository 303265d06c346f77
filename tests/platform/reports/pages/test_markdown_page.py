"""`dprl report --out FILE.md`: Markdown pages of finished sweeps, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
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
    """The error, or what is printed, or, if no file was asked for, the page."""
    capsys.readouterr()
    file = [] if "--out" in words else ["--out", str(home / "page.md")]
    assert main(["report", *map(str, words), "--storage", str(home), *file]) == code
    shown = capsys.readouterr()
    return shown.err if code else (home / "page.md").read_text() if file and "--json" not in words else shown.out


def rows(page: str) -> list[list[str]]:
    """The cells of all tables, headers included."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


def tables(page: str) -> list[list[dict[str, str]]]:
    """The rows of each table by header; a header that stands there twice has a '+' the second time."""
    found = []
    for block in page.split("\n\n"):
        if block.startswith("|"):
            headers, _, *lines = rows(block)
            names = [name + "+" * headers[:i].count(name) for i, name in enumerate(headers)]
            found.append([dict(zip(names, line, strict=True)) for line in lines])
    return found


def test_a_page_has_a_table_for_each_environment(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a", "b", "--title", "What was found")
    assert page.startswith("# What was found\n\n")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [f"## riverswim (n_states=3, horizon={horizon}, version=osband)" for horizon in (3, 4)]
    (free, private), others = tables(page)
    assert len(others) == 2
    assert (private["algorithm"], private["trust model"]) == ("private_ucb_vi", "jdp")
    assert (private["certified \u03b5"], private["\u03b4"]) == ("1", "1e-06")
    at_1, k_1 = "bonus_scale 0.1, precision_scale 1: episodes to half regret [95 %]", "K"
    assert (private["scales 1: episodes to half regret [95 %]"], private[k_1 + "+"]) == (">300", "300")
    assert (private["theorem+"], private["theorem"]) == ("T1", "")
    assert (private[at_1], private[k_1]) == ("", "")
    assert (free["trust model"], free["\u03b4"], free[k_1]) == ("none", "", "500")
    assert free[at_1]
    assert free["scales 1: episodes to half regret [95 %]"] == ""
    assert "In all rows: seeds 6, first seed 0, beta 0.1, replan_growth 0, " in page
    assert "with its settings and noise: T1 [CZ22] Theorem" in " ".join(page.split())
    assert "K differs between runs" in page


def test_scales_stand_side_by_side_where_only_they_and_the_episodes_differ(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    change(copy, lambda summary: pd.concat([summary, summary.iloc[1:].assign(episodes=900, **SCALES)]))
    ((_, private),) = tables(output(capsys, copy, "a"))
    assert (private["scales 1: episodes to half regret [95 %]"], private["K+"]) == (">300", "300")
    assert (private["scales 0.03: episodes to half regret [95 %]"], private["K++"]) == (">900", "900")
    # Two cells in one place: every cell has a row.
    change(copy, lambda summary: pd.concat([summary, summary.iloc[1:2].assign(episodes=800)]))
    (plain,) = tables(output(capsys, copy, "a"))
    assert [row["scales"] for row in plain[1:]] == ["scales 1", "scales 0.03", "scales 1"]
    assert [row["K"] for row in plain] == ["500", "300", "900", "800"]
    assert all(row["mean regret per episode [95 %]"] for row in plain)


def test_few_seeds_have_no_interval_and_the_head_says_from_when_on(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    change(copy, lambda summary: summary.assign(halved_at_lower=None, halved_at_upper=None))
    assert "scales 1: episodes to half regret [95 %, from 6 seeds on]" in rows(output(capsys, copy, "a"))[0]


def test_two_algorithms_are_compared_at_equal_privacy_and_scales(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(summary: pd.DataFrame) -> pd.DataFrame:
        one = summary.iloc[1:]
        pure: dict[str, Any] = {"privacy.delta": 0.0, "claimed_delta": 0.0}
        other: dict[str, Any] = {"algorithm.name": "other", "halved_at": 240.0}
        two = [
            one.assign(**other | {"halved_at": math.inf}),
            one.assign(halved_at=60.0, episodes=900, **SCALES),
            one.assign(**other | SCALES),
            one.assign(**other | pure),
        ]
        return pd.concat([summary.assign(halved_at=50.0), *two])

    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    change(copy, add)
    page = output(capsys, copy, "a", "--compare", "private_ucb_vi", "other")
    assert "\n## private_ucb_vi against other at equal noise\n" in page
    (row,) = tables(page)[0]
    assert (row["trust model"], row["certified \u03b5"], row["\u03b4"]) == ("jdp", "1", "1e-06")
    assert (row["scales 1"], row["scales 0.03"]) == ("> 6 (>300 / 50)", "4 (240 / 60)")
    (row,) = tables(output(capsys, copy, "a", "--compare", "other", "private_ucb_vi"))[0]
    assert (row["scales 1"], row["scales 0.03"]) == ("< 0.167 (50 / >300)", "0.25 (60 / 240)")
    told = output(capsys, copy, "a", "--compare", "othre", "private_ucb_vi", code=2)
    assert "--compare: must be algorithms of the sweeps, got 'othre'; did you mean 'other'?" in told


def test_a_ratio_never_mixes_algorithm_and_noise(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(summary: pd.DataFrame) -> pd.DataFrame:
        one = summary.iloc[1:]
        less: dict[str, Any] = {"privacy.families": "one_hot", "privacy.counter": "auto"}
        other: dict[str, Any] = {"algorithm.name": "other"}
        two = [one.assign(**less, halved_at=40.0), one.assign(**less, **other, halved_at=20.0)]
        return pd.concat([summary.assign(halved_at=200.0), *two])

    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    change(copy, add)
    algorithms, noises, *_ = tables(output(capsys, copy, "a", "--compare", "other", "private_ucb_vi"))
    (row,) = algorithms
    assert (row["noise"], row["scales 1"]) == ("one_hot auto", "2 (40 / 20)")
    (row,) = noises
    assert (row["algorithm"], row["scales 1"]) == ("private_ucb_vi", "5 (200 / 40)")
    assert row["noise: from, to"] == "separate binary_tree, one_hot auto"


def test_other_settings_of_an_algorithm_are_never_mixed_either(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(summary: pd.DataFrame) -> pd.DataFrame:
        one = summary.iloc[1:]
        beta: dict[str, Any] = {"algorithm.beta": 0.2}
        other: dict[str, Any] = {"algorithm.name": "other", "algorithm.beta": math.nan}
        two = [one.assign(halved_at=200.0), one.assign(**beta, halved_at=80.0), one.assign(**other, halved_at=40.0)]
        less = [row.assign(**{"privacy.families": "one_hot"}, halved_at=row["halved_at"] / 2.0) for row in two]
        return pd.concat([summary.iloc[:1], *two, *less])

    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    change(copy, add)
    algorithms, noises, *_ = tables(output(capsys, copy, "a", "--compare", "private_ucb_vi", "other"))
    found = {(row["settings"], row["noise"]): row["scales 1"] for row in algorithms}
    assert {setting: text for (setting, noise), text in found.items() if noise == "separate"} == {
        "beta=0.1": "0.2 (40 / 200)",
        "beta=0.2": "0.5 (40 / 80)",
    }
    assert len(found) == 4
    assert {(row["algorithm"], row["settings"], row["scales 1"]) for row in noises} == {
        ("private_ucb_vi", "beta=0.1", "2 (200 / 100)"),
        ("private_ucb_vi", "beta=0.2", "2 (80 / 40)"),
        ("other", "", "2 (40 / 20)"),
    }


SCALES: dict[str, Any] = {"algorithm.bonus_scale": 0.03, "algorithm.precision_scale": 0.03}


def change(home: Path, how: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the summary of sweep a."""
    file = home / "sweeps" / "a" / "summary.csv"
    how(pd.read_csv(file, keep_default_na=False, na_values=[""], dtype={"cell": str})).to_csv(file, index=False)


def test_a_sweep_from_before_theorems_is_read(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    told = output(capsys, copy, "a")
    change(copy, lambda summary: summary.drop(columns="theorem"))
    # Its cells are called by what was their digest then.
    cells = copy / "sweeps" / "a" / "cells"
    for i, folder in enumerate(sorted(cells.iterdir())):
        name = f"{i:012x}"
        change(copy, lambda summary, old=folder.name, new=name: summary.replace({"cell": {old: new}}))  # type: ignore[misc]
        folder.rename(cells / name)
    assert output(capsys, copy, "a").replace(str(copy), str(home)) == told.replace(str(copy), str(home))
    settings = next(cells.iterdir()) / "experiment.yaml"
    settings.write_text(settings.read_text() + "unheard_of: 1\n")
    assert "SWEEP: must have settings that this version of dprl knows: " in output(capsys, copy, "a", code=2)


def test_a_preface_stands_at_the_top(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preface = tmp_path / "preface.md"
    preface.write_text("Why this was run.\n")
    assert output(capsys, home, "a", "--preface", preface).startswith(
        "# Results of a\n\nWhy this was run.\n\nMade by `"
    )
    assert "--preface: must be a Markdown file that can be read (No such file or directory), got 'no.md'; " in output(
        capsys, home, "a", "--preface", "no.md", code=2
    )
    preface.write_bytes(b"\xff")
    assert "(it is not UTF-8 text)" in output(capsys, home, "a", "--preface", preface, code=2)


def test_the_page_says_how_it_was_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = output(capsys, home, "a")
    assert page.startswith("# Results of a\n")
    assert f"Made by `dprl report a --storage {home} --out {home / 'page.md'}`." in page
    assert page.count("source_digest") == 1


def test_the_page_goes_to_a_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "page.md"
    assert output(capsys, home, "a", "--out", file) == f"report    {file}\n"
    assert len(rows(file.read_text())) == 4


def test_json_is_the_rows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(output(capsys, home, "a", "b", "--json"))["cells"]
    assert [cell["sweep"] for cell in cells] == ["a", "a", "b", "b"]
    assert [cell["privacy.model"] for cell in cells] == ["none", "jdp"] * 2
    assert cells[1]["halved_at"] == "inf"


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
    assert output(capsys, home, "sweeps/a/").startswith("# Results of a\n")
    assert json.loads(output(capsys, home, home / "sweeps" / "a", "--json"))["cells"][0]["sweep"] == "a"
    assert "got 'results/a'; give its name: a\n" in output(capsys, home, "results/a", code=2)
    told = output(capsys, tmp_path, "sweeps/a", code=2)
    assert f"got 'sweeps/a'; give its name: a, and its home: --storage {home}\n" in told


def test_a_page_that_cannot_be_written_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder.md"
    folder.mkdir()
    assert "--out: must be a file that can be written" in output(capsys, home, "a", "--out", folder, code=2)


def test_a_sweep_that_is_not_finished_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    (copy / "sweeps" / "b" / "status.json").write_text('{"cells": 3, "cells_finished": 2, "cells_failed": 1}')
    told = output(capsys, copy, "a", "b", code=2)
    assert "SWEEP: must be finished, and lacks 1 of 3 cells, got 'b'; resume with `dprl sweep CONFIG --name b`" in told
    (copy / "sweeps" / "b" / "status.json").unlink()
    told = output(capsys, copy, "b", code=2)
    assert "SWEEP: must be summarised by this version of dprl, got 'b'; run `dprl sweep CONFIG --name b` again" in told


def test_a_sweep_without_a_finished_cell_is_told_from_no_sweep(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    folder = copy / "sweeps" / "b"
    (folder / "summary.csv").unlink()
    told = output(capsys, copy, "b", code=2)
    resumed_by = f"got 'b'; resume with `dprl run {home / 'b.yaml'}`\n"
    assert f"SWEEP: must be finished, and has no summary yet, {resumed_by}" in told
    shutil.rmtree(folder / "cells")
    told = output(capsys, copy, "b", code=2)
    assert f"SWEEP: must be finished, and has no finished cell, {resumed_by}" in told


def test_cells_of_an_earlier_grid_are_not_waited_for(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    (copy / "sweeps" / "b" / "cells" / "0123456789ab").mkdir()
    assert len(rows(output(capsys, copy, "b"))) == 4
