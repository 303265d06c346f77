"""Progress of a sweep on the terminal, as bars or plain lines, and in its log file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
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

_INTERVAL = 20.0
"""Seconds between two lines about a cell that is still running."""
_PACE_SECONDS = 600.0
"""Of the latest progress, by which rich estimates the time left."""
_BAR_WIDTH = 16


class ProgressDisplay:
    """Display of a sweep's stages and cells: bars on a terminal, else plain lines, and only warnings if `quiet`.

    It writes to standard error, so that results can be piped, and appends every line to `log`, with the time. If the
    log can no longer be written, for example on a full disk, that is shown once and ends the log, not the sweep. A
    display without a reader, for example after Ctrl-C also ended a `tee`, shows nothing more; the log continues.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, log: Path | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet, self._read, self._log_file = quiet, True, log
        self._console = Console(file=self._stream)
        columns = (
            SpinnerColumn(),
            # On a narrow terminal the name is cut, not the times.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=_BAR_WIDTH, table_column=Column(min_width=_BAR_WIDTH)),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._shows_bars = self._console.is_terminal and not quiet
        self._bars = Progress(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._shows_bars,
            speed_estimate_period=_PACE_SECONDS,
        )
        self._all: TaskID | None = None
        self._total, self._ended = 0, 0
        self._running: dict[str, TaskID] = {}
        """Bars by cell."""
        self._next_line: dict[str, float] = {}

    def say(self, line: str) -> None:
        """Show and log one line."""
        if not self._quiet:
            self._show(self._write, line)
        self._log(line)

    def warn(self, line: str) -> None:
        """Show and log one line about a problem or a decision for the user."""
        self._show(self._write, line, "bold")
        self._log(line)

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""
        self._total = total
        self._all = self._bars.add_task(counted(total, "cell"), total=float(total))
        self._show(self._bars.start)

    def advanced(self, label: str, fraction: float, seed: str) -> None:
        """The cell has done `fraction` of its episodes; `seed` is the running one, e.g. '2 of 5'."""
        if label not in self._running:
            self._running[label] = self._bars.add_task(label, total=1.0)
        self._bars.update(self._running[label], completed=fraction, description=f"{label} (seed {seed})")
        self._advance_all()
        now = time.monotonic()
        if now >= self._next_line.setdefault(label, now + _INTERVAL):
            self._next_line[label] = now + _INTERVAL
            line = f"      {label}: {fraction:.0%} (seed {seed}){self._time_left()}"
            if not self._quiet and not self._shows_bars:
                self._show(self._write, line)
            self._log(line.strip())

    def ended(self, label: str, outcome: str) -> None:
        """The cell has finished or failed, as `outcome` says in one line."""
        self._ended += 1
        if label in self._running:
            self._bars.remove_task(self._running.pop(label))
        self._next_line.pop(label, None)
        self._advance_all()
        self.say(f"[{self._ended}/{self._total}] {label}: {outcome}{'' if self._shows_bars else self._time_left()}")

    def close(self) -> None:
        """Remove the bars and keep the lines."""
        self._show(self._bars.stop)

    def _advance_all(self) -> None:
        """Move the bar over all cells: ended cells count 1, running ones their fraction."""
        running = sum(task.completed for task in self._bars.tasks if task.id in self._running.values())
        if self._all is not None:
            self._bars.update(self._all, completed=self._ended + running)

    def _time_left(self) -> str:
        """Return e.g. ', about 0:05:00 left', '' while it is unknown; rich estimates the pace."""
        seconds = None if self._all is None else self._bars.tasks[0].time_remaining
        return f", about {timedelta(seconds=round(seconds))} left" if seconds else ""

    def _write(self, line: str, style: str | None = None) -> None:
        """Show one line, above the bars if there are some."""
        if self._shows_bars:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True, style=style)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def _show(self, show: Callable[..., None], *arguments: object) -> None:
        if not self._read:
            return
        try:
            show(*arguments)
        except OSError as error:
            self._read = False
            with suppress(OSError):
                self._bars.stop()
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
            self._show(self._write, complaint)
