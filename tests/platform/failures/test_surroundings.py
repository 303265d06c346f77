"""A node, MLflow's server or the disk fails in the middle of a sweep: the same records, every MLflow run once."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from tests.platform.failures.cases import LONG, MANY, all_is_well
from tests.platform.processes import (
    dprl,
    holders,
    kill,
    records,
    start,
    wait_for,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head that runs nothing, and a node that does."""
    # Any other `ray.init()` of this machine would join a cluster whose address is written down.
    monkeypatch.setattr("ray._private.utils.write_ray_address", lambda *_: None)
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets need a short path
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head: dict[str, Any] = {"num_cpus": 0, "temp_dir": folder, "_system_config": quick, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_node_is_lost(cluster: Cluster, expected: Mapping[str, bytes], tmp_path: Path) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    home = tmp_path / "home"
    lost = cluster.add_node(num_cpus=2)
    with tracking_server(tmp_path) as (uri, _):
        words = ["--address", cluster.address, "--storage", home, "--tracking-uri", uri]
        driver = start(home, "sweep", write_config(tmp_path, **LONG), *words)
        wait_for(lambda: holders(home), driver)
        cluster.remove_node(lost, allow_graceful=False)
        for holder in holders(home):
            kill(holder)  # a lost node's processes write no more
        cluster.add_node(num_cpus=2)
        said, _ = driver.communicate(timeout=400)
        assert driver.returncode == 0, said
        assert "it goes on in another process" in said
        all_is_well(home, expected, uri)


@contextmanager
def tracking_server(folder: Path, port: int | None = None) -> Iterator[tuple[str, int]]:
    """Give the address of an MLflow server on a database in the folder, and its port."""
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    words = ["-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/server.db", "--host", "127.0.0.1"]
    words += ["--artifacts-destination", str(folder / "kept"), "--port", str(port), "--workers", "1"]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONSAFEPATH": "1"}
    with (folder / "server.log").open("a") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", *words], env=environment, stdout=log, stderr=log, start_new_session=True
        )

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{uri}/health", timeout=2):
                return True
        except OSError:
            return False

    try:
        wait_for(answers)
        yield uri, port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_tracking_server_is_away_for_a_minute(tmp_path: Path) -> None:
    calm, home = tmp_path / "calm", tmp_path / "home"
    config = write_config(tmp_path, **MANY)
    dprl(calm, "run", config)
    with tracking_server(tmp_path) as (uri, port):
        driver = start(home, "sweep", config, "--tracking-uri", uri)
        wait_for(lambda: records(home), driver)
    try:
        driver.wait(timeout=60)
    except subprocess.TimeoutExpired:
        pass  # as it should be: it waits for the server
    else:
        pytest.fail("the sweep ended without its server")
    with tracking_server(tmp_path, port) as (uri, _):
        said, _ = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        assert "it is written later" in said
        all_is_well(home, records(calm), uri)


def test_the_disk_is_full(expected: Mapping[str, bytes], tmp_path: Path) -> None:
    """A file system of its own, too small for the results, then larger: the cells fail with one line, and then run."""
    home, config = tmp_path / "home", write_config(tmp_path, **LONG)
    home.mkdir()
    said = tmp_path / "said.txt"
    command = f"{sys.executable} -P -m dprl.platform.command_line sweep {config} > {said} 2>&1"
    script = f"""
        mount -t tmpfs -o size=1200k tmpfs {home} || exit 77
        export DPRL_HOME={home}
        {command}
        test $? = 1 || exit 1
        mount -o remount,size=50m {home}
        {command} || exit 2
        cp -r {home} {tmp_path}/kept
    """
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script], timeout=400, check=False)
    if done.returncode == 77 or (done.returncode != 0 and not said.exists()):
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 0, said.read_text()
    all_is_well(tmp_path / "kept", expected, f"sqlite:///{tmp_path}/kept/mlflow.db")


@pytest.mark.parametrize("which", ["home", "sweep"])
def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path: Path, which: str) -> None:
    """A file stands where a folder has to be: the system refuses that to the superuser, too."""
    home = tmp_path / "home"
    blocked = home if which == "home" else home / "sweeps"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("")
    said = dprl(home, "sweep", write_config(tmp_path), expect=2)
    assert said.count("\n") == 1
    assert "must be" in said
