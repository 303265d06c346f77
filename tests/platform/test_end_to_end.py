"""The command as a user calls it, through Ray Tune to MLflow, in separate processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from dprl.platform.command_line import main
from tests.platform.processes import dprl, mlflow_runs, records, write_config

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the home of a finished sweep on two CPUs, to be read only, and its output."""
    home = tmp_path_factory.mktemp("swept")
    return home, dprl(home, "sweep", write_config(home), DPRL_NUM_CPUS="2")


def test_a_sweep_goes_through_tune_to_mlflow(swept: tuple[Path, str]) -> None:
    home, said = swept
    assert len(records(home)) == 3
    runs = mlflow_runs(home)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    cells = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert (len(parents), len(cells)) == (1, 3)
    assert {cell.data.tags["mlflow.parentRunId"] for cell in cells} == {parents[0].info.run_id}
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {cell.info.run_name for cell in cells} == {"none", "jdp epsilon=1", "ldp epsilon=1"}
    assert {cell.data.params["privacy.model"] for cell in cells} == {"none", "jdp", "ldp"}
    assert all(cell.data.metrics["cell/regret"] > 0 for cell in cells)
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    assert {file.path for file in client.list_artifacts(parents[0].info.run_id)} == {
        "cells",
        "command.txt",
        "summary.csv",
        "report.html",
        "report.csv",
        "comparisons.csv",
        "curves.png",
        "frontier.png",
    }
    assert "running 3 cells (6 seeds) on 2 CPUs" in said
    assert "[3/3]" in said


def test_only_dprl_speaks_on_the_terminal(swept: tuple[Path, str]) -> None:
    _, said = swept
    foreign = ("INFO", "WARNING", "warn", "alembic", "raylet", "Traceback", "Configuration for experiment")
    assert [word for word in foreign if word in said] == []


def test_the_same_command_again_runs_nothing(
    swept: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(shutil.copytree(swept[0], tmp_path / "home"))
    before = {run.info.run_id: run.data.metrics for run in mlflow_runs(home)}
    monkeypatch.setenv("DPRL_HOME", str(home))
    assert main(["sweep", str(write_config(home))]) == 0
    said = "".join(capsys.readouterr())
    assert "3 of 3 cells finished already" in said
    assert "starting Ray" not in said
    assert {run.info.run_id: run.data.metrics for run in mlflow_runs(home)} == before


def test_without_ray_the_records_are_the_same(
    swept: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    assert main(["run", str(write_config(tmp_path))]) == 0
    assert records(tmp_path) == records(swept[0])


@pytest.mark.slow
def test_an_address_without_ray_is_bad_input(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = dprl(home, "sweep", write_config(tmp_path), "--address", "127.0.0.1:9", expect=2)
    assert said.startswith("dprl: address: ")
    assert said.count("\n") == 1
    assert not home.exists()
