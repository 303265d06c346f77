"""Owners of runs on a shared server, and runs created twice because an answer was lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from dprl.platform.results.layout import SweepLayout
from dprl.platform.tracking.store import EXPERIMENT
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
    record_all(opened(home, fresh, HIS), cells[:1])
    assert by_sweep(home)[HERS] == hers
    assert len(by_sweep(home)[HIS]) == 2


def test_a_folder_keeps_the_sweep_s_id_and_mends_a_damaged_one(tmp_path: Path) -> None:
    first, second = (SweepLayout(tmp_path / home, "same") for home in ("hers", "his"))
    assert first.sweep_id() == first.sweep_id() != second.sweep_id()
    first.id_file.write_bytes(b"' or \xff")
    assert first.sweep_id() == first.sweep_id()
    assert len(first.sweep_id()) == 32


def test_a_run_whose_answer_is_lost_is_made_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, warned = cells_in(home), list[str]()
    exporter = opened(home)
    exporter._warn = warned.append
    create = exporter.client.create_run

    def lost(*words: object, **more: object) -> None:
        create(*words, **more)  # type: ignore[arg-type]
        monkeypatch.undo()
        raise MlflowException("the answer was lost")

    monkeypatch.setattr(exporter.client, "create_run", lost)
    record_all(exporter, cells)
    assert warned == ["MLflow: MlflowException: the answer was lost; the rest is written later"]
    parent, children = runs(home)
    assert [run.info.status for run in (parent, *children)] == ["FINISHED"] * 3
