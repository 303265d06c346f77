"""The command as a user calls it, through Ray Tune to MLflow, in processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

pytestmark = pytest.mark.cluster

CONFIG: dict[str, Any] = {
    "name": "grid",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {
        "grid_search": [
            {"model": "none"},
            {"model": "jdp", "epsilon": 1.0},
            {"model": "ldp", "epsilon": 1.0},
        ]
    },
    "episodes": 5000,
    "seeds": 2,
}


def write_config(folder: Path, **changes: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(CONFIG | changes))
    return path


def start(home: Path, *words: object, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "dprl.platform.command_line", *map(str, words)]
    return subprocess.Popen(
        command,
        env=os.environ | {"DPRL_HOME": str(home)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def dprl(home: Path, *words: object, expect: int = 0, **environment: str) -> str:
    process = start(home, *words, **environment)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == expect, output
    return output


def records(home: Path) -> Mapping[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in home.glob("sweeps/grid/cells/*/records.parquet")}


def mlflow_runs(home: Path) -> list[Run]:
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("dprl")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the home of a finished sweep on two CPUs, only to be read, and what it said."""
    home = tmp_path_factory.mktemp("swept")
    return home, dprl(home, "sweep", write_config(home), DPRL_NUM_CPUS="2")


def test_a_sweep_goes_through_tune_to_mlflow(swept: tuple[Path, str]) -> None:
    home, said = swept
    assert len(records(home)) == 3
    runs = mlflow_runs(home)
    parents = [run for run in runs if run.data.tags["role"] == "sweep"]
    cells = [run for run in runs if run.data.tags["role"] == "cell"]
    assert len(parents) == 1
    assert {cell.data.tags["mlflow.parentRunId"] for cell in cells} == {parents[0].info.run_id}
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {cell.info.run_name for cell in cells} == {"none", "jdp epsilon=1", "ldp epsilon=1"}
    assert {cell.data.params["privacy.model"] for cell in cells} == {"none", "jdp", "ldp"}
    assert all(cell.data.metrics["regret"] > 0 for cell in cells)
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    assert {file.path for file in client.list_artifacts(parents[0].info.run_id)} == {
        "summary.csv",
        "frontier.png",
    }
    assert "running 3 cells (6 seeds) on 2 CPUs" in said
    assert "[3/3]" in said


def test_only_dprl_speaks_on_the_terminal(swept: tuple[Path, str]) -> None:
    _, said = swept
    foreign = ("INFO", "WARNING", "warn", "alembic", "raylet", "Traceback", "Configuration for experiment")
    assert [word for word in foreign if word in said] == []


def test_the_same_command_again_runs_nothing(swept: tuple[Path, str], tmp_path: Path) -> None:
    home = Path(shutil.copytree(swept[0], tmp_path / "home"))
    before = {run.info.run_id: run.data.metrics for run in mlflow_runs(home)}
    said = dprl(home, "sweep", write_config(home))
    assert "3 of 3 cells finished already" in said
    assert "starting Ray" not in said
    assert {run.info.run_id: run.data.metrics for run in mlflow_runs(home)} == before


def test_without_ray_the_records_are_the_same(swept: tuple[Path, str], tmp_path: Path) -> None:
    dprl(tmp_path, "run", write_config(tmp_path))
    assert records(tmp_path) == records(swept[0])


@pytest.mark.slow
def test_on_one_cpu_the_records_are_the_same(swept: tuple[Path, str], tmp_path: Path) -> None:
    said = dprl(tmp_path, "sweep", write_config(tmp_path), DPRL_NUM_CPUS="1")
    assert "on 1 CPU" in said
    assert records(tmp_path) == records(swept[0])


@pytest.mark.slow
def test_a_failing_cell_is_named_and_a_grown_grid_runs_only_what_is_new(
    swept: tuple[Path, str], tmp_path: Path
) -> None:
    """In one sweep, because starting Ray takes longer than all the rest."""
    digest = sorted(records(swept[0]))[0]
    broken = tmp_path / "sweeps" / "grid" / "cells" / digest
    broken.mkdir(parents=True)
    (broken / "state.npz").write_bytes(b"not a checkpoint")
    said = dprl(tmp_path, "sweep", write_config(tmp_path), expect=1)
    assert "state.npz" in said
    assert "(log: " in said
    assert dict(records(tmp_path)) == {key: value for key, value in records(swept[0]).items() if key != digest}
    statuses = {run.data.tags.get("digest"): run.info.status for run in mlflow_runs(tmp_path)}
    assert statuses[digest] == "FAILED"
    assert sorted(statuses.values()) == ["FAILED", "FAILED", "FINISHED", "FINISHED"]

    (broken / "state.npz").unlink()
    grown = {"grid_search": [*CONFIG["privacy"]["grid_search"], {"model": "ldp", "epsilon": 3.0}]}
    said = dprl(tmp_path, "sweep", write_config(tmp_path, privacy=grown))
    assert "2 of 4 cells finished already" in said
    assert "running 2 cells" in said
    assert {key: records(tmp_path)[key] for key in records(swept[0])} == records(swept[0])
    assert {run.info.status for run in mlflow_runs(tmp_path)} == {"FINISHED"}
    assert len(mlflow_runs(tmp_path)) == 5


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, bytes]]:
    """Return a config that runs for seconds, and its records."""
    grid = {"grid_search": CONFIG["privacy"]["grid_search"][1:]}
    home = tmp_path_factory.mktemp("undisturbed")
    config = write_config(home, privacy=grid, episodes=1_000_000)
    dprl(home, "run", config)
    return config, records(home)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_killed_in_the_middle_the_same_command_gives_the_same_records(
    undisturbed: tuple[Path, Mapping[str, bytes]], tmp_path: Path, command: str
) -> None:
    config, expected = undisturbed
    home = tmp_path / "killed"
    victim = start(home, command, config)
    deadline = time.monotonic() + 200
    while not list(home.glob("sweeps/grid/cells/*/state.npz")):
        assert victim.poll() is None, victim.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # Only the driver, so that Ray's workers outlive it for as long as they can.
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert len(records(home)) < 2
    assert "RUNNING" in {run.info.status for run in mlflow_runs(home)}

    dprl(home, command, config)
    assert records(home) == expected
    runs = mlflow_runs(home)
    assert [run.info.status for run in runs] == ["FINISHED"] * 3


@pytest.mark.slow
def test_a_worker_that_dies_is_a_failed_cell_and_json_stays_json(tmp_path: Path) -> None:
    home = tmp_path / "home"
    config = write_config(tmp_path, privacy={"model": "jdp", "epsilon": 1.0}, episodes=10**8)
    command = [sys.executable, "-P", "-m", "dprl.platform.command_line", "sweep", str(config), "--json"]
    environment = os.environ | {"DPRL_HOME": str(home)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        deadline = time.monotonic() + 200
        while not list(home.glob("sweeps/grid/cells/*/state.npz")):
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (holder,) = [lock for lock in home.glob("sweeps/grid/locks/*") if lock.name != "sweep"]
        os.kill(int(holder.read_text().split()[1]), signal.SIGKILL)  # "process 123 on host"
        told, complaints = driver.communicate(timeout=200)
    assert driver.returncode == 1, complaints
    assert len(json.loads(told)["failed"]) == 1
    assert "Traceback" not in complaints


@pytest.mark.slow
def test_an_address_without_ray_is_bad_input(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = dprl(home, "sweep", write_config(tmp_path), "--address", "127.0.0.1:9", expect=2)
    assert said.startswith("dprl: address: ")
    assert said.count("\n") == 1
    assert not home.exists()
