"""Ray Tune trial that runs one cell."""
# ruff: noqa: ARG002, ARG003 - Tune calls hooks with arguments, needed or not

from __future__ import annotations

import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial

from dprl.platform.configs.memory import GB
from dprl.platform.results.layout import SweepCell
from dprl.platform.sweeps.execution import (
    CELL_ERRORS,
    STEP_SECONDS,
    LockedCell,
    SweepObserver,
    cause_of,
    without_colours,
)

_PROGRESS, _CAUSE, _TRACE = "progress", "cause", "trace"
"""Keys of a step's report."""

_LATER = 4
"""Steps of Tune, each an event or a tenth of a second, until the next trial has replaced one that ended."""

_UNSEEN_SECONDS, _LOOK_SECONDS = 90.0, 1.0
"""Timeout and poll interval for a finished cell's files: NFS remembers for up to a minute that a file did not exist,
and the driver has looked for them at the start."""


class CellTrial(tune.Trainable):
    """Ray Tune trial that runs one cell. A worker process runs many trials, because starting a process takes a second.

    The cell's folder holds its state: a later sweep resumes that checkpoint, on Ray or not.
    """

    cells: Mapping[str, SweepCell]
    cpus: int
    cell: LockedCell

    def setup(self, config: dict[str, Any], cells: Mapping[str, SweepCell] | None = None, cpus: int = 1) -> None:
        """Select the cell `config["cell"]`, for `cpus` CPUs; nothing is read or locked before the first step."""
        self.cells, self.cpus = cells if cells is not None else {}, cpus
        self.cell = LockedCell(self.cells[config["cell"]], cpus)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Ask for one CPU."""
        return resources_of(None)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Choose another cell in the same process."""
        self.cell.close()
        self.cell = LockedCell(self.cells[new_config["cell"]], self.cpus)
        return True

    def step(self) -> dict[str, Any]:
        """Run the cell for about a second.

        An error of the cell ends the cell and is a result. Tune restarts a cell only if its process or node has died.
        """
        try:
            progress = self.cell.advance(STEP_SECONDS)
        except CELL_ERRORS as error:
            self.cell.close()
            return {_CAUSE: cause_of(error), _TRACE: traceback.format_exc(), "done": True}
        if progress.finished:
            self.cell.close()
        return {_PROGRESS: progress, "done": progress.finished}

    def cleanup(self) -> None:
        """Release the cell's lock."""
        self.cell.close()


def resources_of(memory: float | None, cpus: int = 1) -> tune.PlacementGroupFactory:
    """Return a trial's resources in Ray: CPUs, one per seed that learns at once, and the cell's `memory` in GB."""
    return tune.PlacementGroupFactory([{"CPU": cpus} | ({} if memory is None else {"memory": int(memory * GB)})])


class ObserverCallback(tune.Callback):
    """Tune callback that passes reports about trials on to a SweepObserver.

    The observer needs some time for a finished cell, and the cell's worker would wait. Therefore the observer is called
    some steps of Tune later, when the worker has its next cell. The files of a cell that another node has finished may
    be invisible here at first; the callback polls for them.
    """

    def __init__(self, cells: Mapping[str, SweepCell], observer: SweepObserver) -> None:
        self._cells = cells
        self._observer = observer
        self._ended: deque[tuple[int, SweepCell]] = deque()
        self._unseen: dict[Path, tuple[SweepCell, float]] = {}
        self._next_look = 0.0

    def __reduce__(self) -> tuple[Callable[[], tune.Callback], tuple[()]]:
        # Tune saves its callbacks for a restore; dprl does not use that, and the observer cannot be pickled.
        return tune.Callback, ()

    def _cell(self, trial: Trial) -> SweepCell:
        return self._cells[trial.config["cell"]]

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: object
    ) -> None:
        """Pass on a cell's progress."""
        if _PROGRESS in result:
            self._observer.advanced(self._cell(trial), result[_PROGRESS])

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Pass on that a cell's process died; Tune starts another one."""
        self._observer.interrupted(self._cell(trial), _one_line(_error_of(trial)))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Note that a cell has finished, or pass on its error."""
        cell, result = self._cell(trial), trial.last_result
        if _CAUSE in result:
            self._observer.failed(cell, result[_CAUSE], result[_TRACE])
        elif cell.finished:
            self._ended.append((iteration, cell))
        else:
            self._unseen[cell.folder.path] = cell, time.monotonic() + _UNSEEN_SECONDS

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        """Pass on the cells that finished some steps ago."""
        self._look(iteration)
        while self._ended and iteration >= self._ended[0][0] + _LATER:
            self._observer.finished(self._ended.popleft()[1])

    def wait(self) -> None:
        """Poll for missing files until they are found or the time is up."""
        while self._unseen:
            self._look(0)
            time.sleep(_LOOK_SECONDS if self._unseen else 0.0)

    def flush(self) -> None:
        """Pass on all finished cells with visible files."""
        while self._ended:
            self._observer.finished(self._ended.popleft()[1])

    def _look(self, iteration: int) -> None:
        """Look for the files of cells that finished on other nodes; after the timeout, the cell counts as failed."""
        now = time.monotonic()
        if not self._unseen or now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        for folder, (cell, deadline) in list(self._unseen.items()):
            if cell.finished:
                self._ended.append((iteration, cell))
            elif now > deadline:
                cause = f"it finished, but not in {folder} of this machine: put DPRL_HOME on storage that all share"
                self._observer.failed(cell, cause, cause)
            else:
                continue
            del self._unseen[folder]

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Pass on that a cell failed."""
        error = _error_of(trial)
        cause = _one_line(error)
        if trial.num_failures > 1:
            cause += f"; it was restarted {trial.num_failures - 1} times, the limit; --max-restarts raises it"
        self._observer.failed(self._cell(trial), cause, without_colours(str(error)))


def _error_of(trial: Trial) -> BaseException | None:
    """Return why the trial failed, from the file on this machine: Tune copies it to its storage only later."""
    if trial.pickled_error_file is not None:
        with Path(trial.pickled_error_file).open("rb") as file:
            error: BaseException = pickle.load(file)
        return error
    found: BaseException | None = trial.get_error()
    return found


def _one_line(error: BaseException | None) -> str:
    """Return the cause within Ray's own errors as one line."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in without_colours(str(cause)).splitlines() if line.strip()]
    if not lines:
        return f"{type(cause).__name__}: no message"
    # Ray has errors in a worker's start only as text: a traceback with the cause at its end.
    if isinstance(cause, RayActorError):
        return (
            lines[-1] if "Traceback" in str(cause) else "its process died (killed, out of memory, or its node is lost)"
        )
    return f"{type(cause).__name__}: {lines[0]}"
