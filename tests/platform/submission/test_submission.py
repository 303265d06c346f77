"""`dprl submit` to a real cluster of two nodes that requires a token."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dprl.platform.configs.config import load_cells
from dprl.sources import results_version
from tests.platform.processes import SMALL
from tests.platform.submission.clusters import TOKEN, TwoNodes, plain_environment, two_nodes

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(2400), pytest.mark.xdist_group("submission")]

CONFIG = SMALL | {"privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 10.0}]}, "seeds": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    """Return a cluster in a short folder, because socket paths have at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="dprl-", dir="/tmp"))
    try:
        with two_nodes(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("configs") / "small.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    return file


def dprl(*words: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command_of(*words), capture_output=True, text=True, env=environment, timeout=900, check=False)


def command_of(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "dprl.platform.command_line", *words]


def submitted(cluster: TwoNodes, config: Path, *words: str) -> list[str]:
    where = ["--address", cluster.dashboard, "--storage", str(cluster.shared), "--tracking-uri", cluster.tracking]
    return ["submit", str(config), *where, *words]


def records_of(home: Path) -> dict[str, pd.DataFrame]:
    files = sorted((home / "sweeps" / "small" / "cells").glob("*/records.parquet"))
    return {file.parent.name: pd.read_parquet(file) for file in files}


def runs_at(cluster: TwoNodes, sweep: str) -> list[Any]:
    """Return the runs of the sweep's cells in MLflow."""
    from mlflow import MlflowClient  # noqa: PLC0415

    client = MlflowClient(cluster.tracking)
    experiment = client.get_experiment_by_name("dprl")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    (parent,) = [run for run in runs if run.info.run_name == sweep]
    return [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]


def test_it_is_the_same_sweep_as_here_and_resumes(cluster: TwoNodes, config: Path, tmp_path: Path) -> None:
    done = dprl(*submitted(cluster, config), environment=cluster.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 cells on 2 nodes" in done.stdout
    assert "running 2 cells (4 seeds) on 2 CPUs" in done.stdout
    assert "Running entrypoint" not in done.stdout
    assert "INFO" not in done.stdout + done.stderr
    assert TOKEN not in done.stdout + done.stderr

    here = dprl("run", str(config), environment={**plain_environment(), "DPRL_HOME": str(tmp_path)})
    assert here.returncode == 0, here.stderr
    there, ours = records_of(cluster.shared), records_of(tmp_path)
    assert len(ours) == 2
    assert list(there) == list(ours)
    for digest, records in ours.items():
        pd.testing.assert_frame_equal(there[digest], records, check_exact=True)
    # The nodes have another dprl installed that cannot be imported.
    for file in cluster.shared.glob("sweeps/small/cells/*/versions.json"):
        assert json.loads(file.read_text())["results_version"] == results_version()
    assert [run.info.status for run in runs_at(cluster, "small")] == ["FINISHED"] * 2

    again = dprl(*submitted(cluster, config, "--json"), environment=cluster.environment)
    assert again.returncode == 0, again.stderr
    assert "2 of 2 cells finished already" in again.stderr
    told = json.loads(again.stdout)
    assert (told["status"], told["exit_code"], told["storage"]) == ("SUCCEEDED", 0, str(cluster.shared))
    status = json.loads((cluster.shared / "sweeps" / "small" / "status.json").read_text())
    assert status["command"].split()[:2] == ["dprl", "submit"]


def test_plugins_and_environments_of_ones_own_travel(cluster: TwoNodes, root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "docs" / "extending" / "env" / "inventory.py", tmp_path)
    shop = {"name": "inventory", "n_states": 3, "horizon": 4}
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump({**CONFIG, "name": "shop", "env": shop}))
    environment = {**cluster.environment, "DPRL_PLUGINS": "inventory", "PYTHONPATH": str(tmp_path)}
    done = dprl(*submitted(cluster, tmp_path / "shop.yaml"), environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((cluster.shared / "sweeps" / "shop" / "cells").glob("*/finished.json"))) == 2


def test_a_cell_that_fails(cluster: TwoNodes, config: Path) -> None:
    cells = load_cells(config, ["name=failing"])
    folder = cluster.shared / "sweeps" / "failing" / "cells"
    folder.mkdir(parents=True)
    (folder / cells[1].digest).write_text("a file where the cell's folder belongs")
    done = dprl(*submitted(cluster, config, "--name", "failing"), environment=cluster.environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[2/2]" in done.stdout
    assert "dprl: failed: " in done.stdout
    assert (folder / cells[0].digest / "finished.json").is_file()


def test_a_folder_that_one_node_does_not_see(cluster: TwoNodes, config: Path) -> None:
    if cluster.unshared is None:
        pytest.skip("this machine does not let a process have mounts of its own")
    words = submitted(cluster, config, "--storage", str(cluster.unshared / "runs"), "--name", "apart")
    done = dprl(*words, environment=cluster.environment)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("dprl: ")]
    assert "--storage: must be a folder that every node sees, and node " in line
    assert list(cluster.unshared.iterdir()) == []


def next_line(lines: Iterable[str], words: str) -> str:
    """Return the next line with these words; other lines may come first, such as one on a late agent."""
    for line in lines:
        if words in line:
            return line
    raise AssertionError(f"it ended before it said '{words}'")


def test_it_goes_on_when_no_longer_followed(cluster: TwoNodes, config: Path) -> None:
    words = submitted(cluster, config, "--name", "long", "--set", "episodes=5000000")
    with subprocess.Popen(
        command_of(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.environment
    ) as following:
        out, err = following.stdout, following.stderr
        assert out is not None
        assert err is not None
        job = next_line(out, "submitted ").split()[1].rstrip(":")
        next_line(out, "running 2 cells")
        following.send_signal(signal.SIGINT)
        told = err.read()
    assert following.returncode == 130
    where = f"--address {cluster.dashboard} {job}"
    assert f"the job is still running; follow it again with `ray job logs --follow {where}`" in told
    assert f"stop it with `ray job stop {where}`" in told

    environment = {**cluster.environment, "RAY_AUTH_MODE": "token"}
    ray = [sys.executable, "-m", "ray.scripts.scripts", "job"]
    for words in (["stop"], ["logs", "--follow"]):
        done = subprocess.run(
            [*ray, *words, *where.split()], capture_output=True, text=True, env=environment, check=True
        )
    assert "interrupted; what is done is kept, resume with: dprl submit " in done.stdout
