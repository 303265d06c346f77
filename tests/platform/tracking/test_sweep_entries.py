"""A sweep in MLflow: its headline, answer and descriptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprl.platform.configs.config import load_cells
from dprl.platform.reports.report import SweepReport, answer_of
from dprl.platform.results.compare import Group
from dprl.platform.results.compare import groups_of as made_groups
from dprl.platform.results.layout import Grid, SweepCell, SweepLayout
from dprl.platform.sweeps.cell import LockedCell
from dprl.platform.tracking.exporter import SweepEntries, sweep_entries
from tests.platform.results.cases import report_cell
from tests.platform.tracking.cases import CONFIG, cells_in, client_of, opened, record_all, runs


def groups_of(home: Path, cells: list[SweepCell]) -> Sequence[Group]:
    grid = Grid.of([cell.experiment for cell in cells])
    layout = SweepLayout(home, "tracked")
    grid.write(layout.grid_file)
    return SweepReport.of(home, ["tracked"]).groups


def entries_of(home: Path, cells: list[SweepCell]) -> SweepEntries:
    return sweep_entries(groups_of(home, cells), "dprl run tracked.yaml")


def test_the_sweep_s_run_has_the_headline_of_its_best_cells_and_its_answer(home: Path) -> None:
    cells = cells_in(home)
    exporter = opened(home)
    note = runs(home)[0].data.tags["mlflow.note.content"]
    assert "No cell is finished" in note
    assert "\n    dprl run tracked.yaml\n" in note
    for cell in cells:
        exporter.record(cell)
    for _ in range(2):
        assert not exporter.close([], {}, "FINISHED", entries_of(home, cells))
        parent, children = runs(home)
        regrets = [child.data.metrics["cell/regret"] for child in children]
        assert parent.data.metrics == {
            "best/regret": pytest.approx(regrets[1]),
            "best/certified_epsilon": 1.0,
            "best/jdp/regret": pytest.approx(regrets[1]),
            "best/jdp/certified_epsilon": 1.0,
            "best/none/regret": pytest.approx(regrets[0]),
        }
        history = client_of(home).get_metric_history(parent.info.run_id, "best/regret")
        assert [point.step for point in history] == [0]
        note = parent.data.tags["mlflow.note.content"]
        assert note.startswith(f"### Answer\n\n**{answer_of(groups_of(home, cells))}.**")
        assert "\n    dprl run tracked.yaml\n" in note


def test_a_user_s_own_description_is_kept(home: Path) -> None:
    cells = cells_in(home)
    record_all(opened(home), cells)
    client, (parent, children) = client_of(home), runs(home)
    for run in (parent, children[0]):
        client.set_tag(run.info.run_id, "mlflow.note.content", "mine")
        client.delete_tag(run.info.run_id, "recorded") if run is not parent else None
    exporter = opened(home)
    record_all(exporter, cells)
    assert not exporter.close([], {}, "FINISHED", entries_of(home, cells))
    parent, children = runs(home)
    assert {run.data.tags["mlflow.note.content"] for run in (parent, children[0])} == {"mine"}


def test_without_a_headline_there_is_no_answer() -> None:
    cell = dataclasses.replace(report_cell([1.0, 2.0, 3.0]), metric=None)
    metrics, note = sweep_entries(made_groups([cell]), "dprl run a")
    assert metrics == {}
    assert "No cell is finished that could be compared." in note
    assert note.endswith("\n    dprl run a\n")


def test_of_several_environments_the_first_has_metrics(tmp_path: Path) -> None:
    base: dict[str, Any] = dict(CONFIG)
    env = {**base["env"], "horizon": {"grid_search": [2, 3]}}
    settings = {**base, "env": env, "privacy": {"model": "none"}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    cells = SweepLayout(tmp_path, "tracked").cells(load_cells(tmp_path / "config.yaml"))
    for cell in cells:
        locked = LockedCell(cell)
        while not locked.advance(10.0).finished:
            pass
        locked.close()
    exporter = opened(tmp_path)
    assert not exporter.close([], {}, "FINISHED", entries_of(tmp_path, cells))
    assert runs(tmp_path)[0].data.metrics.keys() == {
        "best/regret",
        "best/none/regret",
    }
