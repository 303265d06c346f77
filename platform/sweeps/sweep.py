"""A grid of cells, from wherever an earlier call left it, to its table, its figure and its runs in MLflow."""

from __future__ import annotations

import dataclasses
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from dprl.algorithms import Metric
from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment
from dprl.platform.environment_variables import cpu_limit, set_environment
from dprl.platform.errors import UserError, broken_rule, counted
from dprl.platform.program import command
from dprl.platform.reports.records import block_column, summary_row
from dprl.platform.reports.sweep_figures import SWEEP_FIGURES, sweep_figures, wanted_curves
from dprl.platform.sweeps.atomic_files import write_bytes, write_json, write_text
from dprl.platform.sweeps.cell_folder import CellResults
from dprl.platform.sweeps.execution import CELL_ERRORS, run_in_process
from dprl.platform.sweeps.layout import SweepCell, SweepLayout
from dprl.platform.sweeps.progress import ProgressDisplay, progress_display
from dprl.platform.tracking.store import TrackingError, TrackingStore
from dprl.privacy.compiled import prepared_folder

_CONNECT_SECONDS = 10.0
_NOTICED_SECONDS, _LOADING_SECONDS = 1.0, 5.0
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = b"\4"
"""RFC 9113: what a client says first, with empty settings, and the kind of frame (its fourth byte) that answers."""


@dataclass(frozen=True)
class SweepOptions:
    """How to run a sweep. None of this changes its results.

    name: names the folder and the MLflow parent run. home: where all state lives.
    executor: 'process' runs the cells one after the other in this process, 'tune' as Ray Tune trials.
    address: of a running Ray cluster, or None for this machine.
    tracking_uri: of MLflow, or None for a database in `home`. fresh: forget what earlier calls did.
    command: what the user typed, for messages. Raises UserError.
    """

    name: str
    home: Path
    executor: Literal["process", "tune"]
    address: str | None
    tracking_uri: str | None
    fresh: bool
    command: str

    def __post_init__(self) -> None:
        if self.address is not None and self.executor != "tune":
            raise broken_rule("address", "is only for a sweep on Ray", self.address, f"use `{command('sweep')}`")


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left: one summary row a finished cell, one line a failed one, and where both are."""

    summary: pd.DataFrame
    failed: list[str]
    folder: Path
    tracking_uri: str


def run_sweep(cells: Sequence[Experiment], options: SweepOptions) -> SweepResult:
    """Run what is not finished yet of `cells` and report on all of them.

    Raises UserError when the sweep cannot start, also because another process runs it, and KeyboardInterrupt
    when the user stops it; a cell that fails is reported in the result.
    """
    home = options.home.resolve()
    layout = SweepLayout(home, options.name)
    store = TrackingStore.choose(home, options.tracking_uri)
    if not cells:
        raise UserError("config: the grid expands to nothing: give every grid_search at least one value")
    cpu_limit()
    store.require_reachable()
    set_environment()
    with _joined(options.address, home, store):
        _make_home(home)
        display = progress_display()
        with layout.lock():
            try:
                return _Sweep(layout, store, display, options).run(layout.cells(cells))
            except KeyboardInterrupt:
                display.close()
                display.say(f"interrupted; what is done is kept, resume with: {options.command}")
                raise
            finally:
                display.close()


@contextmanager
def _joined(address: str | None, home: Path, store: TrackingStore) -> Iterator[None]:
    """Join the Ray cluster at `address`, if there is one, and see that its nodes share what they must.

    Raises UserError, before anything is written.
    """
    if address is None:
        yield
        return
    _require_reachable(address)
    # Loaded only here: importing Ray takes seconds, and needs its environment set before.
    from dprl.platform.sweeps.cluster import connected  # noqa: PLC0415
    from dprl.platform.sweeps.shared_storage import living_nodes, require_shared  # noqa: PLC0415

    with connected(address):
        store.require_server_for(len(living_nodes()))
        require_shared(home)
        yield


def _make_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"the folder of all results must be one that can be made ({error.strerror})"
        raise broken_rule("$DPRL_HOME or --storage", rule, str(home), "choose another folder") from None


class _Sweep:
    """One call of `run_sweep`; as the executors' Listener it records each cell as it ends."""

    def __init__(
        self, layout: SweepLayout, store: TrackingStore, display: ProgressDisplay, options: SweepOptions
    ) -> None:
        self.layout = layout
        self.display = display
        self.options = options
        # Loaded only here: importing MLflow takes seconds, and needs its environment set before.
        from dprl.platform.tracking.tracker import Tracker  # noqa: PLC0415

        self.tracker = Tracker(store, options.name, options.command)
        self.failures: dict[str, str] = {}
        self.tracking_failures: list[str] = []
        self._started: dict[str, float] = {}
        self._rows: dict[str, dict[str, object]] = {}
        self._curves: dict[str, dict[str, pd.DataFrame]] = {}

    def run(self, cells: Sequence[SweepCell]) -> SweepResult:
        """Bring all cells to their end, then write the sweep's own files."""
        if self.options.fresh:
            deleted = self.layout.delete_cells()
            self.display.say(f"starting afresh: {counted(deleted, 'cell')} of earlier calls deleted")
        self.display.say(f"opening MLflow at {self.tracker.store.uri}")
        self.tracker.open(cells, self.options.fresh)
        done = [cell for cell in cells if cell.finished]
        todo = [cell for cell in cells if not cell.finished]
        # Also at the start: a call that is killed writes nothing at its end.
        self._write_status(cells)
        if done:
            self.display.say(f"{len(done)} of {counted(len(cells), 'cell')} finished already")
        status = "KILLED"
        try:
            for cell in done:
                self._record(cell, self._results(cell))
            if todo:
                self._execute(todo)
            status = "FAILED" if self.failures else "FINISHED"
        finally:
            self.display.close()
            result = self._conclude(cells, status)
        return result

    def started(self, cell: SweepCell) -> None:
        """Begin the cell's run in MLflow."""
        self._started[cell.digest] = time.monotonic()
        try:
            self.tracker.begin(cell)
        except TrackingError as error:
            self._note_tracking(error)

    def advanced(self, cell: SweepCell, fraction: float) -> None:
        """Show how far the cell is."""
        self.display.advanced(cell.label, fraction)

    def finished(self, cell: SweepCell) -> None:
        """Record the cell and show what it learned."""
        seconds = time.monotonic() - self._started[cell.digest]
        results = self._results(cell)
        learned = _first_and_last(cell.experiment.algorithm.metrics, results.records)
        self.display.ended(cell.label, f"done in {seconds:.1f} s{learned}")
        self._log_path(cell).unlink(missing_ok=True)
        self._record(cell, results)

    def failed(self, cell: SweepCell, cause: str, trace: str) -> None:
        """Keep the cell's story in a log, and go on."""
        log = self._log_path(cell)
        write_text(log, f"{cell.label}\n{cell.experiment.to_yaml()}\n{trace}\n")
        self.failures[cell.digest] = f"{cell.label}: {cause} (log: {log})"
        self.display.ended(cell.label, f"FAILED: {cause} (log: {log})")
        try:
            self.tracker.fail(cell, cause)
        except TrackingError as error:
            self._note_tracking(error)

    def _execute(self, todo: Sequence[SweepCell]) -> None:
        if self.options.executor == "process":
            self._compile(todo)
            self._begin(todo, "in this process")
            run_in_process(todo, self)
            return
        # Loaded only here: importing Ray takes seconds, and needs its environment set before.
        from dprl.platform.sweeps.cluster import connected, run_on_ray  # noqa: PLC0415

        self._compile(todo)
        where = "on this machine" if self.options.address is None else f"at {self.options.address}"
        self.display.say(f"starting Ray {where} ...")
        with connected(self.options.address) as cluster:
            self._begin(todo, f"on {counted(cluster.n_cpus, 'CPU')}")
            run_on_ray(cluster, todo, self.layout.home / "tune", self)

    def _begin(self, todo: Sequence[SweepCell], where: str) -> None:
        seeds = sum(cell.experiment.seeds for cell in todo)
        self.display.say(f"running {counted(len(todo), 'cell')} ({counted(seeds, 'seed')}) {where}")
        self.display.begin(len(todo))

    def _compile(self, todo: Sequence[SweepCell]) -> None:
        """Compile here, once, what every worker then loads from the cache on disk."""
        cold = not kernels_are_cached()
        if cold:
            self.display.say("compiling the learning loop (once per machine and code version) ...")
        begin = time.monotonic()
        for experiment in _one_of_each_kind(todo):
            tiny = dataclasses.replace(experiment, episodes=2, seeds=1)
            try:
                tiny.build(0).learn(2)
            except CELL_ERRORS:
                # Its cell fails in the same way, and is then reported under its name.
                continue
        seconds = time.monotonic() - begin
        if cold or seconds > _NOTICED_SECONDS:
            # What was compiled may not have been the loop, but what a certificate needs.
            done = "compiled" if cold or seconds > _LOADING_SECONDS else "loaded compiled code"
            self.display.say(f"{done} in {seconds:.1f} s")

    def _results(self, cell: SweepCell) -> CellResults:
        """Read a finished cell, and keep its row of the summary and the curves that figures need."""
        results = cell.folder.results()
        row = summary_row(cell.experiment, results)
        self._rows[cell.digest] = {"label": cell.label, **row, "seconds": results.seconds}
        self._curves[cell.digest] = wanted_curves(cell.experiment.algorithm.metrics, results.records)
        return results

    def _record(self, cell: SweepCell, results: CellResults) -> None:
        try:
            self.tracker.record(cell, results)
        except TrackingError as error:
            self._note_tracking(error)

    def _note_tracking(self, error: TrackingError) -> None:
        line = f"MLflow: {error}; nothing is lost, the same command writes it later: {self.options.command}"
        if line not in self.tracking_failures:
            self.tracking_failures.append(line)
            self.display.say(line)

    def _conclude(self, cells: Sequence[SweepCell], status: str) -> SweepResult:
        finished = [cell for cell in cells if cell.finished]
        if finished:
            self.display.say("writing summary.csv and figures, and all to MLflow")
        else:
            self.display.say("no finished cell: nothing to summarise")
        for cell in finished:
            if cell.digest not in self._rows:
                self._results(cell)
        summary = pd.DataFrame([self._rows[cell.digest] for cell in finished])
        files: list[Path] = []
        if finished:
            files = [self.layout.summary_file, *self._draw(summary)]
            write_text(files[0], summary.to_csv(index=False))
        counts = self._write_status(cells)
        try:
            self.tracker.close(files, counts, status)
        except TrackingError as error:
            self._note_tracking(error)
        self._say_where(files)
        return SweepResult(
            summary=summary,
            failed=[*self.failures.values(), *self.tracking_failures],
            folder=self.layout.folder,
            tracking_uri=self.tracker.store.uri,
        )

    def _draw(self, summary: pd.DataFrame) -> list[Path]:
        """Write the figures, and remove those that an earlier grid had."""
        drawn = sweep_figures(summary, self._curves)
        for figure in SWEEP_FIGURES:
            file = self.layout.folder / figure.file
            if figure.file in drawn:
                write_bytes(file, drawn[figure.file])
            else:
                file.unlink(missing_ok=True)
        return [self.layout.folder / name for name in drawn]

    def _write_status(self, cells: Sequence[SweepCell]) -> dict[str, int]:
        """Write how far the sweep is, with the command that resumes it, and return the counts."""
        finished = sum(cell.finished for cell in cells)
        counts = {"cells": len(cells), "cells_finished": finished, "cells_failed": len(self.failures)}
        write_json(self.layout.status_file, {**counts, "command": self.options.command})
        return counts

    def _say_where(self, files: Sequence[Path]) -> None:
        self.display.say(f"results   {self.layout.folder}")
        for file in files:
            self.display.say(f"          {file}")
        ui = command("ui") if self.options.tracking_uri is None else f"mlflow at {self.tracker.store.uri}"
        self.display.say(f"MLflow    {ui}: experiment 'dprl', run {shlex.quote(self.layout.name)}")

    def _log_path(self, cell: SweepCell) -> Path:
        return self.layout.folder / "logs" / f"{cell.digest}.txt"


def kernels_are_cached() -> bool:
    """Whether compiled code of this version is on the disk, so that nothing has to be waited for."""
    return next(Path(prepared_folder()).rglob("*.nbc"), None) is not None


def _require_reachable(address: str) -> None:
    """Raise UserError if no gRPC server listens at `address`, host:port or ray://host:port: Ray tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        return  # 'auto', which Ray looks up itself
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_HTTP2_GREETING)
                answer = connection.recv(9)
                if answer[3:4] != _HTTP2_SETTINGS:
                    raise ConnectionError("what listens there is not Ray")
    except (OSError, ValueError, OverflowError) as error:
        rule, remedy = f"must be where Ray listens ({error})", "check it with `ray status --address ADDR`"
        raise broken_rule("address", rule, address, remedy) from error


def _one_of_each_kind(cells: Sequence[SweepCell]) -> list[Experiment]:
    """One experiment for each combination of named parts; sizes and scales do not need code of their own."""
    kinds: dict[frozenset[tuple[str, object]], Experiment] = {}
    for cell in cells:
        parts = frozenset(item for item in cell.experiment.parameters().items() if isinstance(item[1], str))
        kinds.setdefault(parts, cell.experiment)
    return list(kinds.values())


def _first_and_last(metrics: Sequence[Metric], records: pd.DataFrame) -> str:
    """Return what is told of the headline in the first block and in the last, '' if there is none."""
    metric = headline(metrics)
    if metric is None:
        return ""
    means = records.groupby("episode")[block_column(metric)].mean()
    name = f"{metric.label}/episode" if metric.over == "sum" else metric.label
    return f", {name} {means.iloc[0]:.3g} -> {means.iloc[-1]:.3g}"
