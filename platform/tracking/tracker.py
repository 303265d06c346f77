"""MLflow tracker of a sweep: one parent run and one nested run per cell. Only the sweep's driver uses it."""

from __future__ import annotations

import getpass
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from mlflow import entities
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from dprl.platform.configs.experiment import Scalar
from dprl.platform.environment_variables import set_environment
from dprl.platform.errors import broken_rule
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.layout import SweepCell
from dprl.platform.results.lock import FolderLock
from dprl.platform.results.summary import horizon_of
from dprl.platform.tracking.cell_entries import (
    CERTIFICATE_HEADING,
    cell_metrics,
    cell_parameters,
    certificate_note,
    certificate_tags,
    failing_claim,
)
from dprl.platform.tracking.runs import (
    DIGEST,
    PARENT,
    RECORDED,
    SWEEP,
    SWEEP_ID,
    adopted,
    find_experiment,
    tagged,
)
from dprl.platform.tracking.store import TrackingError, TrackingStore, runs_path
from dprl.platform.tracking.sweep_entries import ANSWER_HEADING, SweepEntries, unfinished_note

_BATCH = 1000
_PATIENCE_SECONDS = 300.0
"""Timeout for other processes that create the database, on a busy machine."""
_PARAMETERS_A_BATCH = 100
_FAILURE = "failure"
_IN_GRID, _OUTSIDE = "in_grid", "false"
_EARLIER = "earlier: "
_STANDS = " | "
"""Separates a run's label, with the claimed epsilon, from the verdict of a failing claim."""
_NAME = "mlflow.runName"
_RUNNING, _FINISHED = "RUNNING", "FINISHED"
_COMMAND_FILE = "command.txt"
_NOTE = "mlflow.note.content"
_LONGEST_NOTE = 8000
"""MLflow's limit of a tag."""
_STORES = {
    "boto3.exceptions": ("Boto3Error",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "google.api_core.exceptions": ("GoogleAPIError",),
    "azure.core.exceptions": ("AzureError",),
}
_NO_SETTING = "none"
_NO_THEOREM = "none"
_SQLALCHEMY_ADVICE = "(raised as a result of Query-invoked autoflush"
"""A line before the error itself."""


class Tracker:
    """Writes one sweep to MLflow. Every call can be repeated: runs are found by tag, and points are stored once.

    sweep: its name. sweep_id: distinguishes it from others of this name, '' if there are none.
    """

    def __init__(self, store: TrackingStore, sweep: str, command: str, sweep_id: str = "") -> None:
        self.store = store
        self.sweep = sweep
        self.sweep_id = sweep_id or sweep
        self.command = command
        self._client: MlflowClient | None = None
        self._experiment = ""
        self._parent = ""
        self._cells: dict[str, str] = {}
        self._tags: dict[str, dict[str, str]] = {}
        self._params: dict[str, set[str]] = {}
        self._texts: list[str] = []
        self._running: set[str] = set()

    @property
    def page(self) -> str:
        """Path of the page of all runs on an MLflow server, '' before `open`."""
        return runs_path(self._experiment) if self._experiment else ""

    @property
    def client(self) -> MlflowClient:
        """MLflow's own client on the store."""
        if self._client is None:
            raise TrackingError("the tracker is not open")
        return self._client

    def open(self, cells: Sequence[SweepCell], fresh: bool) -> None:
        """Make the store's tables, find or create the sweep's runs, and mark those outside the grid of `cells`.

        The command that resumes the sweep is stored as a file, to check that files can be stored.
        Raises UserError for an unusable store.
        """
        values: dict[str, list[Scalar]] = {}
        for cell in cells:
            for key, value in cell_parameters(cell.experiment).items():
                values.setdefault(key, []).append(value)
        self._texts = [key for key, found in values.items() if not all(type(value) in (int, float) for value in found)]
        try:
            with _mlflow_errors():
                self._client = _client(self.store)
                self._experiment = find_experiment(self.client, self.store)
                runs = self._find_runs()
                self._adopt([] if fresh else runs)
                self.client.update_run(self._parent, status=_RUNNING)
                # Report unwritable file storage now, not at the end of each cell.
                self.client.log_text(self._parent, f"{self.command}\n", _COMMAND_FILE)
                for run in runs if fresh else ():
                    self.client.delete_run(run.info.run_id)
                self._mark({cell.digest for cell in cells})
        except TrackingError as error:
            rule = f"must be usable by MLflow ({error})"
            raise broken_rule("tracking-uri", rule, self.store.shown, "check the address and its disk") from error

    def ask(self) -> None:
        """Send a minimal query to the store. Raises TrackingError if it does not answer."""
        with _mlflow_errors():
            self.client.search_experiments(max_results=1)

    def refresh(self) -> None:
        """Read the runs again, after a request with an unknown outcome. Raises TrackingError."""
        with _mlflow_errors():
            self._adopt(self._find_runs())

    def begin(self, cell: SweepCell) -> None:
        """The cell starts or resumes. Raises TrackingError."""
        with _mlflow_errors():
            run = self._cell_run(cell)
            if RECORDED in self._tags[run]:
                # Its files were lost, so it is recorded again at its end.
                self.client.delete_tag(run, RECORDED)
                del self._tags[run][RECORDED]
            if run not in self._running:
                self.client.update_run(run, status=_RUNNING)
                self._running.add(run)

    def record(self, cell: SweepCell, results: CellResults) -> None:
        """Write the results of a finished cell, once. Raises TrackingError."""
        with _mlflow_errors():
            run = self._cell_run(cell)
            if RECORDED in self._tags[run]:
                return
            metrics = cell_metrics(cell.experiment.metrics, results, horizon_of(cell.experiment))
            self._log_metrics(run, metrics)
            if _FAILURE in self._tags[run]:
                self.client.delete_tag(run, _FAILURE)
            failing = failing_claim(results.certificate)
            if failing:
                self._rename(run, f"{cell.label}{_STANDS}{failing}")
            theorem = {"theorem": results.theorem or _NO_THEOREM}
            note = self._note(run, certificate_note(results.certificate))
            self._tag(run, certificate_tags(results.certificate) | theorem | note)
            self._end(run, _FINISHED)
            self._upload(run, cell.folder.artifacts())
            # Last, so that an interrupted call is repeated in full; this changes nothing.
            self._tag(run, {RECORDED: "true"})

    def fail(self, cell: SweepCell, cause: str) -> None:
        """The cell failed. Raises TrackingError."""
        with _mlflow_errors():
            run = self._cell_run(cell)
            self._tag(run, {_FAILURE: cause[:500]})
            self._end(run, "FAILED")

    def describe(self, entries: SweepEntries) -> None:
        """Write the sweep's own metrics, as constants, and its description. Raises TrackingError."""
        if not self._parent:
            return  # `open` did not come so far
        with _mlflow_errors():
            run = self.client.get_run(self._parent)
            self._tags[self._parent] = dict(run.data.tags)
            stamp = int(time.time() * 1000)
            constants, note = entries
            changed = {key: value for key, value in constants.items() if run.data.metrics.get(key) != value}
            self._log_metrics(self._parent, [entities.Metric(key, value, stamp, 0) for key, value in changed.items()])
            self._tag(self._parent, self._note(self._parent, note))

    def close(self, files: Sequence[Path], counts: dict[str, int], status: str) -> None:
        """End the sweep's run, with its files and counts, and all open runs. Raises TrackingError.

        Counts are tags, because each metric would be a chart with one bar.
        """
        if not self._parent:
            return  # `open` did not come so far
        with _mlflow_errors():
            if not self.store.local:
                # MLflow repeats a request if the answer is lost, and may so create a run twice without an error.
                self._adopt(self._find_runs())
            self.client.log_batch(
                self._parent, tags=[entities.RunTag(name, str(count)) for name, count in counts.items()]
            )
            for run in list(self._running):
                self._end(run, "KILLED")
            self.client.set_terminated(self._parent, status=status)
            self._upload(self._parent, files)

    def _find_runs(self) -> list[entities.Run]:
        return tagged(self.client, self._experiment, SWEEP_ID, self.sweep_id)

    def _adopt(self, runs: Sequence[entities.Run]) -> None:
        found = adopted(runs, self._parent, self._cells)
        for run_id in found.surplus:
            self.client.delete_run(run_id)
        tags = {_NOTE: unfinished_note(self.command)}
        self._parent = found.parent or self._create_run(self.sweep, tags)
        for digest, run in found.cells.items():
            run_id = run.info.run_id
            self._cells[digest] = run_id
            self._tags[run_id] = dict(run.data.tags)
            self._params[run_id] = set(run.data.params)
            if run.info.status == _RUNNING:
                # The run's process was killed, or it is this one.
                self._running.add(run_id)

    def _mark(self, grid: set[str]) -> None:
        """Mark cells of earlier calls with other settings, because their names may equal those of the grid."""
        for digest, run in self._cells.items():
            if digest not in grid and run in self._running:
                self._end(run, "KILLED")
            outside = self._tags[run].get(_IN_GRID) == _OUTSIDE
            if outside and digest in grid:
                self.client.delete_tag(run, _IN_GRID)
                del self._tags[run][_IN_GRID]
            elif not outside and digest not in grid:
                self._tag(run, {_IN_GRID: _OUTSIDE})
                self._rename(run, _EARLIER + self._tags[run].get(_NAME, digest))

    def _cell_run(self, cell: SweepCell) -> str:
        run = self._cells.get(cell.digest)
        if run is None:
            run = self._create_run(cell.label, {DIGEST: cell.digest, PARENT: self._parent})
            self._cells[cell.digest] = run
            self._tags[run] = {_NAME: cell.label}
            self._params[run] = set()
            self._running.add(run)
        label, *stands = self._tags[run].get(_NAME, "").split(_STANDS)
        if label != cell.label:
            # If the grid has grown, more parameters vary and the label is longer.
            self._rename(run, _STANDS.join([cell.label, *stands]))
        self._log_parameters(run, cell)
        return run

    def _end(self, run: str, status: str) -> None:
        self.client.set_terminated(run, status=status)
        self._running.discard(run)

    def _upload(self, run: str, files: Sequence[Path]) -> None:
        """Upload files; those below the folder of the first one keep their relative paths."""
        for file in files:
            inside = file.parent.relative_to(files[0].parent).as_posix()
            self.client.log_artifact(run, str(file), None if inside == "." else inside)

    def _rename(self, run: str, name: str) -> None:
        self.client.update_run(run, name=name)
        self._tags[run][_NAME] = name

    def _log_metrics(self, run: str, metrics: Sequence[entities.Metric]) -> None:
        for start in range(0, len(metrics), _BATCH):
            self.client.log_batch(run, metrics=metrics[start : start + _BATCH])

    def _log_parameters(self, run: str, cell: SweepCell) -> None:
        """Log the cell's missing parameters; a text that only other cells have is 'none' here, not 'unknown'.

        A number stays away instead: with one text among its values, MLflow's plots would sort them all as texts.
        """
        settings = dict.fromkeys(self._texts, _NO_SETTING) | cell_parameters(cell.experiment)
        missing = [entities.Param(key, str(value)) for key, value in settings.items() if key not in self._params[run]]
        for start in range(0, len(missing), _PARAMETERS_A_BATCH):
            self.client.log_batch(run, params=missing[start : start + _PARAMETERS_A_BATCH])
        self._params[run].update(settings)

    def _create_run(self, name: str, tags: dict[str, str]) -> str:
        tags = tags | {SWEEP: self.sweep, SWEEP_ID: self.sweep_id}
        # MLflow's columns "Created by" and "Source".
        tags |= {"mlflow.source.name": self.command, "mlflow.source.type": "LOCAL"}
        with suppress(OSError, KeyError, ImportError):  # a container may run as a number without a name
            tags["mlflow.user"] = getpass.getuser()
        return str(self.client.create_run(self._experiment, tags=tags, run_name=name).info.run_id)

    def _note(self, run: str, text: str) -> dict[str, str]:
        """Return the tag with the description of a run; {} if a user has written another one."""
        before = self._tags[run].get(_NOTE, "")
        if before and not before.startswith((CERTIFICATE_HEADING, ANSWER_HEADING)):
            return {}
        return {_NOTE: text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."}

    def _tag(self, run: str, tags: dict[str, str]) -> None:
        self.client.log_batch(run, tags=[entities.RunTag(key, value) for key, value in tags.items()])
        self._tags[run] = self._tags[run] | tags


def _client(store: TrackingStore) -> MlflowClient:
    set_environment("MLFLOW_")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # MLflow raises errors of a database, but also logs them with a traceback.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    # The first client of a store creates its tables, one process at a time.
    there = None if store.database is None else store.database.resolve()
    lock = there and FolderLock(there.with_name(f".{there.name}.lock"), _PATIENCE_SECONDS)
    with lock or nullcontext():
        client = MlflowClient(store.uri)
        client.search_experiments(max_results=1)
    return client


@contextmanager
def _mlflow_errors() -> Iterator[None]:
    """Convert errors of MLflow, files and databases to TrackingError."""
    try:
        yield
    except _errors() as error:
        lines = [line for line in str(error).splitlines() if not line.startswith(_SQLALCHEMY_ADVICE)]
        raise TrackingError(f"{type(error).__name__}: {next(iter(lines), '')}") from error


def _errors() -> tuple[type[Exception], ...]:
    """These errors, and those of the storage libraries that MLflow has loaded."""
    loaded = [(sys.modules[module], names) for module, names in _STORES.items() if module in sys.modules]
    stores = [getattr(library, name) for library, names in loaded for name in names]
    return (MlflowException, SQLAlchemyError, OSError, *stores)
