"""Execution of cells, in this process or on Ray: kernels are compiled once, and steps each leave a checkpoint."""

from __future__ import annotations

import dataclasses
import os
import re
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from numba import NumbaError

from dprl.compiled import cache_is_empty, compilations
from dprl.platform.configs.experiment import Experiment
from dprl.platform.environment_variables import cpu_limit
from dprl.platform.errors import UserError
from dprl.platform.plugins import PLUGIN_ERRORS
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.cell import CellProgress, CellRun

DEFAULT_RESTARTS = 3
"""Finite, because a cell that needs too much memory dies each time."""
STEP_SECONDS = 1.0
"""Between two checkpoints, and two reports."""

_WORK_PER_SAVING = 10.0
"""Seconds of work for every second that a checkpoint takes: large counters make large ones."""

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_PLACE = re.compile(r"(?: at |File \")([^\s\"]+\.py)(?: \(|\", line )(\d+)")
_ALLOCATES = ("NRT required", "Only accept returning of array passed into the function")
"""In Numba's message on a kernel that makes an array, though it counts no references."""
_NO_NEWS = ("Failed in nopython mode pipeline", "File ")
CELL_ERRORS = (UserError, *PLUGIN_ERRORS)
"""Errors that end one cell. Any other error stops the sweep."""


@dataclass(frozen=True)
class TrialOptions:
    """Options of Tune for the cells of a sweep.

    storage: folder for Tune's own files. max_restarts: how often a cell may continue in another process after its
    process or node is lost, -1: no limit. warn: shows a line about a problem. most_cpus: CPUs that cells may use, at
    least one each.
    """

    storage: Path
    max_restarts: int
    warn: Callable[[str], None]
    most_cpus: int | None = None


class RayLost(BaseException):
    """A server process of the local Ray has died and no cell can continue; `except Exception` does not catch this."""


class SweepObserver(Protocol):
    """Observer of the cells, in the process that drives the sweep."""

    def advanced(self, cell: SweepCell, progress: CellProgress) -> None:
        """The cell has made progress."""

    def finished(self, cell: SweepCell) -> None:
        """The cell's artifacts are written."""

    def interrupted(self, cell: SweepCell, cause: str) -> None:
        """The process that ran the cell died; another one continues from the cell's checkpoint."""

    def failed(self, cell: SweepCell, cause: str, trace: str) -> None:
        """The cell failed; `cause` is one line, `trace` the full traceback."""


class LockedCell:
    """Runs one cell of a sweep on `cpus` CPUs at most, holding its lock from the first step until `close`."""

    def __init__(self, cell: SweepCell, cpus: int = 1) -> None:
        self.cell = cell
        self._cpus = cpus
        self._lock = cell.lock()
        self._run: CellRun | None = None

    def advance(self, seconds: float) -> CellProgress:
        """Run for about `seconds`, longer if checkpoints take long, and leave one.

        Raises UserError while another process has the cell, and if the code has changed since the cell was named
        (this process may have started later).
        """
        if self._run is None:
            named = self.cell.folder.path.name
            if self.cell.digest != named:
                raise UserError(
                    f"code: must not change while a sweep runs, got other sources than those of cell {named}; start "
                    "the sweep again with --fresh or --name"
                )
            # In this order: read the previous holder's files only after it has released the lock.
            self._lock.acquire()
            self._run = CellRun(self.cell.experiment, self.cell.folder, cpus=self._cpus)
        return self._run.advance(max(seconds, _WORK_PER_SAVING * self._run.saving))

    def close(self) -> None:
        """Release the lock."""
        self._run = None
        self._lock.release()


def cause_of(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, NumbaError):
        return _cause_in_kernel(without_colours(str(error)))
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {first_line}"


def without_colours(text: str) -> str:
    """Return a message without the colours that Ray and Numba put into their errors."""
    return _COLOUR.sub("", text)


def _cause_in_kernel(text: str) -> str:
    """Return place, rule and remedy of a kernel that does not compile, from Numba's message of many lines."""
    own = next(((file, line) for file, line in _PLACE.findall(text) if "site-packages" not in file), None)
    where = f" at {Path(own[0]).name}:{own[1]}" if own else ""
    if any(words in text for words in _ALLOCATES):
        rule = "a no_alloc_kernel must make no array, list or tuple of its own; write into its arguments"
        return f"KernelError: does not compile{where}: {rule}, or decorate it with kernel"
    lines = (line.strip() for line in text.splitlines())
    message = next((line for line in lines if line and not line.startswith(_NO_NEWS)), "no message")
    return f"KernelError: does not compile{where}: {message}; kernels are in the part of Python that Numba compiles"


def run_in_process(cells: Sequence[SweepCell], observer: SweepObserver) -> None:
    """Run the cells one by one in this process, with seeds on all its CPUs; a failed cell does not stop the others."""
    cpus = cpu_limit() or len(os.sched_getaffinity(0))
    for cell in cells:
        locked = LockedCell(cell, cpus)
        try:
            finished = False
            while not finished:
                progress = locked.advance(STEP_SECONDS)
                finished = progress.finished
                observer.advanced(cell, progress)
        except CELL_ERRORS as error:
            observer.failed(cell, cause_of(error), traceback.format_exc())
        else:
            observer.finished(cell)
        finally:
            locked.close()


_NOTICED_SECONDS = 1.0


def compile_kernels(experiments: Sequence[Experiment], say: Callable[[str], None]) -> None:
    """Compile the kernels of all experiments once; every worker then loads them from the cache on disk."""
    begin, before = time.monotonic(), compilations()
    if cache_is_empty():
        say("compiling the learning loop (once per machine and code version) ...")
    for experiment in _one_of_each_kind(experiments):
        _compile(experiment)
    seconds = time.monotonic() - begin
    if compilations() > before:
        say(f"compiled in {seconds:.1f} s")
    elif seconds > _NOTICED_SECONDS:
        say(f"loaded compiled code in {seconds:.1f} s")


def _compile(experiment: Experiment) -> None:
    try:
        dataclasses.replace(experiment, episodes=2, seeds=1).build(0).learn(2)
    except CELL_ERRORS:
        # Its cell will fail in the same way and is then reported by name.
        return


def _one_of_each_kind(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return one experiment for each combination of named parts; sizes and scales need no separate code."""
    kinds: dict[frozenset[tuple[str, object]], Experiment] = {}
    for experiment in experiments:
        parts = frozenset(item for item in experiment.parameters().items() if isinstance(item[1], str))
        kinds.setdefault(parts, experiment)
    return list(kinds.values())
