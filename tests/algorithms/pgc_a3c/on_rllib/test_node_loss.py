"""A node is lost together with its runner: its batch is lost, and another node takes over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from tests.algorithms.pgc_a3c.on_rllib.kills import adds_up, config, processes_of, record, repeats, wait_for
from tests.on_ray import add_node, cluster_of_nodes

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

_AWAY = {"num_cpus": 1, "resources": {"away": 1}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of one node; tests add and remove others."""
    with cluster_of_nodes(num_cpus=2) as made:
        ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
        yield made
        ray.shutdown()


def test_a_node_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    node = add_node(cluster, **_AWAY)
    journal = tmp_path / "ledger" / JOURNAL
    settings = config(tmp_path, 1, env={"seconds": 0.01}).ledger(folder=str(tmp_path / "ledger"))
    settings.env_runners(custom_resources_per_env_runner={"away": 1})
    algorithm = settings.build_algo()
    algorithm.train()
    killer = threading.Timer(0.1, cluster.remove_node, (node,), {"allow_graceful": False})
    killer.start()
    # `add_node` works in the main thread only, where training waits for a runner: the next one is there before.
    add_node(cluster, **_AWAY)
    algorithm.train()
    wait_for(lambda: bool(algorithm.train()) and len(processes_of(tmp_path, 1)) > 1)
    algorithm.train()
    killer.join()
    assert adds_up(algorithm, journal)
    assert algorithm.lost > 0
    algorithm.stop()
    found = record(tmp_path, journal)
    found.check()
    assert len(found.processes) == 2
    assert repeats(found.values) == 0
