"""Files of a sweep beside its cells: table, report and status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from dprl.atomic_files import write_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.layout import SweepCell, SweepLayout, SweepStatus
from dprl.platform.results.summary import summary_row

if TYPE_CHECKING:
    from dprl.platform.tracking.entries import SweepEntries

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
