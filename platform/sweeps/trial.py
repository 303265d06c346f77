"""A cell as a Ray Tune trial."""
# ruff: noqa: ARG002, ARG003 - Tune calls hooks with arguments, needed or not

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial

from dprl.platform.sweeps.execution import STEP_SECONDS, Listener, LockedCell
from dprl.platform.sweeps.layout import SweepCell

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CellTrial(tune.Trainable):
    """Runs one cell a trial; a worker process runs many trials, because starting a process costs a second.

    The cell's own folder is the state of truth: its checkpoint is what a later sweep resumes, on Ray or not.
    """

    cells: Mapping[str, SweepCell]
    cell: LockedCell

    def setup(self, config: dict[str, Any], cells: Mapping[str, SweepCell] | None = None) -> None:
        """Choose the cell `config["cell"]`; nothing is read or locked before the first step."""
        self.cells = cells if cells is not None else {}
        self.cell = LockedCell(self.cells[config["cell"]])

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Ask for one CPU: the compiled loops use one thread."""
        return tune.PlacementGroupFactory([{"CPU": 1}])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Choose another cell in the same process."""
        self.cell.close()
        self.cell = LockedCell(self.cells[new_config["cell"]])
        return True

    def step(self) -> dict[str, Any]:
        """Run the cell for about a second."""
        progress = self.cell.advance(STEP_SECONDS)
        if progress.finished:
            self.cell.close()
        return {"fraction": progress.episodes_done / progress.episodes_total, "done": progress.finished}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Tell Tune where the real checkpoint is."""
        pointer = {"folder": str(self.cell.cell.folder.path)}
        (Path(checkpoint_dir) / "cell.json").write_text(json.dumps(pointer))

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Do nothing: the first step resumes from the cell's folder."""

    def cleanup(self) -> None:
        """Let others write the cell."""
        self.cell.close()


class PassOn(tune.Callback):
    """Tells a Listener what Tune reports about the trials."""

    def __init__(self, cells: Mapping[str, SweepCell], listener: Listener) -> None:
        self._cells = cells
        self._listener = listener

    def __reduce__(self) -> tuple[Callable[[], tune.Callback], tuple[()]]:
        # Tune saves its callbacks for a restore, which dprl does not use; the listener cannot be pickled.
        return tune.Callback, ()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Pass on that a cell runs."""
        self._listener.started(self._cells[trial.config["cell"]])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: object
    ) -> None:
        """Pass on how far a cell is."""
        self._listener.advanced(self._cells[trial.config["cell"]], float(result["fraction"]))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Pass on that a cell has finished, if its files are here."""
        cell = self._cells[trial.config["cell"]]
        if cell.finished:
            self._listener.finished(cell)
            return
        cause = f"it finished, but not in {cell.folder.path} of this machine: put DPRL_HOME on storage that all share"
        self._listener.failed(cell, cause, cause)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        """Pass on that a cell failed."""
        error = _error_of(trial)
        self._listener.failed(self._cells[trial.config["cell"]], _one_line(error), _plain(str(error)))


def _error_of(trial: Trial) -> BaseException | None:
    """Return why the trial failed, from the file on this machine: Tune copies it to its storage only later."""
    if trial.pickled_error_file is not None:
        with Path(trial.pickled_error_file).open("rb") as file:
            error: BaseException = pickle.load(file)
        return error
    found: BaseException | None = trial.get_error()
    return found


def _one_line(error: BaseException | None) -> str:
    """Return the cause below what Ray wraps around it."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in _plain(str(cause)).splitlines() if line.strip()]
    if not lines:
        return f"{type(cause).__name__}: no message"
    # What failed in a worker's start is known to Ray as text only, a traceback with the cause at its end.
    if isinstance(cause, RayActorError) and "Traceback" in str(cause):
        return lines[-1]
    return f"{type(cause).__name__}: {lines[0]}"


def _plain(text: str) -> str:
    """Return `text` without the colours that Ray puts into its errors."""
    return _COLOUR.sub("", text)
