"""Sweep over a grid of cells: resumes earlier calls, and writes table, figures, report and MLflow runs."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from dprl.algorithms import Metric
from dprl.algorithms.base import headline
from dprl.atomic_files import write_text
from dprl.platform.configs.experiment import Experiment, unequal_schedules
from dprl.platform.environment_variables import cpu_limit, set_environment
from dprl.platform.errors import Interrupted, UserError, broken_rule, counted, how_to_resume, missing_extra
from dprl.platform.program import command, sigterm_as_ctrl_c
from dprl.platform.results.cell_folder import CellResults, DamagedCellError
from dprl.platform.results.home import storage_words
from dprl.platform.results.layout import (
    Grid,
    SweepCell,
    SweepLayout,
    SweepStatus,
    lost_charges,
    require_journals,
    require_name,
)
from dprl.platform.results.summary import block_column, summary_row
from dprl.platform.sweeps.cell import CellProgress, second_release
from dprl.platform.sweeps.execution import (
    DEFAULT_RESTARTS,
    RayLost,
    SweepObserver,
    TrialOptions,
    compile_kernels,
    run_in_process,
)
from dprl.platform.sweeps.progress import ProgressDisplay, progress_display
from dprl.platform.tracking.store import TrackingStore, experiment_name

if TYPE_CHECKING:
    from dprl.platform.tracking.entries import SweepEntries
    from dprl.platform.tracking.exporter import Exporter

ExecutorName = Literal["process", "tune"]
_FIRST_TO_READ = 2
"""Files that the terminal names at the end: the table and the page."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep. None of them changes its results.

    name: names the folder and the MLflow parent run. home: folder of all results.
    executor: 'process' runs the cells one after the other in this process, 'tune' as Ray Tune trials.
    address: of a running Ray cluster, or None for this machine.
    tracking_uri: of MLflow, or None for a database in `home`. fresh: delete the results of earlier calls.
    command: the user's words, for messages. quiet: show only problems meanwhile.
    max_restarts, most_cpus: as in `TrialOptions`.

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
    with sigterm_as_ctrl_c(), _joined(options.address, layout.home, store), _locked(layout):
        grid = Grid.of(cells)
        require_name(layout, cells, grid, options.fresh)
        if options.fresh:
            require_journals(layout.cells(cells))
        display = progress_display(options.quiet, log=layout.log_file)
        try:
            return _Sweep(layout, store, display, options).run(layout.cells(cells), grid)
        except KeyboardInterrupt:
            display.close()
            display.warn(how_to_resume(options.command))
            raise Interrupted from None
        finally:
            display.close()


def _joined(address: str | None, home: Path, store: TrackingStore) -> AbstractContextManager[None]:
    if address is None:
        return nullcontext()
    from dprl.platform.sweeps.address import joined_cluster  # noqa: PLC0415 - a sweep on this machine needs none of it

    return joined_cluster(address, home, store)


@contextmanager
def _locked(layout: SweepLayout) -> Iterator[None]:
    """Hold the sweep's lock. Raises UserError, also if its folder cannot be written."""
    lock = layout.lock()
    with _writing(layout):
        layout.folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


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
    """One call of `run_sweep`; as SweepObserver it records each cell as it ends."""

    exporter: Exporter

    def __init__(
        self, layout: SweepLayout, store: TrackingStore, display: ProgressDisplay, options: SweepOptions
    ) -> None:
        self.layout = layout
        self.display = display
        self.options = options
        self.store = store
        self.files = SweepFiles(layout)
        self.failures: dict[str, str] = {}
        self.lost = ""
        """Cause of Ray's death, '' if it lives."""
        self._restarted: set[str] = set()

    def run(self, cells: Sequence[SweepCell], grid: Grid) -> SweepResult:
        """Run all cells to their end, then write the sweep's own files."""
        done, todo = self._done_and_todo(cells)
        with ExitStack() as until_done:
            executor = until_done.enter_context(self._executor()) if todo else None
            self._begin(cells, grid, todo)
            # Also at the start, because a killed call writes nothing at its end.
            self.files.write_status(cells, 0, self.options.command)
            for line in self.failures.values():
                self.display.warn(f"REFUSED: {line}")
            if remark := unequal_schedules([cell.experiment.parameters() for cell in cells]):
                self.display.warn(remark)
            if done:
                self.display.say(f"{len(done)} of {counted(len(cells), 'cell')} finished already")
            status = "KILLED"
            try:
                with self._ctrl_c_answered():
                    for cell in done:
                        # Left by a kill between marker and removal; under jdp it has exact counts.
                        cell.folder.state_file.unlink(missing_ok=True)
                        self.exporter.record(cell, self.files.read(cell))
                    if executor is not None:
                        self._execute(executor, todo)
                status = "FAILED" if self.failures else "FINISHED"
            except RayLost as error:
                self.lost = str(error)
            finally:
                self.display.close()
                try:
                    until_done.close()
                    self._remove_tune_files(status)
                finally:
                    # Also if Ctrl-C is pressed again while Ray stops.
                    result = self._conclude(cells, status)
        return result

    def _done_and_todo(self, cells: Sequence[SweepCell]) -> tuple[list[SweepCell], list[SweepCell]]:
        """Return the cells that earlier calls finished, and those to be run, including damaged ones.

        A damaged cell that cannot be repeated with the same result is in neither list: it fails.
        """
        done, todo = list[SweepCell](), list[SweepCell]()
        for cell in cells:
            damage = ""
            if not self.options.fresh:
                try:
                    if not cell.experiment.resumable or cell.folder.finished:
                        cell.folder.require_whole()
                    lost = lost_charges(cell, fresh=False)
                    if lost:
                        self.failures[cell.digest] = f"{cell.label}: {lost}"
                        continue
                    if cell.finished:
                        self.files.read(cell)
                        done.append(cell)
                        continue
                except DamagedCellError as error:
                    damage = error.cause
            if damage and not cell.experiment.resumable:
                self.failures[cell.digest] = f"{cell.label}: {second_release(damage, cell.folder.path)}"
                continue
            if damage:
                self.display.warn(f"{cell.label}: runs again, its files cannot be read ({damage})")
            todo.append(cell)
        return done, todo

    def _remove_tune_files(self, status: str) -> None:
        """Remove Ray Tune's files of a finished sweep; show their folder otherwise."""
        folder = self.layout.tune_folder
        if not folder.is_dir():
            return
        if status == "FINISHED":
            shutil.rmtree(folder, ignore_errors=True)
        elif status == "FAILED":
            self.display.say(f"Ray Tune's files are kept until the sweep is finished: {folder}")

    def _begin(self, cells: Sequence[SweepCell], grid: Grid, todo: Sequence[SweepCell]) -> None:
        """Open MLflow, then take over the folder; a failure in between leaves no MLflow run open. Raises UserError."""
        with self._ctrl_c_answered(), ExitStack() as unless_begun:
            self.display.say(f"opening MLflow at {self.store.shown}")
            # Imported only here: importing MLflow takes seconds, and its environment variables must be set before.
            from dprl.platform.tracking.exporter import Exporter  # noqa: PLC0415

            with _writing(self.layout):
                sweep_id = self.layout.sweep_id()
            name, words = self.options.name, self.options.command
            self.exporter = Exporter(self.store, name, words, self.display.warn, sweep_id)
            unless_begun.callback(self.exporter.close, [], {}, "KILLED")
            self.exporter.open(cells, self.options.fresh)
            self._take_over(grid, todo)
            unless_begun.pop_all()

    def _take_over(self, grid: Grid, todo: Sequence[SweepCell]) -> None:
        """Write the sweep's grid and, with --fresh, delete the cells of earlier calls.

        Tables with rows of cells that run again are removed before the cells: a kill in between must not leave them.
        Called after all checks have passed. Raises UserError if the folder cannot be written.
        """
        with _writing(self.layout):
            grid.write(self.layout.grid_file)
            if self.options.fresh or any(cell.folder.finished for cell in todo):
                self.files.remove_tables()
            if self.options.fresh:
                deleted = self.layout.delete_cells()
                self.display.say(f"starting afresh: {counted(deleted, 'cell')} of earlier calls deleted")
            for cell in todo:
                if cell.folder.finished:
                    cell.folder.marker_file.unlink()

    @contextmanager
    def _ctrl_c_answered(self) -> Iterator[None]:
        """Say at once that Ctrl-C was heard: ending Ray takes seconds."""
        try:
            yield
        except KeyboardInterrupt:
            self.display.warn("interrupted: stopping, then writing what is done ...")
            raise

    def advanced(self, cell: SweepCell, progress: CellProgress) -> None:
        """Show the cell's progress, and once the reason why a part had to start again."""
        if progress.restarted and cell.digest not in self._restarted:
            self._restarted.add(cell.digest)
            self.display.warn(f"{cell.label}: {progress.restarted}")
        seed = f"{progress.seed_index + 1} of {cell.experiment.seeds}"
        self.display.advanced(cell.label, progress.fraction, seed)

    def finished(self, cell: SweepCell) -> None:
        """Record the cell and show its headline metric."""
        results = self.files.read(cell)
        learned = _first_and_last(cell.experiment.metrics, results.records)
        self.display.ended(cell.label, f"done in {results.seconds:.1f} s{learned}")
        self.layout.failure_log(cell.digest).unlink(missing_ok=True)
        self.exporter.record(cell, results)

    def interrupted(self, cell: SweepCell, cause: str) -> None:
        """Show that the cell continues in another process."""
        where = (
            "from its checkpoint"
            if cell.experiment.resumable
            else "its seed with new noise, and its users are charged again"
        )
        self.display.warn(f"{cell.label}: {cause}; it starts again in another process, {where}")

    def failed(self, cell: SweepCell, cause: str, trace: str) -> None:
        """Write the cell's traceback to a log, and continue."""
        where = self.files.write_failure(cell, trace)
        self.failures[cell.digest] = f"{cell.label}: {cause} ({where})"
        self.display.ended(cell.label, f"FAILED: {cause} ({where})")
        self.exporter.fail(cell, cause)

    def _executor(self) -> AbstractContextManager[Executor]:
        trials = TrialOptions(
            self.layout.tune_folder, self.options.max_restarts, self._ray_died, self.options.most_cpus
        )
        return open_executor(self.options.executor, self.options.address, trials, self.display.say)

    def _execute(self, executor: Executor, todo: Sequence[SweepCell]) -> None:
        compile_kernels([cell.experiment for cell in todo], self.display.say)
        seeds = sum(cell.experiment.seeds for cell in todo)
        self.display.say(f"running {counted(len(todo), 'cell')} ({counted(seeds, 'seed')}) {executor.where}")
        self.display.begin(len(todo))
        executor.run(todo, self)

    def _conclude(self, cells: Sequence[SweepCell], status: str) -> SweepResult:
        finished = [cell for cell in cells if cell.finished and cell.digest not in self.failures]
        if finished:
            self.display.say("writing summary.csv, report.html and figures, and all to MLflow")
        else:
            self.display.say("no finished cell: nothing to summarise")
        files: list[Path] = []
        counts: dict[str, int] = {}
        try:
            # Before the report, because it lists the missing cells.
            counts = self.files.write_status(cells, len(self.failures), self.options.command).counts
            summary = self.files.summary(finished)
            files = self.files.write(summary, self.options.command) if finished else []
        finally:
            # Close all runs even if the report failed.
            pages = [page for cell in finished if files and (page := cell.folder.certificate_page).is_file()]
            missed = self.exporter.close([*files, *pages], counts, status, self.files.entries)
        again = f"nothing is lost, the same command writes it later: {self.options.command}"
        lacking = [*self.files.problems, *([f"MLflow: {missed}"] if missed else [])]
        self._say_where(files, tracked=not missed)
        return SweepResult(
            summary=summary,
            failed=[*self.failures.values(), *([self._resuming(self.lost)] if self.lost else [])],
            unwritten=[f"{line}; {again}" for line in lacking],
            folder=self.layout.folder,
            tracking_uri=self.store.shown,
        )

    def _ray_died(self, reason: str) -> None:
        self.display.warn(f"{reason}; writing the results so far, and exiting")

    def _resuming(self, reason: str) -> str:
        return f"{reason}; what is done is kept, resume with: {self.options.command}"

    def _say_where(self, files: Sequence[Path], tracked: bool) -> None:
        self.display.say(f"results   {self.layout.folder}")
        for file in files[:_FIRST_TO_READ]:
            self.display.say(f"          {file}")
        if tracked:
            self.display.say(
                f"MLflow    {self._pages()}: experiment {experiment_name()!r}, run {shlex.quote(self.layout.name)}"
            )

    def _pages(self) -> str:
        """Return the command or the address that shows the runs in MLflow."""
        if self.options.tracking_uri is None:
            return command("ui", *storage_words(self.layout.home))
        if self.store.local:
            return shlex.join(["mlflow", "ui", "--backend-store-uri", self.store.shown])
        served = self.store.shown.startswith("http")
        return f"{self.store.shown.rstrip('/')}{self.exporter.page}" if served else f"mlflow at {self.store.shown}"


def _first_and_last(metrics: Sequence[Metric], records: pd.DataFrame) -> str:
    """Return the headline metric's mean in the first and in the last block, as text; '' if there is none."""
    metric = headline(metrics)
    if metric is None:
        return ""
    means = records.groupby("episode")[block_column(metric)].mean()
    name = f"{metric.label}/episode" if metric.over == "sum" else metric.label
    return f", {name} {means.iloc[0]:.3g} -> {means.iloc[-1]:.3g}"


SECONDS = "seconds"
"""Column that the terminal shows and the file lacks: all other columns are equal in every run."""


class SweepFiles:
    """Finished cells of a sweep as rows, each read once, and the files made from them."""

    def __init__(self, layout: SweepLayout) -> None:
        self.layout = layout
        self.problems: list[str] = []
        """A line for each file that could not be written."""
        self.entries: SweepEntries | None = None
        """Entries of the whole sweep in MLflow, once the report is made."""
        self._rows: dict[str, dict[str, object]] = {}

    def read(self, cell: SweepCell) -> CellResults:
        """Read a finished cell, and keep its row of the summary."""
        results = cell.folder.results()
        row = summary_row(cell.experiment, results)
        self._rows[cell.digest] = {"label": cell.label, **row, SECONDS: results.seconds}
        return results

    def summary(self, finished: Sequence[SweepCell]) -> pd.DataFrame:
        """Return one row per cell."""
        for cell in finished:
            if cell.digest not in self._rows:
                self.read(cell)
        return pd.DataFrame([self._rows[cell.digest] for cell in finished])

    def remove_tables(self) -> None:
        """Remove the table and the report of earlier calls."""
        from dprl.platform.reports.report import remove_report  # noqa: PLC0415 - see `_write_report`

        self.layout.summary_file.unlink(missing_ok=True)
        remove_report(self.layout.folder)

    def write(self, summary: pd.DataFrame, command: str) -> list[Path]:
        """Write the table, then the report, then its figures; return the files, the table first, the page second."""
        table = summary.drop(columns=SECONDS).to_csv(index=False)
        written = self._written(self.layout.summary_file, partial(write_text, text=table))
        return [*written, *self._write_report(command)] if written else []

    def _write_report(self, command: str) -> list[Path]:
        # Imported only here: matplotlib is slow to load.
        from dprl.platform.reports.report import SweepReport  # noqa: PLC0415
        from dprl.platform.tracking.entries import sweep_entries  # noqa: PLC0415

        layout = self.layout
        try:
            report = SweepReport.of(layout.home, [layout.name])
            self.entries = sweep_entries(report.groups, command)
            return report.write(layout.folder, command)
        except OSError as error:
            self.problems.append(f"{layout.folder}: cannot be written ({error.strerror or error})")
            return []

    def write_status(self, cells: Sequence[SweepCell], n_failed: int, command: str) -> SweepStatus:
        """Write and return the sweep's status, with the command that resumes it."""
        status = SweepStatus(len(cells), sum(cell.finished for cell in cells), n_failed, command)
        self._written(self.layout.status_file, status.write)
        return status

    def write_failure(self, cell: SweepCell, trace: str) -> str:
        """Write a failed cell's traceback to a log; return the log's path, or the reason why there is none."""
        log = self.layout.failure_log(cell.digest)
        text = f"{cell.label}\n{cell.experiment.to_yaml()}\n{trace}\n"
        return f"log: {log}" if self._written(log, partial(write_text, text=text)) else "no log: see above"

    def _written(self, file: Path, write: Callable[[Path], object]) -> list[Path]:
        try:
            write(file)
        except OSError as error:
            self.problems.append(f"{file}: cannot be written ({error.strerror or error})")
            return []
        return [file]


@dataclass(frozen=True)
class Executor:
    """Executor of cells. where: its description for people. run: runs cells to their end and tells the observer."""

    where: str
    run: Callable[[Sequence[SweepCell], SweepObserver], None]


@contextmanager
def open_executor(
    name: ExecutorName, address: str | None, trials: TrialOptions, say: Callable[[str], None]
) -> Iterator[Executor]:
    """Open an executor for the duration of the context; 'tune' is Ray, at `address` or started on this machine.

    Raises UserError.
    """
    if name == "process":
        yield Executor("in this process", run_in_process)
        return
    # Imported only here: importing Ray takes seconds, and Ray's environment variables must be set before.
    try:
        from dprl.platform.sweeps.cluster import connected, run_on_ray  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    say("starting Ray on this machine ..." if address is None else f"joining Ray at {address} ...")
    with connected(address) as cluster:
        yield Executor(f"on {counted(cluster.n_cpus, 'CPU')}", partial(run_on_ray, cluster, trials))
