"""Start Ray for tests, and retry, because its limit of half a minute is too short on a busy machine."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import ray
from ray.cluster_utils import Cluster

T = TypeVar("T")

_ATTEMPTS, _PATIENCE = 5, 240.0


def start_ray(**options: Any) -> None:
    """Start a Ray cluster of this process alone."""
    settings = {"num_cpus": 4, "include_dashboard": False, "log_to_driver": False, **options}
    _again(lambda: ray.init(address="local", logging_level=logging.ERROR, **settings), ray.shutdown)


@contextmanager
def cluster_of_nodes(**head: Any) -> Iterator[Cluster]:
    """A private cluster to which tests add nodes; it notices a lost node within seconds."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets need a short path
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    settings = {"temp_dir": folder, "_system_config": quick, "include_dashboard": False, **head}
    # Any other `ray.init()` of this machine would join a cluster whose address is written down.
    with mock.patch("ray._private.utils.write_ray_address"):
        made = _again(lambda: Cluster(initialize_head=True, head_node_args=settings))
        try:
            yield made
        finally:
            made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def add_node(cluster: Cluster, **options: Any) -> Any:
    """Add a node, and return it once it has joined the cluster."""
    node = _again(lambda: cluster.add_node(wait=False, **options))
    cluster._wait_for_node(node, timeout=_PATIENCE)
    return node


def _again(start: Callable[[], T], clean: Callable[[], object] = lambda: None) -> T:
    """Return the result of `start`; if Ray gives up, end its processes and start again."""
    for attempt in range(_ATTEMPTS):
        before = _children()
        try:
            return start()
        except Exception:  # its timeouts are plain exceptions
            clean()
            for begun in _children() - before:
                with suppress(ProcessLookupError):
                    os.kill(begun, signal.SIGKILL)
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _children() -> set[int]:
    """Return the processes that this one has started."""
    return {int(child) for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()}
