"""`dprl sweep --adaptive`: seeds are added where cells are not told apart, and nothing runs twice."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.errors import UserError
from dprl.platform.reports.pages.lookup import Stages
from dprl.platform.reports.pages.writing import write_report
from dprl.platform.sweeps.adaptive import run_adaptive, stages_of
from dprl.platform.sweeps.sweep import SweepOptions

# The first cell learns at once; the two others, whose noise is the same but for nothing that matters, do not.
CONFIG = """\
name: race
algorithm: {name: private_ucb_vi, bonus_scale: 0.01, precision_scale: 0.01}
env: {name: riverswim, n_states: 3, horizon: 3}
privacy:
  grid_search:
    - {model: none}
    - {model: ldp, epsilon: 1.0}
    - {model: ldp, epsilon: 1.1}
episodes: 500
seeds: 3
"""


def options(home: Path) -> SweepOptions:
    return SweepOptions("race", home, "process", None, None, fresh=False, command="dprl sweep race --adaptive")


def test_seeds_are_added_where_they_are_needed_and_a_second_call_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "race.yaml").write_text(CONFIG)
    cells = load_cells(str(tmp_path / "race.yaml"), [])
    result = run_adaptive(cells, options(tmp_path), Stages(3, 3))
    assert not result.failed
    seeds = result.summary.groupby(["privacy.model", result.summary["privacy.epsilon"].fillna(0.0)])["seeds"].sum()
    assert seeds.to_dict() == {("none", 0.0): 3, ("ldp", 1.0): 9, ("ldp", 1.1): 9}
    assert sorted(result.summary["seed"].unique()) == [0, 3, 6]
    times = {file: file.stat().st_mtime_ns for file in result.folder.glob("cells/*/records.parquet")}
    again = run_adaptive(cells, options(tmp_path), Stages(3, 3))
    assert len(again.summary) == len(result.summary)
    assert times == {file: file.stat().st_mtime_ns for file in result.folder.glob("cells/*/records.parquet")}
    assert json.loads((result.folder / "stages.json").read_text()) == {"seeds": 3, "most": 3}
    files = write_report(tmp_path, ["race"], tmp_path / "out", "a test")
    assert "in at most 3 stages of 3, until cells are told apart" in files[0].read_text()
    pairs = pd.read_csv(files[3])
    assert pairs["told_apart"].sum() == 2


@pytest.mark.parametrize(
    ("config", "most", "told"),
    [
        (CONFIG, "2", "--most-seeds: must be a whole number from the config's seeds, 3, to 10000, got '2'"),
        (CONFIG, "many", "--most-seeds: must be a whole number"),
        (CONFIG.replace("seeds: 3", "seeds: 2"), None, "seeds: must be one number for all cells, at least 3"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, config: str, most: str | None, told: str) -> None:
    (tmp_path / "race.yaml").write_text(config)
    with pytest.raises(UserError, match=told):
        stages_of(load_cells(str(tmp_path / "race.yaml"), []), most)


def test_the_number_of_stages_is_what_fits() -> None:
    cells = load_cells("smoke", [])
    assert stages_of(cells, None) == Stages(3, 5)
    assert stages_of(cells, "10") == Stages(3, 3)
