"""Progress of a sweep on the terminal, as bars or plain lines, and in its log file."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from dprl.atomic_files import open_regular
from dprl.platform.errors import counted

_PLAIN_INTERVAL = 10.0
"""Seconds between two plain lines about a cell that is still running."""
_LOG_INTERVAL = 60.0
"""Seconds between two lines of the log about a cell that is still running."""
_PACE_SECONDS = 10.0
"""Between the first progress and the first estimate of the time left: before it, loops are compiled and loaded."""
_BAR_WIDTH = 16


class ProgressDisplay(ABC):
    """Display of a sweep's stages and of its cells' progress. It also appends every line to `log`, with the time.

    If the log can no longer be written, for example on a full disk, that is shown once and ends the log, not the sweep.
    A display without a reader, for example after Ctrl-C also ended a `tee`, shows nothing more; the log continues.
    """

    def __init__(self, log: Path | None = None) -> None:
        self._total, self._ended = 0, 0
        self._fractions: dict[str, float] = {}
        self._log_file, self._read = log, True
        self._next_entry: dict[str, float] = {}

    @abstractmethod
    def _write(self, line: str, *, urgent: bool = False) -> None:
        """Show one line; `urgent` ones are about a problem or a decision for the user."""

    def say(self, line: str) -> None:
        """Show and log one line."""
        self._show(self._write, line)
        self._log(line)

    def warn(self, line: str) -> None:
        """Show and log one line about a problem or a decision for the user."""
        self._show(partial(self._write, urgent=True), line)
        self._log(line)

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""
        self._total = total
        self._show(self._begin)

    def advanced(self, label: str, fraction: float, seed: str) -> None:
        """The cell has done `fraction` of its episodes; `seed` is the running one, e.g. '2 of 5'."""
        self._fractions[label] = fraction
        self._show(self._advance, label, fraction, seed)
        now = time.monotonic()
        if now >= self._next_entry.get(label, 0.0) and fraction < 1:
            self._next_entry[label] = now + _LOG_INTERVAL
            self._log(f"{label}: seed {seed}, {fraction:.1%}")

    def ended(self, label: str, outcome: str) -> None:
        """The cell has finished or failed, as `outcome` says in one line."""
        self._ended += 1
        self._fractions.pop(label, None)
        self._next_entry.pop(label, None)
        self._show(self._end, label, f"[{self._ended}/{self._total}] {label}: {outcome}{self._time_left()}")
        self._log(f"{label}: {outcome}")

    def close(self) -> None:
        """End the display."""
        self._show(self._close)

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _advance(self, label: str, fraction: float, seed: str) -> None: ...

    def _end(self, label: str, line: str) -> None:  # noqa: ARG002 - displays with bars remove the cell's
        self._write(line)

    def _close(self) -> None:  # noqa: B027 - most displays have nothing to close
        pass

    @property
    def _done(self) -> float:
        """Number of cells done, with the fractions of the running ones."""
        return self._ended + sum(self._fractions.values())

    def _time_left(self) -> str:
        return ""

    def _show(self, show: Callable[..., None], *arguments: object) -> None:
        if not self._read:
            return
        try:
            show(*arguments)
        except OSError as error:
            self._read = False
            with suppress(OSError):
                self._close()
            self._log(f"nobody sees these lines any more ({error.strerror}): they go on here")

    def _log(self, line: str) -> None:
        if self._log_file is None:
            return
        try:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_regular(self._log_file, flags), "a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
        except OSError as error:
            complaint = f"{self._log_file}: cannot be written ({error.strerror}): the log ends here"
            self._log_file = None
            self._show(partial(self._write, urgent=True), complaint)


def duration(seconds: float) -> str:
    """Return a rough time, e.g. '40 s', '5 min', '3.5 h'."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


class _PlainProgress(ProgressDisplay):
    """Plain lines, for logs and pipes; only the warnings if `quiet`."""

    def __init__(self, stream: TextIO, quiet: bool = False, log: Path | None = None) -> None:
        super().__init__(log)
        self._stream = stream
        self._quiet = quiet
        self._begun: tuple[float, float] | None = None
        """Time and cells done at the first progress."""
        self._next_line: dict[str, float] = {}

    def _write(self, line: str, *, urgent: bool = False) -> None:
        if urgent or not self._quiet:
            self._stream.write(line + "\n")
            self._stream.flush()

    def _begin(self) -> None:
        pass

    def _advance(self, label: str, fraction: float, seed: str) -> None:
        """Show a line about a long cell every ten seconds."""
        now = time.monotonic()
        self._begun = self._begun or (now, self._done)
        if now >= self._next_line.setdefault(label, now + _PLAIN_INTERVAL) and fraction < 1:
            self._next_line[label] = now + _PLAIN_INTERVAL
            self._write(f"      {label}: {fraction:.0%} (seed {seed}){self._time_left()}")

    def _time_left(self) -> str:
        """Return e.g. ', about 5 min left' at the pace since the first progress; '' until it is known."""
        if self._begun is None or self._done >= self._total:
            return ""
        seconds, done = time.monotonic() - self._begun[0], self._done - self._begun[1]
        if seconds < _PACE_SECONDS or done <= 0.0:
            return ""
        return f", about {duration(seconds * (self._total - self._done) / done)} left"


class _TerminalProgress(ProgressDisplay):
    """Display with a bar over all cells, one bar per running cell, and finished cells as lines above.

    Each bar shows the time elapsed and, once it is known, the time left.
    """

    def __init__(self, console: Console, log: Path | None = None) -> None:
        super().__init__(log)
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._bar: Progress | None = None
        self._all = TaskID(0)

    def _write(self, line: str, *, urgent: bool = False) -> None:
        """Show one line above the bars."""
        style = "bold" if urgent else None
        self._console.print(line, markup=False, highlight=False, soft_wrap=True, style=style)

    def _begin(self) -> None:
        """Show the bars."""
        columns = (
            SpinnerColumn(),
            # On a narrow terminal the name is cut, not the times.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=_BAR_WIDTH, table_column=Column(min_width=_BAR_WIDTH)),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._all = self._bar.add_task(counted(self._total, "cell"), total=float(self._total))
        self._bar.start()

    def _advance(self, label: str, fraction: float, seed: str) -> None:
        """Move the cell's bar and the bar over all cells."""
        if self._bar is None:
            return
        if label not in self._tasks:
            self._tasks[label] = self._bar.add_task(label, total=1.0)
        self._bar.update(self._tasks[label], completed=fraction, description=f"{label} (seed {seed})")
        self._bar.update(self._all, completed=self._done)

    def _end(self, label: str, line: str) -> None:
        """Turn the cell's bar into a line."""
        if self._bar is not None and label in self._tasks:
            self._bar.remove_task(self._tasks.pop(label))
        self._write(line)
        if self._bar is not None:
            self._bar.update(self._all, completed=self._done)

    def _close(self) -> None:
        """Remove the bars and keep the lines."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def progress_display(quiet: bool = False, stream: TextIO | None = None, log: Path | None = None) -> ProgressDisplay:
    """Return bars for a terminal, plain lines otherwise. On standard error, so that results can be piped."""
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and not quiet:
        return _TerminalProgress(Console(file=stream), log)
    return _PlainProgress(stream, quiet, log)
