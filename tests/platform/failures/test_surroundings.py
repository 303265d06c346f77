"""A node, MLflow's server or the disk fails during a sweep: records are equal, and every MLflow run exists once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from tests.on_ray import add_node, cluster_of_nodes
from tests.platform.failures.cases import LONG, MANY, all_is_well
from tests.platform.processes import PATIENCE, dprl, holders, kill, records, start, wait_for, write_config
from tests.servers import mlflow_server, running

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(2400)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head node that runs no cells; tests add a node that does."""
    with cluster_of_nodes(num_cpus=0) as made:
        yield made


def test_a_node_is_lost(cluster: Cluster, expected: Mapping[str, bytes], tmp_path: Path) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    home = tmp_path / "home"
    lost = add_node(cluster, num_cpus=2)
    with mlflow_server(tmp_path, os.environ) as port:
        uri = f"http://127.0.0.1:{port}"
        words = ["--address", cluster.address, "--storage", home, "--tracking-uri", uri]
        with start(home, "sweep", write_config(tmp_path, **LONG), *words) as driver:
            wait_for(lambda: holders(home), driver)
            cluster.remove_node(lost, allow_graceful=False)
            for holder in holders(home):
                kill(holder)  # processes of a lost node no longer write
            add_node(cluster, num_cpus=2)
            said, _ = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 0, said
        assert "it starts again in another process" in said
        all_is_well(home, expected, uri)


def test_the_tracking_server_goes_away_and_the_next_call_writes_what_is_missing(tmp_path: Path) -> None:
    calm, home = tmp_path / "calm", tmp_path / "home"
    config = write_config(tmp_path, **MANY)
    dprl(calm, "run", config)
    with ExitStack() as first:
        port = first.enter_context(mlflow_server(tmp_path, os.environ))
        uri = f"http://127.0.0.1:{port}"
        with start(home, "sweep", config, "--tracking-uri", uri) as driver:
            wait_for(lambda: records(home), driver)
            first.close()
            said, _ = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 1, said
        assert "the rest is written later" in said
        assert "nothing is lost" in said
    with mlflow_server(tmp_path, os.environ, port):
        dprl(home, "sweep", config, "--tracking-uri", uri)
        all_is_well(home, records(calm), uri)


def may_mount(folder: Path) -> bool:
    command = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_the_disk_is_full(expected: Mapping[str, bytes], tmp_path: Path) -> None:
    """On a file system that is too small for the results, cells fail with one line each; on a larger one they run."""
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    home.mkdir()
    if not may_mount(home):
        pytest.skip("no file system can be mounted here")
    said = tmp_path / "said.txt"
    python = f"{sys.executable} -P -m"
    command = f"{python} dprl.platform.command_line sweep {config} > {said} 2>&1"
    # Besides MLflow's tables there is space for the rows of the runs, but not for a figure.
    tables = f"from mlflow.tracking import MlflowClient as C; C('sqlite:///{home}/mlflow.db').search_experiments()"
    script = f"""
        mount -t tmpfs -o size=50m tmpfs {home} || exit 3
        export DPRL_HOME={home}
        {sys.executable} -P -c "{tables}" || exit 4
        used=$(df -k --output=used {home} | tail -n 1)
        mount -o remount,size=$((used + 264))k {home} || exit 5
        {command}
        test $? = 1 || exit 1
        cp {said} {said}.full
        mount -o remount,size=50m {home} || exit 6
        {command} || exit 2
        cp -r {home} {tmp_path}/kept
    """
    words, log = ["unshare", "--map-root-user", "--mount", "sh", "-c", script], tmp_path / "script.txt"
    with running(words, log, os.environ) as process:
        code = process.wait(timeout=3 * PATIENCE)
    assert code == 0, log.read_text() + (said.read_text() if said.exists() else "")
    told = Path(f"{said}.full").read_text()
    assert "dprl: " in told
    assert "No space left on device" in told
    assert "Traceback" not in told
    all_is_well(tmp_path / "kept", expected, f"sqlite:///{tmp_path}/kept/mlflow.db")


@pytest.mark.parametrize("which", ["home", "sweep"])
def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path: Path, which: str) -> None:
    """A file takes the folder's place, because the superuser may write to any folder."""
    home = tmp_path / "home"
    blocked = home if which == "home" else home / "sweeps"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("")
    said = dprl(home, "sweep", write_config(tmp_path), expect=2)
    assert said.count("\n") == 1
    assert "must be" in said
