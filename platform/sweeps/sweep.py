"""Sweep over a grid of cells: resumes earlier calls, and writes table, figures, report and MLflow runs."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from dprl.atomic_files import write_json, write_text
from dprl.compiled import cache_is_empty, compilations
from dprl.platform.configs.experiment import Experiment
from dprl.platform.environment_variables import cpu_limit, set_environment
from dprl.platform.errors import Interrupted, UserError, broken_rule, counted, how_to_resume, missing_extra
from dprl.platform.program import command, sigterm_as_ctrl_c
from dprl.platform.ray_token import require_reachable
from dprl.platform.results.cell_folder import CellResults, DamagedCellError
from dprl.platform.results.home import storage_words
from dprl.platform.results.layout import Grid, SweepCell, SweepLayout, lost_charges, require_name
from dprl.platform.results.summary import summary_row
from dprl.platform.sweeps.cell import CELL_ERRORS, LockedCell, cause_of, second_release
from dprl.platform.sweeps.events import CellEvent, RayLostError
from dprl.platform.sweeps.progress import ProgressDisplay
from dprl.platform.tracking.store import TrackingStore, experiment_name

if TYPE_CHECKING:
    from dprl.platform.sweeps.ray_process import RayProcess
    from dprl.platform.tracking.exporter import Exporter, SweepEntries

ExecutorName = Literal["process", "tune"]
DEFAULT_RESTARTS = 3
"""Finite, because a cell that needs too much memory dies each time."""
SECONDS = "seconds"
"""Column that the terminal shows and the file lacks: all other columns are equal in every run."""

_UNSEEN_SECONDS = 90.0
"""For the files of a cell that another node has finished: NFS remembers for up to a minute that a file was not there,
and this process has looked for them at the start."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep. None of them changes its results.

    name: names the folder and the MLflow parent run. home: folder of all results.
    executor: 'process' runs the cells one after the other in this process, 'tune' as Ray Tune trials.
    address: of a running Ray cluster, or None for this machine.
    tracking_uri: of MLflow, or None for a database in `home`. fresh: delete the results of earlier calls.
    command: the user's words, for messages. quiet: show only problems meanwhile.
    max_restarts: how often a cell may continue in another process after its process or node is lost, -1: no limit.
    most_cpus: CPUs that cells may use at most, at least one each.

    Raises UserError.
    """

    name: str
    home: Path
    executor: ExecutorName
    address: str | None
    tracking_uri: str | None
    fresh: bool
    command: str
    quiet: bool = False
    max_restarts: int = DEFAULT_RESTARTS
    most_cpus: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and self.executor != "tune":
            raise broken_rule("address", "is only for a sweep on Ray", self.address, f"use `{command('sweep')}`")


@dataclass(frozen=True)
class SweepResult:
    """Results of a sweep.

    summary: one row per finished cell. failed: one line per failed cell. unwritten: one line per file, or for MLflow,
    that could not be written; no result is lost.
    """

    summary: pd.DataFrame
    failed: list[str]
    unwritten: list[str]
    folder: Path
    tracking_uri: str


def run_sweep(cells: Sequence[Experiment], options: SweepOptions) -> SweepResult:
    """Run the unfinished cells of `cells` and report on all of them.

    A failed cell is reported in the result. Raises UserError if the sweep cannot start, for example because another
    process runs it or its name has another grid; earlier results are then unchanged. Raises Interrupted if the user
    stops it, and KeyboardInterrupt if nothing was shown before that.
    """
    layout = SweepLayout(options.home.resolve(), options.name)
    store = TrackingStore.choose(layout.home, options.tracking_uri)
    if not cells:
        raise UserError("config: the grid expands to nothing: give every grid_search at least one value")
    cpu_limit()
    store.require_reachable()
    set_environment()
    layout.require_no_links([cell.digest for cell in cells])
    with sigterm_as_ctrl_c(), ExitStack() as until_done:
        ray = None
        if options.address is not None:  # its nodes are checked before anything is written
            ray = until_done.enter_context(_ray_process(options.address, layout.home))
            store.require_server_for(ray.cluster.n_nodes)
        lock = layout.lock()
        with _writing(layout):
            layout.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        until_done.callback(lock.release)
        grid = Grid.of(cells)
        require_name(layout, cells, grid, options.fresh)
        for cell in layout.cells(cells) if options.fresh else ():
            if lost := lost_charges(cell, fresh=True):  # it would delete the certificate of users without a journal
                raise UserError(f"{cell.label}: {lost}")
        display = ProgressDisplay(options.quiet, log=layout.log_file)
        try:
            return _Sweep(layout, store, display, options).run(layout.cells(cells), grid, ray)
        except KeyboardInterrupt:
            display.warn(how_to_resume(options.command))
            raise Interrupted from None


def _ray_process(address: str | None, home: Path) -> RayProcess:
    """Return the process that talks to Ray. Raises UserError without Ray, or if none listens at the address."""
    if importlib.util.find_spec("ray") is None:
        raise missing_extra(ModuleNotFoundError(name="ray"))
    if address is not None:
        require_reachable(address)
    from dprl.platform.sweeps.ray_process import RayProcess  # noqa: PLC0415 - `dprl run` needs none of it

    return RayProcess(address, home)


@contextmanager
def _writing(layout: SweepLayout) -> Iterator[None]:
    """Raise UserError for a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        rule = f"the folder of all results must be one that can be written ({error.strerror})"
        remedy = "free it, or choose another folder"
        raise broken_rule("$DPRL_HOME or --storage", rule, str(layout.home), remedy) from None


class _Sweep:
    """One call of `run_sweep`."""

    exporter: Exporter

    def __init__(
        self, layout: SweepLayout, store: TrackingStore, display: ProgressDisplay, options: SweepOptions
    ) -> None:
        self.layout = layout
        self.store = store
        self.display = display
        self.options = options
        self._rows: dict[str, dict[str, object]] = {}
        """Rows of the summary by cell."""
        self.failures: dict[str, str] = {}
        """A line for each cell that failed."""
        self.unwritten: list[str] = []
        """A line for each file that could not be written."""

    def run(self, cells: Sequence[SweepCell], grid: Grid, ray: RayProcess | None) -> SweepResult:
        """Run all cells to their end, then write the sweep's own files. ray: a cluster that was joined already."""
        done, todo = self._done_and_todo(cells)
        lost, status = "", "KILLED"
        with ExitStack() as until_done:
            if ray is None and todo and self.options.executor == "tune":
                self.display.say("starting Ray on this machine ...")
                ray = _ray_process(None, self.layout.home)
            if ray is not None:
                until_done.enter_context(ray)  # cells must not go on while their results are summed up
            self._begin(grid, todo, ray)
            # Also at the start, because a killed call writes nothing at its end.
            self._write_status(cells)
            for line in self.failures.values():
                self.display.warn(f"REFUSED: {line}")
            if done:
                self.display.say(f"{len(done)} of {counted(len(cells), 'cell')} finished already")
            try:
                for cell in done:
                    # Left by a kill between marker and removal; under jdp it has exact counts.
                    cell.folder.state_file.unlink(missing_ok=True)
                    self.exporter.record(cell)
                if todo:
                    self._execute(todo, ray)
                status = "FAILED" if self.failures else "FINISHED"
            except RayLostError as error:
                lost = f"{error}; what is done is kept, resume with: {self.options.command}"
                self.display.warn(f"{error}; writing the results so far, and exiting")
            except KeyboardInterrupt:
                self.display.warn("interrupted: stopping, then writing what is done ...")
                raise
            finally:
                try:
                    until_done.close()
                    shutil.rmtree(self.layout.tune_folder, ignore_errors=True)
                finally:
                    # Also if Ctrl-C is pressed again while Ray stops.
                    result = self._conclude(cells, status, lost)
        return result

    def _done_and_todo(self, cells: Sequence[SweepCell]) -> tuple[list[SweepCell], list[SweepCell]]:
        """Return the cells that earlier calls finished, and those to be run, including damaged ones.

        A damaged cell that cannot be repeated with the same result is in neither list: it fails.
        """
        done, todo = list[SweepCell](), list[SweepCell]()
        for cell in cells:
            try:
                if not self.options.fresh:
                    if not cell.experiment.resumable or cell.folder.finished:
                        cell.folder.require_whole()
                    if lost := lost_charges(cell, fresh=False):
                        self.failures[cell.digest] = f"{cell.label}: {lost}"
                        continue
                    if cell.finished:
                        self._read(cell)
                        done.append(cell)
                        continue
            except DamagedCellError as error:
                if not cell.experiment.resumable:
                    self.failures[cell.digest] = f"{cell.label}: {second_release(error.cause, cell.folder.path)}"
                    continue
                self.display.warn(f"{cell.label}: runs again, its files cannot be read ({error.cause})")
            todo.append(cell)
        return done, todo

    def _begin(self, grid: Grid, todo: Sequence[SweepCell], ray: RayProcess | None) -> None:
        """Open MLflow and wait for Ray, then take over the sweep's folder: write its grid, delete outdated results.

        A failure in between changes no result and leaves no MLflow run open. Raises UserError.
        """
        layout, fresh = self.layout, self.options.fresh
        self.display.say(f"opening MLflow at {self.store.shown}")
        # Imported only here: MLflow takes seconds, and its environment variables must be set before; matplotlib, too.
        from dprl.platform.reports.report import remove_report  # noqa: PLC0415
        from dprl.platform.tracking.exporter import Exporter  # noqa: PLC0415

        with ExitStack() as unless_begun, _writing(layout):
            name, words = self.options.name, self.options.command
            self.exporter = Exporter(self.store, name, words, self.display.warn, layout.sweep_id())
            unless_begun.callback(self.exporter.close, [], {}, "KILLED")
            self.exporter.open(fresh)
            if ray is not None:
                ray.require_memory(todo)
            grid.write(layout.grid_file)
            # Tables with rows of cells that run again go before the cells: a kill in between must not leave them.
            if fresh or any(cell.folder.finished for cell in todo):
                layout.summary_file.unlink(missing_ok=True)
                remove_report(layout.folder)
            if fresh:
                deleted = layout.delete_cells()
                self.display.say(f"starting afresh: {counted(deleted, 'cell')} of earlier calls deleted")
            for cell in todo:
                if cell.folder.finished:  # not where a file takes the folder's place: that cell alone fails
                    cell.folder.marker_file.unlink()
            unless_begun.pop_all()

    def _execute(self, todo: Sequence[SweepCell], ray: RayProcess | None) -> None:
        """Run the cells, and record each as it ends. Raises RayLostError."""
        compile_kernels([cell.experiment for cell in todo], self.display.say)
        options = self.options
        events: Iterator[CellEvent | None]
        if ray is None:
            where, events = "in this process", run_in_process(todo)
        else:
            where = f"on {counted(ray.cluster.n_cpus, 'CPU')}"
            events = ray.run(todo, self.layout.tune_folder, options.max_restarts, options.most_cpus)
        seeds = sum(cell.experiment.seeds for cell in todo)
        self.display.say(f"running {counted(len(todo), 'cell')} ({counted(seeds, 'seed')}) {where}")
        self.display.begin(len(todo))
        by_digest, restarted = {cell.digest: cell for cell in todo}, set[str]()
        unseen: dict[str, float] = {}
        """Finished cells, with the time until which their files may become visible here."""
        for event in events:
            if event is not None:
                cell, progress = by_digest[event.cell], event.progress
                if progress is None:
                    self._error(cell, event)
                else:
                    if progress.restarted and cell.digest not in restarted:
                        restarted.add(cell.digest)
                        self.display.warn(f"{cell.label}: {progress.restarted}")
                    seed = f"{progress.seed_index + 1} of {cell.experiment.seeds}"
                    self.display.advanced(cell.label, progress.fraction, seed)
                    if progress.finished:
                        unseen[event.cell] = time.monotonic() + _UNSEEN_SECONDS
            self._look_for(unseen, by_digest)
        while unseen:
            self._look_for(unseen, by_digest)
            time.sleep(1.0 if unseen else 0.0)

    def _look_for(self, unseen: dict[str, float], cells: Mapping[str, SweepCell]) -> None:
        """Record the finished cells with visible files; after its time, a cell counts as failed."""
        for digest, deadline in list(unseen.items()):
            cell = cells[digest]
            if cell.finished:
                self.display.ended(cell.label, f"done in {self._read(cell).seconds:.1f} s")
                self.layout.failure_log(digest).unlink(missing_ok=True)
                self.exporter.record(cell)
            elif time.monotonic() > deadline:
                folder = cell.folder.path
                cause = f"it finished, but not in {folder} of this machine: put DPRL_HOME on storage that all share"
                self._error(cell, CellEvent(digest, cause=cause, trace=cause))
            else:
                continue
            del unseen[digest]

    def _error(self, cell: SweepCell, event: CellEvent) -> None:
        """Show that the cell continues in another process or, if it failed, write its traceback to a log."""
        if not event.trace:
            again = "its seed with new noise, and its users are charged again"
            where = "from its checkpoint" if cell.experiment.resumable else again
            self.display.warn(f"{cell.label}: {event.cause}; it starts again in another process, {where}")
            return
        log = self.layout.failure_log(cell.digest)
        text = f"{cell.label}\n{cell.experiment.to_yaml()}\n{event.trace}\n"
        with self._noting(log):
            write_text(log, text)
        where = f"log: {log}" if log.is_file() else "no log: see above"
        self.failures[cell.digest] = f"{cell.label}: {event.cause} ({where})"
        self.display.ended(cell.label, f"FAILED: {event.cause} ({where})")
        self.exporter.record(cell, event.cause)

    def _read(self, cell: SweepCell) -> CellResults:
        """Read a finished cell, and keep its row of the summary."""
        results = cell.folder.results()
        row = summary_row(cell.experiment, results)
        self._rows[cell.digest] = {"label": cell.label, **row, SECONDS: results.seconds}
        return results

    def _conclude(self, cells: Sequence[SweepCell], status: str, lost: str) -> SweepResult:
        """Write the sweep's table, report and figures, and end its MLflow run."""
        finished = [cell for cell in cells if cell.finished and cell.digest not in self.failures]
        for cell in finished:
            if cell.digest not in self._rows:
                self._read(cell)
        summary = pd.DataFrame([self._rows[cell.digest] for cell in finished])
        files, entries, counts = list[Path](), None, dict[str, int]()
        try:
            # Before the report, because it lists the missing cells.
            counts = self._write_status(cells)
            if finished:
                self.display.say("writing summary.csv, report.html and figures, and all to MLflow")
                files, entries = self._write_report(summary)
            else:
                self.display.say("no finished cell: nothing to summarise")
        finally:
            # Close all runs even if the report failed.
            pages = [cell.folder.certificate_page for cell in finished if cell.folder.certificate_page.is_file()]
            missed = self.exporter.close([*files, *pages] if files else [], counts, status, entries)
        self._say_where(files, tracked=not missed)
        again = f"nothing is lost, the same command writes it later: {self.options.command}"
        unwritten = [*self.unwritten, *([f"MLflow: {missed}"] if missed else [])]
        return SweepResult(
            summary=summary,
            failed=[*self.failures.values(), *([lost] if lost else [])],
            unwritten=[f"{line}; {again}" for line in unwritten],
            folder=self.layout.folder,
            tracking_uri=self.store.shown,
        )

    def _write_status(self, cells: Sequence[SweepCell]) -> dict[str, int]:
        """Write the sweep's status, with the command that resumes it, and return its numbers of cells."""
        finished = sum(cell.finished for cell in cells)
        counts = {"cells": len(cells), "cells_finished": finished, "cells_failed": len(self.failures)}
        with self._noting(self.layout.status_file):
            write_json(self.layout.status_file, {**counts, "command": self.options.command})
        return counts

    def _write_report(self, summary: pd.DataFrame) -> tuple[list[Path], SweepEntries | None]:
        """Write the table, the report and its figures; return the files, table and page first, and MLflow's entries."""
        # Imported only here: matplotlib is slow to load.
        from dprl.platform.reports.report import SweepReport  # noqa: PLC0415
        from dprl.platform.tracking.exporter import sweep_entries  # noqa: PLC0415

        layout, words = self.layout, self.options.command
        files, entries = list[Path](), None
        with self._noting(layout.summary_file):
            write_text(layout.summary_file, summary.drop(columns=SECONDS).to_csv(index=False))
            files.append(layout.summary_file)
        if files:
            with self._noting(layout.folder):
                report = SweepReport.of(layout.home, [layout.name])
                entries = sweep_entries(report.groups, words)
                files += report.write(layout.folder, words)
        return files, entries

    @contextmanager
    def _noting(self, place: Path) -> Iterator[None]:
        """Note a place that cannot be written, and go on."""
        try:
            yield
        except OSError as error:
            self.unwritten.append(f"{place}: cannot be written ({error.strerror or error})")

    def _say_where(self, files: Sequence[Path], tracked: bool) -> None:
        self.display.say(f"results   {self.layout.folder}")
        for file in files[:2]:  # the table and the page
            self.display.say(f"          {file}")
        if tracked:
            pages = f"mlflow at {self.store.shown}"
            if self.options.tracking_uri is None:
                pages = command("ui", *storage_words(self.layout.home))
            elif self.store.local:
                pages = shlex.join(["mlflow", "ui", "--backend-store-uri", self.store.shown])
            elif self.store.shown.startswith("http"):
                pages = f"{self.store.shown.rstrip('/')}{self.exporter.page}"
            name, run = experiment_name(), shlex.quote(self.layout.name)
            self.display.say(f"MLflow    {pages}: experiment {name!r}, run {run}")


def run_in_process(cells: Iterable[SweepCell]) -> Iterator[CellEvent]:
    """Run the cells one by one in this process, with seeds on all its CPUs; a failed cell does not stop the others."""
    cpus = cpu_limit() or len(os.sched_getaffinity(0))
    for cell in cells:
        locked, finished = LockedCell(cell, cpus), False
        try:
            while not finished:
                progress = locked.advance()
                finished = progress.finished
                yield CellEvent(cell.digest, progress)
        except CELL_ERRORS as error:
            yield CellEvent(cell.digest, None, cause_of(error), traceback.format_exc())
        finally:
            locked.close()


def compile_kernels(experiments: Sequence[Experiment], say: Callable[[str], None]) -> None:
    """Compile the kernels of all experiments once; every worker then loads them from the cache on disk."""
    begin, before = time.monotonic(), compilations()
    if cache_is_empty():
        say("compiling the learning loop (once per machine and code version) ...")
    # One experiment for each combination of named parts; sizes and scales need no separate code.
    kinds: dict[frozenset[tuple[str, object]], Experiment] = {}
    for experiment in experiments:
        if getattr(experiment.env.builds, "holds_records", False):
            continue  # no user is read before a charge
        parts = frozenset(item for item in experiment.parameters().items() if isinstance(item[1], str))
        kinds.setdefault(parts, experiment)
    for experiment in kinds.values():
        with suppress(*CELL_ERRORS):  # its cell will fail in the same way and is then reported by name
            replace(experiment, episodes=2, seeds=1).build(0).learn(2)
    if compilations() > before:
        say(f"compiled in {time.monotonic() - begin:.1f} s")
