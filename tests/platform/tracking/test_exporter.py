"""Entries in MLflow, each written once, also by several owners; a sweep's headline, answer and descriptions."""

from __future__ import annotations

import getpass
import itertools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mlflow.exceptions import MlflowException

from dprl.platform.configs.config import load_cells
from dprl.platform.errors import UserError
from dprl.platform.reports.report import SweepReport, answer_of
from dprl.platform.results.compare import Group
from dprl.platform.results.layout import Grid, SweepCell, SweepLayout
from dprl.platform.tracking.exporter import Exporter, SweepEntries, sweep_entries
from dprl.platform.tracking.store import EXPERIMENT, TrackingStore, runs_page
from tests.platform.tracking.cases import CONFIG, cells_in, client_of, opened, record_all, run_all, runs

pytestmark = pytest.mark.usefixtures("one_drawing")


def test_a_cell_is_a_nested_run_with_its_parameters_curves_and_artifacts(home: Path) -> None:
    cells = cells_in(home)
    record_all(opened(home), cells)
    parent, children = runs(home)
    assert (parent.info.run_name, parent.info.status) == ("tracked", "FINISHED")
    assert [child.info.run_name for child in children] == [cell.label for cell in cells]
    client = client_of(home)
    for cell, child in zip(cells, children, strict=True):
        assert child.info.status == "FINISHED"
        settings = {name: str(value) for name, value in cell.experiment.parameters().items()}
        known = {"Algorithm": "algorithm.name", "Epsilon": "privacy.epsilon", "Trust model": "privacy.model"}
        first = {name: settings[key] for name, key in known.items() if key in settings}
        assert child.data.params == settings | first
        # The order of MLflow's compare page, which plots the first three that differ.
        assert set(sorted(child.data.params)[:3]) >= {"Algorithm", *first}
        assert child.data.tags["digest"] == cell.digest
        named = {name: child.data.tags[f"mlflow.{name}"] for name in ("user", "source.name", "source.type")}
        assert named == {"user": getpass.getuser(), "source.name": "dprl run tracked.yaml", "source.type": "LOCAL"}
        internal = {"digest", "recorded", "sweep_id"}
        public = {"algorithm", "proved_epsilon", "sweep", "theorem", "trust_model", "verdict"}
        assert {tag for tag in child.data.tags if not tag.startswith("mlflow.")} == internal | public
        artifacts = {file.path for file in client.list_artifacts(child.info.run_id)}
        assert artifacts == {file.name for file in cell.folder.artifacts()}
        assert {"records.parquet", "certificate.json"} <= artifacts
        assert not artifacts & {"state.npz", "finished.json"}
    private = children[1].data
    assert private.params["privacy.epsilon"] == "1.0"
    epsilons = (private.metrics["privacy/claimed_epsilon"], private.metrics["privacy/certified_epsilon"])
    assert epsilons == (1.0, 1.0)
    assert private.metrics["time/seconds"] > 0
    note = private.tags["mlflow.note.content"]
    assert note.startswith("### Certificate\n\n**HOLDS")
    assert (private.tags["trust_model"], private.tags["verdict"]) == ("jdp", "holds")
    assert (private.tags["algorithm"], private.tags["proved_epsilon"]) == ("private_ucb_vi", "1")
    assert [child.data.tags["theorem"] for child in children] == [
        cell.experiment.algorithm.covered_by or "none" for cell in cells
    ]


def test_the_name_of_a_claim_that_fails_says_so(home: Path) -> None:
    """A run's label has the claimed epsilon, and MLflow's charts show nothing else about it."""
    privacy = [{"model": "jdp", "epsilon": 1.0, "calibration": "printed"}, {"model": "none"}]
    (home / "config.yaml").write_text(yaml.safe_dump(CONFIG | {"privacy": {"grid_search": privacy}}))
    cells = SweepLayout(home, "tracked").cells(load_cells(home / "config.yaml"))
    run_all(cells)
    record_all(opened(home), cells)
    assert {run.info.run_name for run in runs(home)[1]} == {f"{cells[0].label} | FAILS", "none"}


def test_curves_are_means_over_seeds_by_episode(home: Path) -> None:
    cell = cells_in(home)[0]
    record_all(opened(home), cells_in(home))
    records = cell.folder.results().records
    history = client_of(home).get_metric_history(runs(home)[1][0].info.run_id, "curve/regret")
    means = records.groupby("episode")["regret"].mean()
    steps = [point.step for point in history]
    assert len(means) > 100
    assert len(steps) == 40
    assert (steps[0], steps[-1]) == (means.index[0], means.index[-1])
    # As dense at the start as the records.
    assert steps == sorted(set(steps))
    assert sum(step <= 30 for step in steps) >= 8
    np.testing.assert_allclose([point.value for point in history], means[steps].to_numpy(), rtol=1e-12)
    assert not {name for name in runs(home)[1][0].data.metrics if "gap" in name}
    for name in ("interval/regret_lower", "interval/regret_upper", "curve/regret_per_episode", "curve/saturated"):
        points = client_of(home).get_metric_history(runs(home)[1][0].info.run_id, name)
        assert len(points) == 40


def test_recording_again_adds_nothing(home: Path) -> None:
    cells = cells_in(home)
    record_all(opened(home), cells)
    before = runs(home)
    record_all(opened(home), cells)
    assert [run.info.run_id for run in runs(home)[1]] == [run.info.run_id for run in before[1]]
    # Killed between the points and the mark of completeness: everything is written again.
    client = client_of(home)
    for run in before[1]:
        client.delete_tag(run.info.run_id, "recorded")
    record_all(opened(home), cells)
    after = runs(home)
    assert after[0].info.run_id == before[0].info.run_id
    for run in after[1]:
        steps = [point.step for point in client.get_metric_history(run.info.run_id, "curve/regret")]
        assert len(steps) == len(set(steps)) == 40


def test_no_run_stays_running(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_in(home)
    killed = opened(home)
    monkeypatch.setattr(killed.client, "set_terminated", raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        killed.record(cells[0])
    assert [run.info.status for run in runs(home)[1]] == ["RUNNING"]
    # The next process finds the same run.
    opened(home).close([], {}, "KILLED")
    parent, children = runs(home)
    assert [run.info.status for run in (parent, *children)] == ["KILLED", "KILLED"]
    record_all(opened(home), cells)
    assert [run.info.status for run in runs(home)[1]] == ["FINISHED", "FINISHED"]


def test_a_cell_that_ran_again_is_written_again(home: Path) -> None:
    cells = cells_in(home)
    record_all(opened(home), cells)
    later = cells[0].folder.results().finished_at + 60
    os.utime(cells[0].folder.marker_file, (later, later))
    record_all(opened(home), cells)
    child = runs(home)[1][0]
    assert (child.info.status, child.data.tags["recorded"]) == ("FINISHED", repr(later))


def raising(error: type[BaseException]) -> Any:
    def raised(*_: object) -> None:
        raise error

    return raised


class Lost(MlflowException):
    """The server did not answer one request."""


@pytest.mark.parametrize("call", ["set_terminated", "log_artifact", "log_batch"])
def test_a_store_that_is_lost_in_the_middle_of_a_cell_gets_all_of_it_later(
    home: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The store fails at each such request in turn, and the process is killed there."""
    cell = cells_in(home)[0]
    at = 0
    while True:
        lost_once = list[str]()
        exporter = Exporter(TrackingStore.choose(home, None), "tracked", "dprl run tracked.yaml", lost_once.append)
        exporter.open(fresh=True)
        counting = itertools.count()
        request = getattr(exporter.client, call)

        def lost(*words: object, at: int = at, counting: Any = counting, request: Any = request, **more: object) -> Any:
            if next(counting) == at:
                raise Lost("the connection was cut")
            return request(*words, **more)

        monkeypatch.setattr(exporter.client, call, lost)
        exporter.record(cell)
        if not lost_once:
            break
        later = opened(home)
        later.record(cell)
        later.close([], {}, "FINISHED")
        (run,) = [run for run in runs(home)[1] if run.data.tags["digest"] == cell.digest]
        assert run.info.status == "FINISHED"
        assert run.data.tags["recorded"] == repr(cell.folder.results().finished_at)
        kept = {file.path for file in client_of(home).list_artifacts(run.info.run_id)}
        assert kept == {file.name for file in cell.folder.artifacts()}
        at += 1
    assert at > 0


def test_a_failure_is_reported_until_it_is_repaired(home: Path) -> None:
    cells = cells_in(home)
    exporter = opened(home)
    exporter.record(cells[0], "ValueError: something")
    exporter.close([], {}, "FAILED")
    failed = runs(home)[1][0]
    assert (failed.info.status, failed.data.tags["failure"]) == ("FAILED", "ValueError: something")
    record_all(opened(home), cells)
    repaired = runs(home)[1][0]
    assert repaired.info.run_id == failed.info.run_id
    assert repaired.info.status == "FINISHED"
    assert "failure" not in repaired.data.tags


def test_fresh_starts_new_runs(home: Path) -> None:
    cells = cells_in(home)
    record_all(opened(home), cells)
    before = runs(home)
    record_all(opened(home, fresh=True), cells)
    after = runs(home)
    assert after[0].info.run_id != before[0].info.run_id
    assert not {run.info.run_id for run in after[1]} & {run.info.run_id for run in before[1]}


def test_a_deleted_experiment_is_bad_input(home: Path) -> None:
    opened(home)
    client = client_of(home)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    remedy = f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
    with pytest.raises(UserError, match=f"was deleted.*{remedy}") as caught:
        opened(home)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b%20c?d#e", "a b#é"])
def test_a_home_may_have_any_name(finished_home: Path, tmp_path: Path, name: str) -> None:
    """Nothing is made beside it, where the user may not be allowed to write."""
    home = tmp_path / name
    shutil.copytree(finished_home, home)
    record_all(opened(home), cells_in(home))
    child = runs(home)[1][0]
    assert (home / "mlflow.db").is_file()
    assert (home / "artifacts" / child.info.run_id / "artifacts" / "certificate.json").is_file()
    assert list(tmp_path.iterdir()) == [home]


def test_the_environment_names_the_experiment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "shared with others")
    exporter = opened(home)
    record_all(exporter, cells_in(home))
    found = client_of(home).get_experiment_by_name("shared with others")
    assert found is not None
    assert len(client_of(home).search_runs([found.experiment_id])) == 3
    page = f"/#/experiments/{found.experiment_id}/runs?workflowType=machine_learning"
    assert exporter.page == runs_page(home / "mlflow.db") == page


# Owners of runs on a shared server, and runs created twice because an answer was lost.


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


# A sweep in MLflow: its headline, answer and descriptions.


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
