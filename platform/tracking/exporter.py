"""Export of a sweep to MLflow: one parent run, and one nested run for each ended cell. Only the driver calls it."""

from __future__ import annotations

import getpass
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

from mlflow import entities
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from dprl.platform.configs.experiment import Scalar
from dprl.platform.environment_variables import set_environment
from dprl.platform.errors import broken_rule
from dprl.platform.results.cell_folder import CellResults, DamagedCellError
from dprl.platform.results.layout import SweepCell
from dprl.platform.results.lock import FolderLock
from dprl.platform.results.summary import horizon_of
from dprl.platform.tracking.entries import (
    ANSWER_HEADING,
    CERTIFICATE_HEADING,
    SweepEntries,
    cell_metrics,
    cell_parameters,
    cell_tags,
    certificate_note,
    failing_claim,
    unfinished_note,
)
from dprl.platform.tracking.store import TrackingStore, experiment_name, runs_path

_SWEEP, _SWEEP_ID, _DIGEST = "sweep", "sweep_id", "digest"
_RECORDED = "recorded"
"""Tag of a complete run: the end of its cell, so that a cell that ran again is written again."""
_FAILURE, _IN_GRID = "failure", "in_grid"
_NAME, _NOTE, _PARENT = "mlflow.runName", "mlflow.note.content", "mlflow.parentRunId"
_EARLIER = "earlier: "
_STANDS = " | "
"""Separates a run's label, with the claimed epsilon, from the verdict of a failing claim."""
# Without it MLflow's pages may show the experiment as one of language models, without curves.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_METRICS_A_CALL, _PARAMETERS_A_CALL, _RUNS_A_PAGE, _LONGEST_NOTE = 1000, 100, 1000, 8000
"""MLflow's limits."""
_PATIENCE_SECONDS = 300.0
"""Timeout for other processes that create the database, on a busy machine."""
_STORES = {
    "boto3.exceptions": ("Boto3Error",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "google.api_core.exceptions": ("GoogleAPIError",),
    "azure.core.exceptions": ("AzureError",),
}
_SQLALCHEMY_ADVICE = "(raised as a result of Query-invoked autoflush"
"""A line before the error itself."""


class Exporter:
    """Writes one sweep to MLflow. Every call can be repeated: runs are found by tag, and points are stored once.

    A store that stops answering is warned of once. What it missed is written by `close`, or by the next sweep from the
    files of the cells, which have all data.

    sweep: its name. sweep_id: distinguishes it from others of this name, '' if there are none. command: resumes the
    sweep. warn: takes one line.
    """

    def __init__(
        self, store: TrackingStore, sweep: str, command: str, warn: Callable[[str], None], sweep_id: str = ""
    ) -> None:
        self.store = store
        self.page = ""
        """Path of the page of all runs on an MLflow server, '' before `open`."""
        self._sweep = {_SWEEP: sweep, _SWEEP_ID: sweep_id or sweep}
        self._command = command
        self._warn = warn
        self._experiment = self._parent = ""
        self._cells: dict[str, str] = {}  # run by digest
        self._tags: dict[str, dict[str, str]] = {}  # by run
        self._parameters: dict[str, set[str]] = {}  # written keys by run
        self._texts: list[str] = []
        self._missing: dict[str, Callable[[], None]] = {}

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
        if error := self._error(partial(self._open, {cell.digest for cell in cells}, fresh)):
            rule = f"must be usable by MLflow ({error})"
            raise broken_rule("tracking-uri", rule, self.store.shown, "check the address and its disk")

    def record(self, cell: SweepCell, results: CellResults) -> None:
        """Write the results of a finished cell, once: now, or at the end if the store does not answer."""
        # Later they are read again, because all results together would take much memory.
        later = lambda: self._record(cell, cell.folder.results())  # noqa: E731
        self._now_or_later(cell, partial(self._record, cell, results), later)

    def fail(self, cell: SweepCell, cause: str) -> None:
        """Write that a cell failed, now or at the end."""
        write = partial(self._fail, cell, cause)
        self._now_or_later(cell, write, write)

    def close(
        self, files: Sequence[Path], counts: Mapping[str, int], status: str, entries: SweepEntries | None = None
    ) -> str:
        """Write what is missing, and the sweep's own run with its files and entries; return the first error, or ''.

        counts: become tags, because each metric would be a chart with one bar.
        """
        if not self._parent:
            return ""  # `open` did not come so far
        found = ""
        # First all runs are read again: an interrupted call may have left one open, and MLflow, which repeats a request
        # if the answer is lost, may have made one twice.
        end = partial(self._end, files, counts, status, entries)
        writes: list[Callable[[], object]] = [
            lambda: self._delete(self._adopt(fresh=False)),
            *self._missing.values(),
            end,
        ]
        for write in writes:
            error = self._error(write)
            found = found or error
            if error and self._error(lambda: self.client.search_experiments(max_results=1)):
                break  # each further attempt would take seconds
        return found

    def _open(self, grid: set[str], fresh: bool) -> None:
        self.client = _client(self.store)
        self._experiment = _experiment(self.client, self.store)
        self.page = runs_path(self._experiment)
        surplus = self._adopt(fresh)
        self.client.update_run(self._parent, status="RUNNING")
        # Report unwritable file storage now, not at the end of each cell.
        self.client.log_text(self._parent, f"{self._command}\n", "command.txt")
        self._delete(surplus)
        for digest, run in self._cells.items():  # names of cells with other settings may equal those of the grid
            outside = _IN_GRID in self._tags[run]
            if outside and digest in grid:
                self._untag(run, _IN_GRID)
            elif not outside and digest not in grid:
                self._tag(run, {_IN_GRID: "false"})
                self._rename(run, _EARLIER + self._tags[run].get(_NAME, digest))

    def _adopt(self, fresh: bool) -> list[str]:
        """Find the sweep's runs, or make a new parent; return duplicates, and all earlier runs for a fresh sweep."""
        runs = self._runs()
        parent, cells = ("", {}) if fresh else _own(runs, self._parent, self._cells)
        self._parent = parent or self._create_run(self._sweep[_SWEEP], {_NOTE: unfinished_note(self._command)})
        self._cells = {digest: run.info.run_id for digest, run in cells.items()}
        self._tags = {run.info.run_id: dict(run.data.tags) for run in runs}
        self._tags.setdefault(self._parent, {_NOTE: unfinished_note(self._command)})
        self._parameters = {run.info.run_id: set(run.data.params) for run in runs}
        for run in cells.values():
            if run.info.status == "RUNNING":
                self.client.set_terminated(run.info.run_id, "KILLED")  # with its process
        return [run.info.run_id for run in runs if run.info.run_id not in {self._parent, *self._cells.values()}]

    def _delete(self, runs: Sequence[str]) -> None:
        for run in runs:
            self.client.delete_run(run)

    def _runs(self) -> list[entities.Run]:
        """Return the sweep's runs, the oldest first."""
        runs = list[entities.Run]()
        token: str | None = ""
        chosen = f"tags.{_SWEEP_ID} = '{self._sweep[_SWEEP_ID]}'"
        oldest = ["attributes.start_time ASC"]
        while token is not None:
            page = self.client.search_runs([self._experiment], chosen, 1, _RUNS_A_PAGE, oldest, token or None)
            runs += page
            token = page.token or None
        return runs

    def _record(self, cell: SweepCell, results: CellResults) -> None:
        ended = repr(results.finished_at)
        run = self._cells.get(cell.digest)
        if run is None or self._tags[run].get(_RECORDED) != ended:
            run = self._cell_run(cell, "FINISHED", results.finished_at, results.seconds)
            metrics = cell_metrics(cell.experiment.metrics, results, horizon_of(cell.experiment))
            for start in range(0, len(metrics), _METRICS_A_CALL):
                self.client.log_batch(run, metrics=metrics[start : start + _METRICS_A_CALL])
            self._untag(run, _FAILURE)
            self._tag(run, cell_tags(results) | self._note(run, certificate_note(results.certificate)))
            self._upload(run, cell.folder.artifacts())
            # Last, so that an interrupted call is repeated in full.
            self._tag(run, {_RECORDED: ended})
        stands = failing_claim(results.certificate)
        # If the grid has grown, more parameters vary and labels are longer.
        self._rename(run, f"{cell.label}{_STANDS}{stands}" if stands else cell.label)
        self._log_parameters(run, cell)

    def _fail(self, cell: SweepCell, cause: str) -> None:
        run = self._cell_run(cell, "FAILED", time.time(), 0.0)
        self._rename(run, cell.label)
        self._log_parameters(run, cell)
        self._untag(run, _RECORDED)
        self._tag(run, {_FAILURE: cause[:500]})

    def _end(self, files: Sequence[Path], counts: Mapping[str, int], status: str, entries: SweepEntries | None) -> None:
        parent = self._parent
        # First, so that the run does not stay open because of a refused number.
        self.client.set_terminated(parent, status=status)
        self._tag(parent, {name: str(count) for name, count in counts.items()})
        self._upload(parent, files)
        if entries is not None:
            constants, note = entries
            run = self.client.get_run(parent)
            self._tags[parent] = dict(run.data.tags)  # the user may have written a note meanwhile
            stamp = int(time.time() * 1000)
            changed = {key: value for key, value in constants.items() if run.data.metrics.get(key) != value}
            self.client.log_batch(parent, [entities.Metric(key, value, stamp, 0) for key, value in changed.items()])
            self._tag(parent, self._note(parent, note))

    def _now_or_later(self, cell: SweepCell, now: Callable[[], None], later: Callable[[], None]) -> None:
        if not self._missing:  # else the store is not asked for every cell
            error = self._error(now)
            if not error:
                return
            self._warn(f"MLflow: {error}; the rest is written at the end")
        self._missing[cell.digest] = later

    @staticmethod
    def _error(write: Callable[[], object]) -> str:
        """Return an error of MLflow, databases, storage libraries or files as one line; '' without one."""
        try:
            write()
        except DamagedCellError as error:
            return str(error)
        except _errors() as error:
            lines = [line for line in str(error).splitlines() if not line.startswith(_SQLALCHEMY_ADVICE)]
            return f"{type(error).__name__}: {next(iter(lines), '')}"
        return ""

    def _cell_run(self, cell: SweepCell, status: str, ended: float, seconds: float) -> str:
        """Return the cell's run, ended with this status: no run is open longer than one request."""
        run = self._cells.get(cell.digest)
        if run is None:
            tags = {_DIGEST: cell.digest, _PARENT: self._parent}
            run = self._create_run(cell.label, tags, int((ended - seconds) * 1000))
            self._cells[cell.digest] = run
            self._tags[run] = {_NAME: cell.label}
        self.client.set_terminated(run, status, int(ended * 1000))
        return run

    def _create_run(self, name: str, tags: dict[str, str], started_ms: int | None = None) -> str:
        # MLflow's columns "Created by" and "Source".
        tags = tags | self._sweep | {"mlflow.source.name": self._command, "mlflow.source.type": "LOCAL"}
        with suppress(OSError, KeyError, ImportError):  # a container may run as a number without a name
            tags["mlflow.user"] = getpass.getuser()
        return str(self.client.create_run(self._experiment, started_ms, tags, name).info.run_id)

    def _log_parameters(self, run: str, cell: SweepCell) -> None:
        """Log the cell's missing parameters; a text that only other cells have is 'none' here, not 'unknown'.

        A number stays away instead: with one text among its values, MLflow's plots would sort them all as texts.
        """
        written = self._parameters.setdefault(run, set())
        settings = dict.fromkeys(self._texts, "none") | cell_parameters(cell.experiment)
        missing = [entities.Param(key, str(value)) for key, value in settings.items() if key not in written]
        for start in range(0, len(missing), _PARAMETERS_A_CALL):
            self.client.log_batch(run, params=missing[start : start + _PARAMETERS_A_CALL])
        written.update(settings)

    def _upload(self, run: str, files: Sequence[Path]) -> None:
        """Upload files; those below the folder of the first one keep their relative paths."""
        for file in files:
            inside = file.parent.relative_to(files[0].parent).as_posix()
            self.client.log_artifact(run, str(file), None if inside == "." else inside)

    def _note(self, run: str, text: str) -> dict[str, str]:
        """Return the tag with the description of a run; {} if a user has written another one."""
        before = self._tags[run].get(_NOTE, "")
        if before and not before.startswith((CERTIFICATE_HEADING, ANSWER_HEADING)):
            return {}
        return {_NOTE: text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."}

    def _rename(self, run: str, name: str) -> None:
        if self._tags[run].get(_NAME) != name:
            self.client.update_run(run, name=name)
            self._tags[run][_NAME] = name

    def _tag(self, run: str, tags: dict[str, str]) -> None:
        self.client.log_batch(run, tags=[entities.RunTag(key, value) for key, value in tags.items()])
        self._tags[run] |= tags

    def _untag(self, run: str, tag: str) -> None:
        if tag in self._tags[run]:
            self.client.delete_tag(run, tag)
            del self._tags[run][tag]


def _own(runs: Sequence[entities.Run], parent: str, cells: Mapping[str, str]) -> tuple[str, Mapping[str, entities.Run]]:
    """Return the parent ('' without one) and the cells' runs by digest.

    runs: the oldest first. parent, cells: the runs in use, '' and nothing at the start. Of runs made twice, because an
    answer was lost, the fullest one is used.
    """
    children: dict[str, list[entities.Run]] = defaultdict(list)
    for run in runs:
        if _DIGEST in run.data.tags:
            children[run.data.tags.get(_PARENT, "")].append(run)
    parents = [run.info.run_id for run in runs if _DIGEST not in run.data.tags]
    if parents and parent not in parents:
        parent = max(parents, key=lambda one: (sum(map(_recorded, children[one])), len(children[one])))
    kept: dict[str, entities.Run] = {}
    # The sort is stable: the oldest stays first among equals.
    for run in sorted(children[parent], key=_recorded, reverse=True):
        digest = run.data.tags[_DIGEST]
        if digest not in kept or cells.get(digest) == run.info.run_id:
            kept[digest] = run
    return parent, kept


def _recorded(run: entities.Run) -> bool:
    return _RECORDED in run.data.tags


def _experiment(client: MlflowClient, store: TrackingStore) -> str:
    """Return the experiment of all sweeps; create it if necessary. Raises UserError if it was deleted."""
    name = experiment_name()
    found = client.get_experiment_by_name(name)
    if found is None:
        root = store.artifact_root
        try:
            return str(client.create_experiment(name, root.as_uri() if root is not None else None, _EXPERIMENT_TAGS))
        except MlflowException as error:
            # Another process has created it meanwhile, or the answer to our first request was lost.
            found = client.get_experiment_by_name(name) if error.error_code == "RESOURCE_ALREADY_EXISTS" else None
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        rule = f"must have the experiment {found.name!r}, which was deleted"
        remedy = f"run: mlflow experiments restore --experiment-id {found.experiment_id}, with MLFLOW_TRACKING_URI"
        raise broken_rule("tracking-uri", rule, store.shown, remedy)
    return str(found.experiment_id)


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


def _errors() -> tuple[type[Exception], ...]:
    """Return the errors of MLflow, databases and files, and of the storage libraries that MLflow has loaded."""
    loaded = [(sys.modules[module], names) for module, names in _STORES.items() if module in sys.modules]
    stores = [getattr(library, name) for library, names in loaded for name in names]
    return (MlflowException, SQLAlchemyError, OSError, *stores)
