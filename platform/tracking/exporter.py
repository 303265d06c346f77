"""Export of a sweep to MLflow: one parent run, and one nested run for each ended cell. Only the driver calls it."""

from __future__ import annotations

import getpass
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from mlflow import entities
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.environment_variables import set_environment
from dprl.platform.errors import broken_rule
from dprl.platform.reports.report import answer_of, leading_budget
from dprl.platform.reports.verdicts import VERDICTS, verdict_id, verdict_line
from dprl.platform.results.cell_folder import CellResults, DamagedCellError
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Group
from dprl.platform.results.inference import bands
from dprl.platform.results.layout import SweepCell
from dprl.platform.results.lock import FolderLock
from dprl.platform.results.summary import (
    by_seed,
    final_numbers,
    headline_numbers,
    horizon_of,
    is_result,
    privacy_columns,
    standing,
    unit_of,
)
from dprl.platform.tracking.store import TrackingStore, experiment_name, runs_path

_SWEEP, _SWEEP_ID, _DIGEST = "sweep", "sweep_id", "digest"
_RECORDED = "recorded"  # tag of a complete run: the end of its cell, so that a cell that ran again is written again
_FAILURE = "failure"
_NOTE, _PARENT = "mlflow.note.content", "mlflow.parentRunId"
_CERTIFICATE_HEADING, _ANSWER_HEADING = "### Certificate", "### Answer"
# Without it MLflow's pages may show the experiment as one of language models, without curves.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_METRICS_A_CALL, _PARAMETERS_A_CALL, _LONGEST_NOTE = 1000, 100, 8000  # MLflow's limits
_CURVE_POINTS = 40  # most points per curve in MLflow. Each costs a database row, and records.parquet has them all
_SILENT_SECONDS = 60.0  # after an error
_PATIENCE_SECONDS = 300.0  # timeout for other processes that create the database, on a busy machine
_STORES = {
    "boto3.exceptions": ("Boto3Error",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "google.api_core.exceptions": ("GoogleAPIError",),
    "azure.core.exceptions": ("AzureError",),
}
_SQLALCHEMY_ADVICE = "(raised as a result of Query-invoked autoflush"  # a line before the error itself
_KEYS = {"claimed_epsilon": "privacy/claimed_epsilon", "proved_epsilon": "privacy/certified_epsilon"}
"""Keys of a cell's constants; all others are in the groups `derived` and `reached`."""
_IDENTITY = {"Algorithm": "algorithm.name", "Epsilon": "privacy.epsilon", "Trust model": "privacy.model"}

SweepEntries = tuple[dict[str, float], str]
"""Entries of a sweep's own run: constants by their keys, and its description in Markdown."""


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
        self._failed = False
        self._experiment = self._parent = ""
        self._runs: dict[str, entities.Run] = {}
        """Runs of cells by digest."""
        self._unsent: dict[str, tuple[SweepCell, str]] = {}
        """Ended cells to be written, with the cause of a failure or ''."""
        self._silent_until = 0.0

    def open(self, fresh: bool) -> None:
        """Make the store's tables, and find or create the sweep's runs.

        The command that resumes the sweep is stored as a file, to check that files can be stored.
        Raises UserError for an unusable store.
        """
        if error := self._error(partial(self._open, fresh)):
            rule = f"must be usable by MLflow ({error})"
            raise broken_rule("tracking-uri", rule, self.store.shown, "check the address and its disk")

    def record(self, cell: SweepCell, cause: str = "") -> None:
        """Write the results of a finished cell, or a changed label, or the cause of its failure, now or later."""
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
        missed = self._send()
        return self._error(partial(self._end, files, counts, status, entries)) or missed

    def _send(self) -> str:
        """Write the cells that are not yet written, unless something failed a moment ago; return the first error."""
        if time.monotonic() < self._silent_until:
            return ""
        # After a failure the runs are read again: a request may have been answered, and the answer lost.
        first = self._error(self._find) if self._failed else ""
        for digest, (cell, cause) in list(self._unsent.items()) if not first else ():
            error = self._error(partial(self._fail, cell, cause) if cause else partial(self._record, cell))
            if not error:
                del self._unsent[digest]
            first = first or error
        if first:
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            if not self._failed:
                self._warn(f"MLflow: {first}; the rest is written later")
            self._failed = True
        return first

    def _open(self, fresh: bool) -> None:
        self.client = _client(self.store)
        self._experiment = _experiment(self.client, self.store)
        self.page = runs_path(self._experiment)
        if fresh:
            for run in self._search():
                self.client.delete_run(run.info.run_id)
        self._find()
        if not self._parent:
            self._parent = self._create_run(self._sweep[_SWEEP], {_NOTE: _sweep_note(self._command)}).info.run_id
        self.client.update_run(self._parent, status="RUNNING")
        # Report unwritable file storage now, not at the end of each cell.
        self.client.log_text(self._parent, f"{self._command}\n", "command.txt")

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
        ended, verdict = repr(results.finished_at), verdict_id(results.certificate)
        # The label has the claimed epsilon.
        name = cell.label if verdict in ("holds", "reference") else f"{cell.label} | {VERDICTS[verdict].word}"
        run = self._runs.get(cell.digest)
        if run is not None and run.data.tags.get(_RECORDED) == ended:
            if run.info.run_name != name:
                self.client.update_run(run.info.run_id, name=name)
            return
        run = self._cell_run(cell, name, "FINISHED", results.finished_at, results.seconds)
        note = f"{_CERTIFICATE_HEADING}\n\n**{verdict_line(results.certificate)}**"
        tags = cell_tags(results) | _note(run, note)
        self._log(run, cell_metrics(cell.experiment.metrics, results, horizon_of(cell.experiment)), tags)
        if _FAILURE in run.data.tags:
            self.client.delete_tag(run.info.run_id, _FAILURE)
        self._upload(run.info.run_id, cell.folder.artifacts())
        # Last, so that an interrupted call is repeated in full.
        self.client.set_tag(run.info.run_id, _RECORDED, ended)

    def _fail(self, cell: SweepCell, cause: str) -> None:
        run = self._cell_run(cell, cell.label, "FAILED", time.time(), 0.0)
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

    def _cell_run(self, cell: SweepCell, name: str, status: str, ended: float, seconds: float) -> entities.Run:
        """Return the cell's run with its parameters, ended with this status: no run is open longer than one request."""
        if cell.digest not in self._runs:
            tags = {_DIGEST: cell.digest, _PARENT: self._parent}
            self._runs[cell.digest] = self._create_run(name, tags, int((ended - seconds) * 1000))
        run = self._runs[cell.digest]
        self.client.set_terminated(run.info.run_id, status, int(ended * 1000))
        self.client.update_run(run.info.run_id, name=name)
        parameters = [entities.Param(key, str(value)) for key, value in cell_parameters(cell.experiment).items()]
        for start in range(0, len(parameters), _PARAMETERS_A_CALL):
            self.client.log_batch(run.info.run_id, params=parameters[start : start + _PARAMETERS_A_CALL])
        return run

    def _create_run(self, name: str, tags: dict[str, str], started_ms: int | None = None) -> entities.Run:
        # MLflow's columns "Created by" and "Source".
        tags = tags | self._sweep | {"mlflow.source.name": self._command, "mlflow.source.type": "LOCAL"}
        with suppress(OSError, KeyError, ImportError):  # a container may run as a number without a name
            tags["mlflow.user"] = getpass.getuser()
        return self.client.create_run(self._experiment, started_ms, tags, name)

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
    if before and not before.startswith((_CERTIFICATE_HEADING, _ANSWER_HEADING)):
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


def cell_metrics(metrics: Sequence[Metric], results: CellResults, horizon: float = math.inf) -> list[entities.Metric]:
    """Return the curves and the constants of a finished cell with these metrics, as points for MLflow.

    horizon: the largest number of steps of an episode; it bounds intervals of the headline.

    Curves are means over seeds with step = episode. They have at most `_CURVE_POINTS` points, half of them dense at the
    start like the records, and include the last episode. Headlines, sums and results also have the ends of their
    intervals. The seeds' own curves are an artifact. Constants are at step 0: the headline of the whole run, medians,
    halving, epsilons, derived numbers and the compute time; infinite values are omitted.

    The part of a key before the slash is its group, a section of MLflow's charts. Sections and axes of the compare page
    are in alphabetical order, so the headline's group `cell` is the first.

    The time stamp is the end of the cell. MLflow stores equal points once, so writing twice changes nothing.
    """
    stamp = int(results.finished_at * 1000)
    points = [entities.Metric(key, value, stamp, step) for key, value, step in _curve_points(metrics, results.records)]
    constants = {key: value for key, value in _constants(metrics, results, horizon).items() if np.isfinite(value)}
    # At step 0: MLflow draws a bar chart of a metric without later steps, and a line chart of any other.
    return points + [entities.Metric(key, value, stamp, 0) for key, value in constants.items()]


def _curve_points(metrics: Sequence[Metric], records: pd.DataFrame) -> Iterator[tuple[str, float, int]]:
    """Yield key, value and episode of every finite point; a median has no curve, as its interval is not Student's."""
    medians = {metric.name for metric in metrics if metric.across == "median"}
    shown = {one.name for one in metrics if one.headline or one.over == "sum" or is_result(one)}
    for column in records.columns.drop(["seed", "episode", *medians]):
        episodes, values = by_seed(records, column)
        # Evenly spaced points, including the first and the last.
        count = min(len(episodes), _CURVE_POINTS)
        kept = np.unique(np.linspace(0, len(episodes) - 1, count).round().astype(int))
        mean, half = (found[kept] for found in bands(values))
        ends = {f"curve/{column}": mean}
        if column in shown:
            ends |= {f"interval/{column}_lower": mean - half, f"interval/{column}_upper": mean + half}
        for key, points in ends.items():
            for episode, value in zip(episodes[kept], points, strict=True):
                if np.isfinite(value):
                    yield key, float(value), int(episode)


def _constants(metrics: Sequence[Metric], results: CellResults, horizon: float) -> dict[str, float]:
    """Return the numbers of a cell that have no curve, by their keys in MLflow."""
    constants = {"time/seconds": results.seconds}
    # MLflow draws a chart for each, so the other proved numbers are in certificate.json only.
    left_out = privacy_columns(results.certificate).keys() - _KEYS.keys()
    for name, number in final_numbers(metrics, results).items():
        if number is not None and name not in left_out:
            group = "derived" if name.startswith("derived_") else "reached"
            constants[_KEYS.get(name, f"{group}/{name.removeprefix('derived_')}")] = float(number)
    headlines = headline_numbers(metrics, results.records, horizon)
    return constants | {f"cell/{name}": float(number) for name, number in headlines.items()}


def cell_parameters(experiment: Experiment) -> dict[str, Scalar]:
    """Return the settings under their dotted paths, preceded by the identifying ones.

    MLflow's compare page sorts parameters by their characters, capitals first, and plots the first three that differ.
    """
    settings = experiment.parameters()
    known = {name: settings[key] for name, key in _IDENTITY.items() if key in settings}
    if unit_of([settings]) == "user":
        known["Users"] = settings["episodes"]
    return known | settings


def cell_tags(results: CellResults) -> dict[str, str]:
    """Return the search tags: algorithm, trust model, verdict, certified epsilon and theorem."""
    stands = standing(results.certificate)
    return {
        "algorithm": results.certificate["algorithm"],
        "trust_model": results.certificate["trust_model"],
        "verdict": stands.verdict,
        "proved_epsilon": f"{stands.proved:.6g}",
        "theorem": results.theorem or "none",
    }


def sweep_entries(groups: Sequence[Group], command: str) -> SweepEntries:
    """Return the entries of a sweep with these groups of finished cells; `command` resumes it.

    The metrics `best/MODEL/...` are the headline, as mean over seeds, and the certified epsilon of each trust model's
    best cell, of several environments in the first; `best/...` are those of the cell in the report's first sentence, if
    there is one, else of the best cell. A private cell without a finite certified epsilon is never the best.
    """
    metrics = dict[str, float]()
    first = next((group for group in groups if group.metric is not None), None)
    best, cells = dict[str, Cell](), first.cells if first else ()
    for model in dict.fromkeys(cell.model for cell in cells):
        fit = [cell for cell in cells if cell.model == model and (cell.certified or not cell.private)]
        best |= {model: fit[0]} if fit else {}
    for model, cell in best.items():
        metrics |= _numbers(f"best/{model}", cell)
    named = leading_budget(groups)
    if named is not None and named.place is not None:
        metrics |= _numbers("best", named.cell)
    elif best:
        metrics |= _numbers("best", next(iter(best.values())))
    answer = answer_of(groups)
    return metrics, _sweep_note(command, f"**{answer}.**") if answer else _sweep_note(command)


def _numbers(folder: str, cell: Cell) -> dict[str, float]:
    """Return the finite numbers of a best cell by their keys."""
    if cell.metric is None:
        return {}
    numbers = {f"{folder}/{cell.metric.name}": float(cell.finals.mean())}
    if cell.private:
        numbers[f"{folder}/certified_epsilon"] = cell.proved
    return {key: number for key, number in numbers.items() if math.isfinite(number)}


def _sweep_note(command: str, answer: str = "No cell is finished that could be compared.") -> str:
    """Return the description of a sweep that `command` resumes."""
    return f"{_ANSWER_HEADING}\n\n{answer}\n\nThis command resumes or repeats the sweep:\n\n    {command}\n"
