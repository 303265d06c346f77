"""Export of a sweep to MLflow: one parent run, and one nested run for each ended cell. Only the driver calls it."""

from __future__ import annotations

import getpass
import logging
import sys
import time
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
from dprl.platform.results.cell_folder import DamagedCellError
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
_FAILURE, _EARLIER = "failure", "earlier: "
_NOTE, _PARENT = "mlflow.note.content", "mlflow.parentRunId"
# Without it MLflow's pages may show the experiment as one of language models, without curves.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_METRICS_A_CALL, _PARAMETERS_A_CALL, _LONGEST_NOTE = 1000, 100, 8000
"""MLflow's limits."""
_SILENT_SECONDS = 60.0
"""After an error."""
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

    An error is warned of once. The cell is written again with the next one a minute later, by `close`, or by the next
    sweep: its files have all data.

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
        self._failed = self._away = False
        self._experiment = self._parent = ""
        self._runs: dict[str, entities.Run] = {}
        """Runs of cells by digest."""
        self._texts: list[str] = []
        """Parameters that are texts in some cell."""
        self._unsent: dict[str, tuple[SweepCell, str]] = {}
        """Ended cells to be written, with the cause of a failure or ''."""
        self._silent_until = 0.0

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

    def record(self, cell: SweepCell) -> None:
        """Write the results of a finished cell, or a changed label, now or later."""
        self._unsent[cell.digest] = (cell, "")
        self._send()

    def fail(self, cell: SweepCell, cause: str) -> None:
        """Write that a cell failed, now or later."""
        self._unsent[cell.digest] = (cell, cause)
        self._send()

    def close(
        self, files: Sequence[Path], counts: Mapping[str, int], status: str, entries: SweepEntries | None = None
    ) -> str:
        """Write what is missing, and the sweep's own run with its files and entries; return the first error, or ''.

        counts: become tags, because each metric would be a chart with one bar.
        """
        if not self._parent:
            return ""  # `open` did not come so far
        self._silent_until, self._failed = 0.0, True  # an interrupted call may have left a run open
        found = self._send()
        return found if self._away else self._error(partial(self._end, files, counts, status, entries)) or found

    def _send(self) -> str:
        """Write the cells that are not yet written, unless something failed a moment ago; return the first error."""
        if time.monotonic() < self._silent_until:
            return ""
        # After a failure the runs are read again: a request may have been answered, and the answer lost.
        first = self._error(self._find) if self._failed else ""
        self._away = bool(first)
        for digest, (cell, cause) in list(self._unsent.items()) if not first else ():
            error = self._error(partial(self._fail, cell, cause) if cause else partial(self._record, cell))
            if not error:
                del self._unsent[digest]
                continue
            first = first or error
            self._away = bool(self._error(lambda: self.client.search_experiments(max_results=1)))
            if self._away:  # each further attempt would take seconds
                break
        if first:
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            if not self._failed:
                self._warn(f"MLflow: {first}; the rest is written later")
            self._failed = True
        return first

    def _open(self, grid: set[str], fresh: bool) -> None:
        self.client = _client(self.store)
        self._experiment = _experiment(self.client, self.store)
        self.page = runs_path(self._experiment)
        if fresh:
            for run in self._search():
                self.client.delete_run(run.info.run_id)
        self._find()
        if not self._parent:
            self._parent = self._create_run(self._sweep[_SWEEP], {_NOTE: unfinished_note(self._command)}).info.run_id
        self.client.update_run(self._parent, status="RUNNING")
        # Report unwritable file storage now, not at the end of each cell.
        self.client.log_text(self._parent, f"{self._command}\n", "command.txt")
        for digest, run in self._runs.items():
            # The names of cells with other settings may equal those of the grid. `_describe` takes this back.
            if digest not in grid and not run.info.run_name.startswith(_EARLIER):
                self.client.update_run(run.info.run_id, name=_EARLIER + run.info.run_name)

    def _search(self) -> list[entities.Run]:
        """Return the sweep's runs."""
        runs = list[entities.Run]()
        token: str | None = ""
        chosen = f"tags.{_SWEEP_ID} = '{self._sweep[_SWEEP_ID]}'"
        while token is not None:
            page = self.client.search_runs([self._experiment], chosen, max_results=1000, page_token=token or None)
            runs += page
            token = page.token or None
        return runs

    def _find(self) -> None:
        """Find the sweep's own run, and those of its cells, which end with the process that wrote them."""
        for run in self._search():
            if _DIGEST not in run.data.tags:
                self._parent = run.info.run_id
                continue
            self._runs[run.data.tags[_DIGEST]] = run
            if run.info.status == "RUNNING":
                self.client.set_terminated(run.info.run_id, "KILLED")

    def _record(self, cell: SweepCell) -> None:
        results = cell.folder.results()
        ended = repr(results.finished_at)
        stands = failing_claim(results.certificate)
        name = f"{cell.label} | {stands}" if stands else cell.label  # the label has the claimed epsilon
        run = self._runs.get(cell.digest)
        if run is None or run.data.tags.get(_RECORDED) != ended:
            run = self._cell_run(cell, "FINISHED", results.finished_at, results.seconds)
            tags = cell_tags(results) | _note(run, certificate_note(results.certificate))
            self._log(run, cell_metrics(cell.experiment.metrics, results, horizon_of(cell.experiment)), tags)
            if _FAILURE in run.data.tags:
                self.client.delete_tag(run.info.run_id, _FAILURE)
            self._upload(run.info.run_id, cell.folder.artifacts())
            self._describe(run, cell, name)
            # Last, so that an interrupted call is repeated in full.
            self.client.set_tag(run.info.run_id, _RECORDED, ended)
        else:
            self._describe(run, cell, name)

    def _fail(self, cell: SweepCell, cause: str) -> None:
        run = self._cell_run(cell, "FAILED", time.time(), 0.0)
        self._describe(run, cell, cell.label)
        if _RECORDED in run.data.tags:
            self.client.delete_tag(run.info.run_id, _RECORDED)
        self.client.set_tag(run.info.run_id, _FAILURE, cause[:500])

    def _end(self, files: Sequence[Path], counts: Mapping[str, int], status: str, entries: SweepEntries | None) -> None:
        # First, so that the run does not stay open because of a refused number.
        self.client.set_terminated(self._parent, status=status)
        self._upload(self._parent, files)
        run = self.client.get_run(self._parent)
        constants, note = ({}, "") if entries is None else entries
        stamp = int(time.time() * 1000)
        changed = {key: value for key, value in constants.items() if run.data.metrics.get(key) != value}
        tags = {name: str(count) for name, count in counts.items()} | (_note(run, note) if note else {})
        self._log(run, [entities.Metric(key, value, stamp, 0) for key, value in changed.items()], tags)

    def _cell_run(self, cell: SweepCell, status: str, ended: float, seconds: float) -> entities.Run:
        """Return the cell's run, ended with this status: no run is open longer than one request."""
        if cell.digest not in self._runs:
            tags = {_DIGEST: cell.digest, _PARENT: self._parent}
            self._runs[cell.digest] = self._create_run(cell.label, tags, int((ended - seconds) * 1000))
        run = self._runs[cell.digest]
        self.client.set_terminated(run.info.run_id, status, int(ended * 1000))
        return run

    def _create_run(self, name: str, tags: dict[str, str], started_ms: int | None = None) -> entities.Run:
        # MLflow's columns "Created by" and "Source".
        tags = tags | self._sweep | {"mlflow.source.name": self._command, "mlflow.source.type": "LOCAL"}
        with suppress(OSError, KeyError, ImportError):  # a container may run as a number without a name
            tags["mlflow.user"] = getpass.getuser()
        return self.client.create_run(self._experiment, started_ms, tags, name)

    def _describe(self, run: entities.Run, cell: SweepCell, name: str) -> None:
        """Write the run's name, and parameters that it lacks: if the grid has grown, more of them vary.

        A text that only other cells have is 'none' here, not 'unknown'. A number stays away instead: with one text
        among its values, MLflow's plots would sort them all as texts.
        """
        if run.info.run_name != name:
            self.client.update_run(run.info.run_id, name=name)
        settings = dict.fromkeys(self._texts, "none") | cell_parameters(cell.experiment)
        missing = [entities.Param(key, str(value)) for key, value in settings.items() if key not in run.data.params]
        for start in range(0, len(missing), _PARAMETERS_A_CALL):
            self.client.log_batch(run.info.run_id, params=missing[start : start + _PARAMETERS_A_CALL])

    def _log(self, run: entities.Run, metrics: Sequence[entities.Metric], tags: Mapping[str, str]) -> None:
        """Write metrics and tags in as few requests as MLflow allows."""
        for start in range(0, len(metrics), _METRICS_A_CALL):
            self.client.log_batch(run.info.run_id, metrics[start : start + _METRICS_A_CALL])
        self.client.log_batch(run.info.run_id, tags=[entities.RunTag(key, value) for key, value in tags.items()])

    def _upload(self, run: str, files: Sequence[Path]) -> None:
        """Upload files; those below the folder of the first one keep their relative paths."""
        for file in files:
            inside = file.parent.relative_to(files[0].parent).as_posix()
            self.client.log_artifact(run, str(file), None if inside == "." else inside)

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


def _note(run: entities.Run, text: str) -> dict[str, str]:
    """Return the tag with the description of a run; {} if a user has written another one."""
    before = run.data.tags.get(_NOTE, "")
    if before and not before.startswith((CERTIFICATE_HEADING, ANSWER_HEADING)):
        return {}
    return {_NOTE: text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."}


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
