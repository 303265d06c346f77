"""Execution of a sweep's cells on Ray: on this machine for the time of the sweep, or on a running cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import ray
from ray import tune
from ray._private import worker
from ray._private.node import Node

from dprl.platform.configs.memory import GB
from dprl.platform.environment_variables import cpu_limit, worker_environment
from dprl.platform.errors import UserError, broken_rule, counted, first_line
from dprl.platform.program import STDERR, command, redirected
from dprl.platform.ray_token import provide_token
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.execution import SweepObserver, TrialOptions
from dprl.platform.sweeps.local_ray import LocalRay
from dprl.platform.sweeps.trial import CellTrial, ObserverCallback, resources_of

_OBJECT_STORE_BYTES = 128 * 1024**2
"""Cells hand over nothing large; Ray's default would claim a third of the memory."""

_MOST_STARTS = 3
_REFUSALS = (ValueError, RuntimeError, OSError)
"""Errors of Ray if it cannot start or be joined; a ConnectionError is an OSError."""


@dataclass(frozen=True)
class _Cluster:
    """A connected Ray cluster. n_cpus: CPUs for cells. local: its servers if they were started here."""

    n_cpus: int
    local: LocalRay | None = None


@contextmanager
def connected(address: str | None) -> Iterator[_Cluster]:
    """Connect to Ray at `address`, or start it on this machine until the context ends. Raises UserError."""
    limit = cpu_limit()
    ours, local = not ray.is_initialized(), None
    if ours:
        _start_here(limit) if address is None else _join(address)
        node = worker._global_node
        local = LocalRay(node) if address is None and node is not None else None
    try:
        available = int(ray.cluster_resources().get("CPU", 1))
        yield _Cluster(min(available, limit) if limit is not None else available, local)
    finally:
        if local is not None:
            local.stop()
        elif ours:
            ray.shutdown()


def _start_here(limit: int | None) -> None:
    """Start Ray on this machine, in several attempts if it is busy. Raises UserError."""
    provide_token()
    last: Exception | None = None
    for _ in range(_MOST_STARTS):
        try:
            _init(
                # By default, Ray would join any cluster that happens to run on this machine.
                "local",
                num_cpus=limit,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
            )
        except Exception as error:
            # Ray always waits 30 s, ignoring settings, and then raises a bare Exception.
            if type(error) is not Exception and not isinstance(error, _REFUSALS):
                raise
            last = error
            _end_half_started(error)
        else:
            return
    raise UserError(
        f"Ray: must start on this machine, and did not in {counted(_MOST_STARTS, 'attempt')} ({first_line(last)}); "
        f"free the machine and try again, or take `{command('run')}`, which needs no Ray"
    ) from last


def _join(address: str) -> None:
    """Join Ray at `address`. Raises UserError."""
    try:
        # Ray's compiled part prints many warnings before it gives up.
        with redirected(STDERR, None):
            _init(address)
    except _REFUSALS as error:
        remedy = "check that Ray runs there"
        raise broken_rule("address", f"must be usable by Ray ({first_line(error)})", address, remedy) from error


def _init(address: str, **local: Any) -> None:  # noqa: ANN401
    before = signal.getsignal(signal.SIGTERM)
    # Ray's processes start with SIGTERM blocked: one to the whole process group, as from `timeout`, must not end them,
    # because Ray ends a driver without a raylet before it can write what is done.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM} if local else ())
    try:
        ray.init(
            address=address,
            logging_level=logging.ERROR,
            log_to_driver=False,
            runtime_env={"env_vars": worker_environment()},
            **local,
        )
    except SystemExit:  # raised by Ray's own handler of SIGTERM
        raise KeyboardInterrupt from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        # Ray's handler would end this process before the results are written.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _end_half_started(error: BaseException) -> None:
    """End the processes of a node that failed to start: Ray's shutdown ends only those of started nodes."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        node = frame.f_locals.get("self")
        if isinstance(node, Node):
            node.kill_all_processes(check_alive=False, wait=True)
    ray.shutdown()


def _trainable(cells: Mapping[str, SweepCell], cpus: int) -> Any:  # noqa: ANN401
    """Return the trial of Tune, with `cpus` CPUs at most and the memory that some cells ask for."""
    trial = tune.with_parameters(CellTrial, cells=cells, cpus=cpus)
    asked = {
        digest: resources_of(cell.experiment.memory, min(cpus, cell.experiment.seeds)) for digest, cell in cells.items()
    }
    if cpus == 1 and all(cell.experiment.memory is None for cell in cells.values()):
        return trial
    return tune.with_resources(trial, lambda config: asked[config["cell"]])


def run_on_ray(cluster: _Cluster, trials: TrialOptions, cells: Sequence[SweepCell], observer: SweepObserver) -> None:
    """Run every cell as one Tune trial on its share of the CPUs; a failed cell does not stop the others.

    Raises RayLost if Ray was started here and one of its servers dies, and UserError for a cell that needs more memory
    than any node has: Ray would wait for such a node.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    largest = max((node.get("memory", 0.0) for node in nodes), default=0.0)
    for cell in cells:
        if (cell.experiment.memory or 0.0) * GB > largest:
            rule = f"must be at most {largest / GB:.3g} GB, the memory of the largest node"
            raise broken_rule(
                "memory", rule, cell.experiment.memory, f"lower it for {cell.label}, or add a larger node"
            )
    # The observer reports failures; Tune would report them again, in many lines.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    by_digest = {cell.digest: cell for cell in cells}
    at_once = min(cluster.n_cpus, trials.most_cpus or cluster.n_cpus)
    cpus = max(1, min(at_once // max(1, len(cells)), int(max((node.get("CPU", 1) for node in nodes), default=1))))
    callback = ObserverCallback(by_digest, observer)
    tuner = tune.Tuner(
        _trainable(by_digest, cpus),
        param_space={"cell": tune.grid_search(list(by_digest))},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=at_once),
        run_config=tune.RunConfig(
            # A second run under the same name would mix its trials with those of the first.
            name=f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns()}",
            storage_path=str(trials.storage),
            # A failing cell reports that in its result; Tune retries only after the death of a process or node.
            failure_config=tune.FailureConfig(max_failures=trials.max_restarts),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[callback],
            verbose=0,
        ),
    )
    watched = cluster.local.watched(trials.warn) if cluster.local is not None else nullcontext()
    try:
        with watched:
            tuner.fit()
            # Not after Ctrl-C: the next call finds the finished cells.
            callback.wait()
    finally:
        callback.flush()
