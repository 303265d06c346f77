"""Owners of runs on a shared server, and runs created twice because an answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from dprl.platform.results.layout import SweepLayout
from dprl.platform.tracking.store import EXPERIMENT, TrackingStore
from tests.platform.tracking.cases import cells_in, client_of, opened, record_all, runs

HERS, HIS = "1" * 32, "2" * 32


def by_sweep(home: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the names and statuses of runs, by sweep and run id."""
    client = client_of(home)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for run in client.search_runs([experiment.experiment_id]):
        named = found.setdefault(run.data.tags.get("sweep_id", ""), {})
        named[run.info.run_id] = (run.info.run_name, run.info.status)
    return found


@pytest.mark.parametrize("fresh", [True, False])
def test_sweeps_of_one_name_leave_each_other_alone(home: Path, fresh: bool) -> None:
    cells = cells_in(home)
    record_all(opened(home, sweep_id=HERS), cells)
    hers = by_sweep(home)[HERS]
    assert len(hers) == 3
    record_all(opened(home, fresh, cells[:1], HIS), cells[:1])
    assert by_sweep(home)[HERS] == hers
    assert len(by_sweep(home)[HIS]) == 2


def test_a_folder_keeps_the_sweep_s_id_and_mends_a_damaged_one(tmp_path: Path) -> None:
    first, second = (SweepLayout(tmp_path / home, "same") for home in ("hers", "his"))
    assert first.sweep_id() == first.sweep_id() != second.sweep_id()
    first.id_file.write_bytes(b"' or \xff")
    assert first.sweep_id() == first.sweep_id()
    assert len(first.sweep_id()) == 32


def twice(request: Callable[..., Any]) -> Callable[..., Any]:
    """Return a request whose first answer is lost, so that MLflow repeats it silently."""

    def repeated(*words: object, **more: object) -> Any:
        request(*words, **more)
        return request(*words, **more)

    return repeated


@pytest.mark.parametrize("killed", [True, False])
def test_runs_that_are_made_twice_are_kept_once(home: Path, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    """The run with more records is kept, even if it is newer, and the other one does not stay RUNNING."""
    monkeypatch.setattr(TrackingStore, "local", property(lambda _: False))
    cells = cells_in(home)
    with monkeypatch.context() as network:
        network.setattr(MlflowClient, "create_run", twice(MlflowClient.create_run))
        exporter = opened(home)
        for cell in cells:
            exporter.record(cell, cell.folder.results())
    written = {exporter._parent, *exporter._cells.values()}
    if killed:
        exporter = opened(home)
    exporter.close([], {}, "FINISHED")
    parent, children = runs(home)
    assert {parent.info.run_id, *(run.info.run_id for run in children)} == written
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}


def test_an_experiment_that_somebody_makes_meanwhile_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MlflowClient, "create_experiment", twice(MlflowClient.create_experiment))
    record_all(opened(home), cells_in(home))
    found = client_of(home).search_experiments(view_type=ViewType.ALL)
    assert [one.name for one in found if one.name != "Default"] == [EXPERIMENT]
