"""Tracker that goes on without a store that refuses a call: missing entries are written at the end of the sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dprl.platform.results.cell_folder import CellResults, DamagedCellError
from dprl.platform.results.layout import SweepCell
from dprl.platform.tracking.store import TrackingError
from dprl.platform.tracking.sweep_entries import SweepEntries
from dprl.platform.tracking.tracker import Tracker


class DeferringTracker:
    """Wraps an open `tracker`. After the first failed call it keeps the last call of each cell for the end.

    The files of a cell have all data: the same sweep, started again, writes what the end could not. warn: takes one
    line, at the first failure.
    """

    def __init__(self, tracker: Tracker, warn: Callable[[str], None]) -> None:
        self._tracker = tracker
        self._warn = warn
        self._missing: dict[str, Callable[[], None]] = {}

    @property
    def page(self) -> str:
        """Path of the page of all runs on an MLflow server."""
        return self._tracker.page

    def begin(self, cell: SweepCell) -> None:
        """The cell starts or resumes."""
        self._write(cell, lambda: self._tracker.begin(cell))

    def record(self, cell: SweepCell, results: CellResults) -> None:
        """Write the results of a finished cell, now or at the end."""
        later = lambda: self._tracker.record(cell, cell.folder.results())  # noqa: E731 - does not hold the results
        self._write(cell, lambda: self._tracker.record(cell, results), later)

    def fail(self, cell: SweepCell, cause: str) -> None:
        """The cell failed."""
        self._write(cell, lambda: self._tracker.fail(cell, cause))

    def close(
        self, files: Sequence[Path], counts: Mapping[str, int], status: str, entries: SweepEntries | None = None
    ) -> str | None:
        """Write missing entries and end the sweep's runs; return the reason if entries are still missing.

        entries: of the sweep's own run.
        """

        def end() -> None:
            # First, so that no run stays open because of a refused number.
            self._tracker.close(files, dict(counts), status)
            if entries is not None:
                self._tracker.describe(entries)

        # An interrupted request may have created its run.
        missing = [self._tracker.refresh, *self._missing.values()] if self._missing else []
        reason = None
        for write in (*missing, end):
            if (error := self._error(write)) is not None:
                reason = reason or str(error)
                if self._error(self._tracker.ask) is not None:
                    break  # each further attempt would take seconds
        return reason

    def _write(self, cell: SweepCell, now: Callable[[], None], later: Callable[[], None] | None = None) -> None:
        # The last call for a cell includes all earlier ones.
        if not self._missing:
            error = self._error(now)
            if error is None:
                return
            self._warn(f"MLflow: {error}; the rest is written at the end")
        self._missing[cell.digest] = later or now

    @staticmethod
    def _error(write: Callable[[], None]) -> TrackingError | DamagedCellError | None:
        try:
            write()
        except (TrackingError, DamagedCellError) as error:
            return error
        return None
