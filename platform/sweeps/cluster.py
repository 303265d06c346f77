"""The cells of a sweep on Ray: on this machine for as long as the sweep lasts, or on a running cluster."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import tune

from dprl.platform.environment_variables import cpu_limit, worker_environment
from dprl.platform.errors import broken_rule
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.execution import Listener
from dprl.platform.sweeps.trial import CellTrial, PassOn

_STDERR = 2
_OBJECT_STORE_BYTES = 128 * 1024**2
"""Cells hand over nothing large; Ray's default would claim a third of the memory."""

_MOST_DEATHS = 3
"""So often a cell goes on in another process: one that needs more memory than there is dies each time."""


@dataclass(frozen=True)
class Cluster:
    """A connected Ray cluster, and how many cells may run on it at once."""

    n_cpus: int


@contextmanager
def connected(address: str | None) -> Iterator[Cluster]:
    """Give Ray at `address`, or started on this machine until the context ends. Raises UserError."""
    limit = cpu_limit()
    ours = not ray.is_initialized()
    if ours:
        _connect(address, limit)
    try:
        available = int(ray.cluster_resources().get("CPU", 1))
        yield Cluster(n_cpus=min(available, limit) if limit is not None else available)
    finally:
        if ours:
            ray.shutdown()


def _connect(address: str | None, limit: int | None) -> None:
    """Start Ray here, or join it at `address`. Raises UserError."""
    local: dict[str, Any] = {"num_cpus": limit, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    try:
        with silent_stderr() if address is not None else nullcontext():
            ray.init(
                # 'local' starts a new cluster; the default would join any that happens to run on this machine.
                address=address if address is not None else "local",
                logging_level=logging.ERROR,
                log_to_driver=False,
                runtime_env={"env_vars": worker_environment()},
                **(local if address is None else {}),
            )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "check that Ray runs there"
        raise broken_rule("address", f"must be usable by Ray ({reason})", address, remedy) from error


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Drop what is written to standard error meanwhile: Ray's compiled part warns many times before it gives up."""
    sys.stderr.flush()
    kept, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(nowhere)


def run_on_ray(cluster: Cluster, storage: Path, cells: Sequence[SweepCell], listener: Listener) -> None:
    """Run every cell as one Tune trial on one CPU; a failed cell does not stop the others."""
    # The listener tells what failed; Tune would tell it a second time, over many lines.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    by_digest = {cell.digest: cell for cell in cells}
    told = PassOn(by_digest, listener)
    tuner = tune.Tuner(
        tune.with_parameters(CellTrial, cells=by_digest),
        param_space={"cell": tune.grid_search(list(by_digest))},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=cluster.n_cpus),
        run_config=tune.RunConfig(
            # A second run under one name would mix its trials with those of the first.
            name=f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns()}",
            storage_path=str(storage),
            # A cell that fails says so in its result; what is tried again is the death of its process or node.
            failure_config=tune.FailureConfig(max_failures=_MOST_DEATHS),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[told],
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    finally:
        told.flush()
