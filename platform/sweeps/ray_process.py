"""The process of a sweep that talks to Ray, as seen from the process that drives the sweep.

Ray ends the process that uses it when one of its servers dies, takes over its signals, and hangs when it is shut down
after that. It therefore gets a process of its own (`ray_trials`), with a session of its own: Ctrl-C and SIGTERM reach
the driver alone. The two share a pipe. When the driver ends it, or dies in any way, the process ends itself and every
process of Ray that it started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import cloudpickle

from dprl.platform.errors import UserError, broken_rule, counted
from dprl.platform.program import command
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.events import CellEvent, Cluster, RayLostError, ending

_MOST_STARTS = 3
_POLL_SECONDS = 1.0
_ENDING_SECONDS = 5.0  # after the end of the pipe; then the process is killed from outside
_PROGRAM = """
import json, sys
start = json.loads(sys.argv[1])
sys.argv[0], sys.path[:] = start.pop("program"), start.pop("path")
from dprl.platform.sweeps.ray_trials import serve
serve(**start)
"""


class RayProcess:
    """The process that joins Ray at `address`, or starts Ray on this machine if that is None.

    home: folder of all results, which the nodes of a running cluster must share. The process starts at once; `cluster`
    waits for it. As a context, it ends the process.
    """

    def __init__(self, address: str | None, home: Path) -> None:
        self._address = address
        self._home = home
        self._cluster: Cluster | None = None
        self._start()

    def _start(self) -> None:
        self._connection, theirs = Pipe()
        start = {
            "program": sys.argv[0],
            "path": sys.path,
            "descriptor": theirs.fileno(),
            "address": self._address,
            "home": str(self._home),
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # Ray prints long messages about dead workers
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def cluster(self) -> Cluster:
        """The cluster, once it can be used. Raises UserError."""
        starts = 1
        while self._cluster is None:
            kind, told = self._receive()
            if kind == "ready":
                self._cluster = Cluster(*told)
            elif kind == "refused":
                raise UserError(told)
            elif starts == _MOST_STARTS:  # on a busy machine Ray may wait too briefly for its own servers
                raise UserError(
                    f"Ray: must start on this machine, and did not in {counted(_MOST_STARTS, 'attempt')} ({told}); "
                    f"free the machine and try again, or take `{command('run')}`, which needs no Ray"
                )
            else:
                self._end()
                self._start()
                starts += 1
        return self._cluster

    def require_memory(self, cells: Sequence[SweepCell]) -> None:
        """Raise UserError for a cell that needs more memory than any node has: Ray would wait for such a node."""
        most = self.cluster.node_memory
        for cell in cells:
            if (cell.experiment.memory or 0.0) > most:
                rule, remedy = f"must be at most {most:.3g} GB, the memory of the largest node", "or add a larger node"
                raise broken_rule("memory", rule, cell.experiment.memory, f"lower it for {cell.label}, {remedy}")

    def run(
        self, cells: Sequence[SweepCell], storage: Path, max_restarts: int, most_cpus: int | None
    ) -> Iterator[CellEvent | None]:
        """Run the cells as Tune trials on at most `most_cpus` CPUs; yield their events, and None now and then.

        Every cell has its share of the CPUs. A failed cell does not stop the others. storage: folder for Tune's files.
        max_restarts: how often a cell may continue in another process after its own is lost, -1: no limit. Raises
        RayLostError.
        """
        found = self.cluster
        at_once = min(found.n_cpus, most_cpus or found.n_cpus)
        cpus = max(1, min(at_once // max(1, len(cells)), found.node_cpus))
        pickled = {cell.digest: cloudpickle.dumps(cell) for cell in cells}
        resources = {cell.digest: (min(cpus, cell.experiment.seeds), cell.experiment.memory) for cell in cells}
        self._connection.send((pickled, resources, at_once, str(storage), max_restarts))
        while True:
            kind, told = self._receive() if self._connection.poll(_POLL_SECONDS) else ("event", None)
            if kind == "done":
                return
            if kind != "event":
                raise RayLostError(told)
            yield told

    def _receive(self) -> tuple[str, Any]:
        """Return the next message of the process, or how it died."""
        try:
            kind, told = self._connection.recv()
        except (EOFError, ConnectionError):
            code = self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            return "died", f"Ray's driver (process {self._process.pid}) died with {ending(code)}{last and f': {last}'}"
        return kind, told

    def _end(self) -> None:
        """End the process, and with it every process of Ray that it has started; it may have ended already."""
        self._connection.close()
        try:
            self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> RayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
