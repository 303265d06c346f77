"""Cells as trials of Ray Tune, in the process that talks to Ray; see `ray_process`.

This process loads no code of the cells: it hands them to the workers as bytes.
"""
# ruff: noqa: ARG002 - Tune calls hooks with arguments, needed or not

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial

from dprl.platform.environment_variables import cpu_limit, worker_environment
from dprl.platform.errors import UserError, broken_rule, first_line
from dprl.platform.ray_token import provide_token
from dprl.platform.sweeps.cluster_checks import require_shared
from dprl.platform.sweeps.events import CellEvent, Cluster, ending

if TYPE_CHECKING:
    from dprl.platform.sweeps.cell import LockedCell

_GB = 10**9
_OBJECT_STORE_BYTES = 128 * 1024**2  # cells hand over nothing large; Ray's default would claim a third of the memory
_SERVERS = ("gcs_server", "raylet")
_POLL_SECONDS = 0.5
_PROGRESS, _CAUSE, _TRACE = "progress", "cause", "trace"  # keys of a step's report


def serve(descriptor: int, address: str | None, home: str) -> None:
    """Start or join Ray, run the cells that the driver sends, and tell their events; end when the driver ends."""
    os.set_inheritable(descriptor, False)
    # Some schedulers send SIGTERM to all processes: the driver alone answers it, and Ray's servers inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    connection, sending, requests = Connection(descriptor), threading.Lock(), queue.Queue[Any]()

    def tell(kind: str, told: object) -> None:
        with sending, suppress(OSError):
            connection.send((kind, told))

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                requests.put(connection.recv())
        os.killpg(0, signal.SIGKILL)  # with every process of Ray that was started here

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        cluster = _joined(address, Path(home))
    except UserError as error:
        tell("refused", str(error))
    else:
        if address is None:
            threading.Thread(target=_watch, args=[partial(tell, "died")], daemon=True).start()
        tell("ready", tuple(cluster))
        _run(partial(tell, "event"), *requests.get())
        if address is not None:
            ray.shutdown()
        tell("done", None)
    listener.join()


def _joined(address: str | None, home: Path) -> Cluster:
    """Start Ray here, or join it and check that its nodes share the folder, locks and code. Raises UserError."""
    if address is None:
        provide_token()
        # By default, Ray would join any cluster that happens to run on this machine.
        return _connect("local", num_cpus=cpu_limit(), include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES)
    try:
        cluster = _connect(address)
    except (ValueError, RuntimeError, OSError) as error:
        remedy = "check that Ray runs there"
        raise broken_rule("address", f"must be usable by Ray ({first_line(error)})", address, remedy) from error
    require_shared(home)
    return cluster


def _connect(address: str, **local: Any) -> Cluster:  # noqa: ANN401
    ray.init(
        address=address,
        logging_level=logging.ERROR,
        log_to_driver=False,
        runtime_env={"env_vars": worker_environment()},
        **local,
    )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    n_cpus, limit = int(ray.cluster_resources().get("CPU", 1)), cpu_limit()
    return Cluster(
        n_cpus if limit is None else min(n_cpus, limit),
        len(nodes),
        int(max((node.get("CPU", 1) for node in nodes), default=1)),
        max((node.get("memory", 0.0) for node in nodes), default=0.0) / _GB,
    )


def _watch(tell: Callable[[str], None]) -> None:
    """Tell at once that a server of the local Ray has died: Ray itself takes up to a minute."""
    children = [int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
    servers = {pid: name for pid, name in names.items() if name in _SERVERS}
    while True:
        for pid, name in servers.items():
            dead = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is not None:
                code = dead.si_status if dead.si_code == os.CLD_EXITED else -dead.si_status
                return tell(f"Ray's {name} (process {pid}) died with {ending(code)}")
        time.sleep(_POLL_SECONDS)


def _run(
    tell: Callable[[CellEvent], None],
    cells: Mapping[str, bytes],
    resources: Mapping[str, tuple[int, float | None]],
    at_once: int,
    storage: str,
    max_restarts: int,
) -> None:
    """Run every cell as one trial, `at_once` of them at most; see `RayProcess.run`."""
    # The driver reports failures; Tune would report them again, in many lines.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    trial = tune.with_parameters(CellTrial, cells=cells, resources=resources)
    tune.Tuner(
        tune.with_resources(trial, lambda config: resources_of(*resources[config["cell"]])),
        param_space={"cell": tune.grid_search(list(cells))},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=at_once),
        run_config=tune.RunConfig(
            # A second run under the same name would mix its trials with those of the first.
            name=f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}",
            storage_path=storage,
            # A failing cell reports that in its result; Tune retries only after the death of a process or node.
            failure_config=tune.FailureConfig(max_failures=max_restarts),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[_Events(tell)],
            verbose=0,
        ),
    ).fit()


def resources_of(cpus: int = 1, memory: float | None = None) -> tune.PlacementGroupFactory:
    """Return a trial's resources in Ray: CPUs, one per seed that learns at once, and the cell's `memory` in GB."""
    return tune.PlacementGroupFactory([{"CPU": cpus} | ({} if memory is None else {"memory": int(memory * _GB)})])


class CellTrial(tune.Trainable):
    """Ray Tune trial that runs one cell. A worker process runs many trials, because starting a process takes a second.

    The cell's folder holds its state: a later sweep resumes that checkpoint, on Ray or not.
    """

    def setup(
        self,
        config: dict[str, Any],
        cells: Mapping[str, bytes] | None = None,
        resources: Mapping[str, tuple[int, float | None]] | None = None,
    ) -> None:
        """Select the cell `config["cell"]`; nothing is read or locked before the first step."""
        self._cells, self._resources = cells or {}, resources or {}
        self._digest: str = config["cell"]
        self._cell: LockedCell | None = None

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Choose another cell in the same process."""
        self.cleanup()
        self._digest = new_config["cell"]
        return True

    def step(self) -> dict[str, Any]:
        """Run the cell for about a second.

        An error of the cell ends the cell and is a result. Tune restarts a cell only if its process or node has died.
        """
        from dprl.platform.sweeps.cell import CELL_ERRORS, LockedCell, cause_of  # noqa: PLC0415 - only workers load it

        try:
            if self._cell is None:
                self._cell = LockedCell(pickle.loads(self._cells[self._digest]), self._resources[self._digest][0])
            progress = self._cell.advance()
        except CELL_ERRORS as error:
            self.cleanup()
            return {_CAUSE: cause_of(error), _TRACE: traceback.format_exc(), "done": True}
        if progress.finished:
            self.cleanup()
        return {_PROGRESS: progress, "done": progress.finished}

    def cleanup(self) -> None:
        """Release the cell's lock."""
        if self._cell is not None:
            self._cell.close()
            self._cell = None


class _Events(tune.Callback):
    """Tune callback that tells the events of the cells."""

    def __init__(self, tell: Callable[[CellEvent], None]) -> None:
        self._tell = tell

    def __reduce__(self) -> tuple[Callable[[], tune.Callback], tuple[()]]:
        # Tune saves its callbacks for a restore, which dprl does not use.
        return tune.Callback, ()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: object
    ) -> None:
        """Tell a cell's progress, or its error."""
        told = {key: result[key] for key in (_PROGRESS, _CAUSE, _TRACE) if key in result}
        self._tell(CellEvent(trial.config["cell"], **told))

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Tell that a cell's process died; Tune starts another one."""
        self._tell(CellEvent(trial.config["cell"], cause=trial_error(trial)[0]))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Tell that a cell failed."""
        self._tell(CellEvent(trial.config["cell"], None, *trial_error(trial)))


def trial_error(trial: Trial) -> tuple[str, str]:
    """Return the error of a trial, as one line and whole."""
    error = trial.get_error()
    if trial.pickled_error_file is not None:  # on this machine; Tune copies it to its storage only later
        with Path(trial.pickled_error_file).open("rb") as file:
            error = pickle.load(file)
    cause = getattr(error, "cause", None) or error
    lost = "its process died (killed, out of memory, or its node is lost)"
    line = lost if isinstance(cause, RayActorError) else f"{type(cause).__name__}: {first_line(cause)}"
    if trial.num_failures > 1:
        line += f"; it was restarted {trial.num_failures - 1} times, the limit; --max-restarts raises it"
    return line, str(error) or line
