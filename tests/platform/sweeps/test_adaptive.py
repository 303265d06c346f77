"""`dprl sweep --adaptive`: seeds are added while declared comparisons are not significant, and nothing runs twice."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.errors import UserError
from dprl.platform.reports.inference.pairs import family
from dprl.platform.reports.pages.writing import SweepReport
from dprl.platform.results.sweep_identity import Stages
from dprl.platform.sweeps.adaptive import run_adaptive, stages_asked_for
from dprl.platform.sweeps.sweep import SweepOptions, SweepResult, run_sweep

pytestmark = pytest.mark.usefixtures("fixed_draws", "one_drawing")

# The first cell learns at once, and six seeds show it; the others have nearly equal noise. Declared are the
# comparisons of neighbouring epsilons: one is significant, the other is not.
CONFIG = """\
name: race
algorithm: {name: private_ucb_vi, bonus_scale: 0.01, precision_scale: 0.01}
env: {name: riverswim, n_states: 3, horizon: 3}
privacy:
  grid_search:
    - {model: ldp, epsilon: 1.0e+6, families: separate}
    - {model: ldp, epsilon: 1.0, families: separate}
    - {model: ldp, epsilon: 1.1, families: separate}
episodes: 500
seeds: 3
"""


def options(home: Path) -> SweepOptions:
    return SweepOptions("race", home, "process", None, None, fresh=False, command="dprl sweep race --adaptive")


def test_the_files_of_the_sweep_pay_for_its_stages_and_those_of_fixed_seeds_do_not(tmp_path: Path) -> None:
    """In any order of calls, the p-values that a sweep writes are those for the way in which its seeds were added."""
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), ["episodes=60"])
    fixed = written(run_sweep(cells, options(tmp_path)))
    # One stage of four: cells with a significant difference need no second stage.
    adaptive = written(run_sweep(cells, dataclasses.replace(options(tmp_path), stages=Stages(3, 4))))
    assert "in at most 4 stages of 3, until declared comparisons are significant" in adaptive[0]
    assert fixed[1]["p_value"].min() < 0.25
    pd.testing.assert_series_equal(adaptive[1]["p_value"], (4 * fixed[1]["p_value"]).clip(upper=1.0))
    for fresh in (False, True):
        again = written(run_sweep(cells, dataclasses.replace(options(tmp_path), fresh=fresh)))
        assert "stages" not in again[0]
        pd.testing.assert_frame_equal(again[1], fixed[1])


def written(result: SweepResult) -> tuple[str, pd.DataFrame]:
    """The page and the comparisons written by the sweep."""
    return (result.folder / "report.html").read_text(), pd.read_csv(result.folder / "comparisons.csv")


def test_repeated_calls_look_at_the_same_seeds_also_after_a_sweep_of_the_first_stage(tmp_path: Path) -> None:
    """One pair is significant in the second stage only: its later seeds do not count in the first look."""
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), ["episodes=60"])
    first = run_adaptive(cells, options(tmp_path), Stages(3, 3))
    assert sorted(first.summary["seed"]) == [0, 0, 0, 3, 3, 3, 6, 6]
    for swept in (False, True):
        if swept:
            run_sweep(cells, options(tmp_path))
        again = run_adaptive(cells, options(tmp_path), Stages(3, 3))
        assert list(again.summary["cell"]) == list(first.summary["cell"])
        pd.testing.assert_frame_equal(written(again)[1], written(first)[1])


def test_what_could_not_be_written_ends_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "race.yaml").write_text(CONFIG)
    (tmp_path / "sweeps" / "race" / "summary.csv").mkdir(parents=True)
    result = run_adaptive(load_cells(str(tmp_path / "race.yaml"), ["episodes=60"]), options(tmp_path), Stages(3, 2))
    assert result.failed == []
    assert "summary.csv: cannot be written" in result.unwritten[0]
    assert result.summary["seed"].max() == 3


def test_a_report_on_several_sweeps_pays_for_the_stages_of_each(tmp_path: Path) -> None:
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), ["episodes=60"])
    run_sweep(cells, dataclasses.replace(options(tmp_path), stages=Stages(3, 4)))
    more = [dataclasses.replace(cells[1], seed=9)]
    run_sweep(more, dataclasses.replace(options(tmp_path), name="more"))
    other = load_cells(str(tmp_path / "race.yaml"), ["episodes=60", "privacy={model: jdp, epsilon: 1}"])
    run_sweep(other, dataclasses.replace(options(tmp_path), name="other"))
    report = SweepReport.of(tmp_path, ["other", "race", "more"])
    (group,) = report.groups
    # A cell with seeds of two sweeps is corrected for the adaptive one.
    found = sorted((str(cell.row["privacy.model"]), cell.seeds, cell.looks) for cell in group.cells)
    assert found == [("jdp", 3, 1), ("ldp", 3, 4), ("ldp", 3, 4), ("ldp", 6, 4)]
    finals = [cell.finals for cell in group.cells]
    free = family(finals, list(group.comparisons), log=True)
    assert [test.kind for test in group.comparisons.values()] == ["epsilon", "epsilon"]
    for (one, two), pair in zip(group.comparisons, free, strict=True):
        price = group.cells[one].looks * group.cells[two].looks
        assert price == 16
        assert group.comparisons[one, two].test.p_value == pytest.approx(min(1.0, price * pair.p_value))
    page = report.write(tmp_path / "out", "a test")[0].read_text()
    until = "until declared comparisons are significant"
    assert f"race: seeds were added in at most 4 stages of 3, {until}; a p-value is times 4 " in page
    assert "other: seeds were added" not in page


def test_stages_that_cannot_hold_the_seeds_are_no_price(tmp_path: Path) -> None:
    """An earlier version let a grid over seed add several times as many seeds per stage."""
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), ["episodes=60", "seed={grid_search: [0, 3]}"])
    grid_file = run_sweep(cells, options(tmp_path)).folder / "grid.json"
    grid_file.write_text(json.dumps({**json.loads(grid_file.read_text()), "stages": {"seeds": 3, "most": 1}}))
    told = "SWEEP: must have at most 3 seeds a cell of race, as --adaptive adds, got 6; run it again without a grid"
    with pytest.raises(UserError, match=told):
        SweepReport.of(tmp_path, ["race"])


@pytest.mark.slow
def test_seeds_are_added_where_they_are_needed_and_a_second_call_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), [])
    result = run_adaptive(cells, options(tmp_path), Stages(3, 3))
    assert not result.failed
    seeds = result.summary.groupby(["privacy.model", result.summary["privacy.epsilon"]])["seeds"].sum()
    assert seeds["ldp", 1e6] in {3, 6}
    assert (seeds["ldp", 1.0], seeds["ldp", 1.1]) == (9, 9)
    assert sorted(result.summary["seed"].unique()) == [0, 3, 6]
    times = {file: file.stat().st_mtime_ns for file in result.folder.glob("cells/*/records.parquet")}
    again = run_adaptive(cells, options(tmp_path), Stages(3, 3))
    assert len(again.summary) == len(result.summary)
    assert times == {file: file.stat().st_mtime_ns for file in result.folder.glob("cells/*/records.parquet")}
    page, pairs = written(again)
    assert "in at most 3 stages of 3, until declared comparisons are significant" in page
    assert pairs["told_apart"].sum() == 1


@pytest.mark.parametrize(
    ("config", "most", "told"),
    [
        (CONFIG, "2", "--most-seeds: must be a whole number from the config's seeds, 3, to 10000, got '2'"),
        (CONFIG, "many", "--most-seeds: must be a whole number"),
        (CONFIG + f"seed: {2**32 - 10}\n", None, "seed: must leave room for 5 stages of 3 seeds up to 4294967295, got"),
        (
            CONFIG + "seed: {grid_search: [0, 100]}\n",
            None,
            r"seed: must not be the only difference of two cells .* 100",
        ),
        (CONFIG.replace("seeds: 3", "seeds: 2"), None, "seeds: must be one number for all cells, at least 3"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, config: str, most: str | None, told: str) -> None:
    (tmp_path / "race.yaml").write_text(config)
    with pytest.raises(UserError, match=told):
        stages_asked_for(load_cells(str(tmp_path / "race.yaml"), []), most)


def test_the_number_of_stages_is_what_fits() -> None:
    cells = load_cells("smoke", [])
    assert stages_asked_for(cells, None) == Stages(3, 5)
    assert stages_asked_for(cells, "10") == Stages(3, 3)
