"""A sweep in MLflow: its headline, answer and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dprl.platform.reports.report import SweepReport, answer_of
from dprl.platform.results.compare import Group
from dprl.platform.results.layout import Grid, SweepCell, SweepLayout
from dprl.platform.tracking.exporter import SweepEntries, sweep_entries
from tests.platform.tracking.cases import cells_in, client_of, opened, record_all, runs


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
