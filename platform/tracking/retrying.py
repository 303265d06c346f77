"""Tracker that tolerates an unavailable store and writes pending data as soon as it is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.layout import SweepCell
from dprl.platform.tracking.store import TrackingError
from dprl.platform.tracking.sweep_entries import SweepEntries
from dprl.platform.tracking.tracker import Tracker

_PAUSE_SECONDS = 15.0
"""Pause after a failure. Each attempt can block the sweep for seconds."""

_PATIENCE_SECONDS = 150.0
"""Timeout for the store at the end of a sweep."""


class RetryingTracker:
    """Wraps an open `tracker` and keeps the last pending call of each cell while the store is unavailable.

    The files of a cell have all data, so nothing is lost if the store stays unavailable: repeat the sweep to write it.
    A refused call does not block others. warn: called once for each cause of failure.
    """

    def __init__(self, tracker: Tracker, warn: Callable[[str], None]) -> None:
        self._tracker = tracker
        self._warn = warn
        self._pending: dict[str, Callable[[], None]] = {}
        self._refused: dict[str, Callable[[], None]] = {}
        self._refusal: TrackingError | None = None
        self._told: set[str] = set()
        self._next_try = 0.0

    @property
    def page(self) -> str:
        """Path of the page of all runs on an MLflow server."""
        return self._tracker.page

    def begin(self, cell: SweepCell) -> None:
        """The cell starts or resumes."""
        self._write(cell, lambda: self._tracker.begin(cell))

    def record(self, cell: SweepCell, results: CellResults) -> None:
        """Write the results of a finished cell, now or when the store is back."""

        def later() -> None:
            self._tracker.record(cell, cell.folder.results())

        self._write(cell, lambda: self._tracker.record(cell, results), later)

    def fail(self, cell: SweepCell, cause: str) -> None:
        """The cell failed."""
        self._write(cell, lambda: self._tracker.fail(cell, cause))

    def close(
        self,
        files: Sequence[Path],
        counts: Mapping[str, int],
        status: str,
        patient: bool,
        entries: SweepEntries | None = None,
    ) -> str | None:
        """End the sweep's runs, if `patient` after waiting for the store; return unwritten entries and the reason.

        entries: of the sweep's own run.
        """

        def end() -> None:
            # First, so that no run stays open because of a refused number.
            self._tracker.close(files, dict(counts), status)
            if entries is not None:
                self._tracker.describe(entries)

        deadline = time.monotonic() + (_PATIENCE_SECONDS if patient else 0.0)
        while True:
            # Retry refused calls once.
            self._pending = self._refused | self._pending
            self._refused = {}
            self._next_try = 0.0
            away = self._flush()
            refusal = self._refusal if self._refused or self._pending else None
            if away is None:
                error = self._attempt(end)
                away = error if error is not None and self._is_away() else None
                refusal = error or refusal
            if away is None:
                return str(refusal) if refusal is not None else None
            if time.monotonic() >= deadline:
                return str(away)
            self._tell(f"MLflow: {away}; waiting for it, at most {_PATIENCE_SECONDS:.0f} s")
            time.sleep(_PAUSE_SECONDS / 5)

    def _write(self, cell: SweepCell, now: Callable[[], None], later: Callable[[], None] | None = None) -> None:
        # The last call for a cell includes all earlier ones.
        self._pending.pop(cell.digest, None)
        self._refused.pop(cell.digest, None)
        if time.monotonic() < self._next_try or self._flush() is not None:
            self._pending[cell.digest] = later or now
            return
        error = self._attempt(now)
        if error is not None:
            self._keep(cell.digest, later or now, error)

    def _flush(self) -> TrackingError | None:
        """Write pending calls, oldest first, skipping refused ones; return the error if the store is unavailable."""
        if not self._pending:
            return None
        error = self._attempt(self._tracker.ask)
        if error is not None:
            self._postpone(error)
            return error
        # An interrupted request may have created its run. An error here also occurs below.
        self._attempt(self._tracker.refresh)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for digest, write in list(self._pending.items()):
            error = self._attempt(write)
            if error is None:
                del self._pending[digest]
            elif self._keep(digest, write, error):
                return error
            elif time.monotonic() >= deadline:
                break  # Each refusal may take long, e.g. if the file storage is unavailable.
        return None

    def _keep(self, digest: str, write: Callable[[], None], error: TrackingError) -> bool:
        """Keep a failed call for later; return whether the store is unavailable."""
        away = self._is_away()
        (self._pending if away else self._refused)[digest] = write
        if away:
            self._postpone(error)
        else:
            # It would be refused again and block the calls after it.
            self._pending.pop(digest, None)
            self._refusal = error
            self._tell(f"MLflow: {error}; it is tried again at the end")
        return away

    def _is_away(self) -> bool:
        """Whether the store answers no query at all, so that further attempts are pointless."""
        return self._attempt(self._tracker.ask) is not None

    def _attempt(self, write: Callable[[], None]) -> TrackingError | None:
        try:
            write()
        except TrackingError as error:
            return error
        return None

    def _postpone(self, error: TrackingError) -> None:
        self._next_try = time.monotonic() + _PAUSE_SECONDS
        self._tell(f"MLflow: {error}; it is written later")

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._warn(line)
