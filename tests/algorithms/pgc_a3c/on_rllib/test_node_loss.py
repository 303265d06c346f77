"""A node is lost with the runner on it: what it had is lost, and another node takes its place."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from dprl.algorithms.pgc.book import JOURNAL
from tests.algorithms.pgc_a3c.on_rllib.failures import adds_up, config, processes_of, record, repeats, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

_AWAY = {"num_cpus": 1, "resources": {"away": 1}}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A node of this machine, to which tests add others, that are away."""
    # Any other `ray.init()` of this machine would join a cluster whose address is written down.
    monkeypatch.setattr("ray._private.utils.write_ray_address", lambda *_: None)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    # Sockets need a short path.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head: dict[str, Any] = {"num_cpus": 2, "temp_dir": folder, "_system_config": quick, "include_dashboard": False}
    made = started(head)
    ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
    yield made
    ray.shutdown()
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def started(head: dict[str, Any]) -> Cluster:
    for _ in range(4):
        # Ray waits half a minute for itself, which is too short on a machine that is busy.
        with suppress(Exception):
            return Cluster(initialize_head=True, head_node_args=head)
    return Cluster(initialize_head=True, head_node_args=head)


def test_a_node_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(**_AWAY)
    journal = tmp_path / "ledger" / JOURNAL
    settings = config(tmp_path, 1, env={"seconds": 0.01}).ledger(folder=str(tmp_path / "ledger"))
    settings.env_runners(custom_resources_per_env_runner={"away": 1})
    algorithm = settings.build_algo()
    algorithm.train()
    killer = threading.Timer(0.1, cluster.remove_node, (node,), {"allow_graceful": False})
    killer.start()
    # `add_node` works in the main thread only, where training waits for a runner: the next one is there before.
    cluster.add_node(**_AWAY)
    algorithm.train()
    wait_until(lambda: bool(algorithm.train()) and len(processes_of(tmp_path, 1)) > 1)
    algorithm.train()
    killer.join()
    assert adds_up(algorithm, journal)
    assert algorithm.lost > 0
    algorithm.stop()
    found = record(tmp_path, journal)
    found.check()
    assert len(found.processes) == 2
    assert repeats(found.values) == 0
