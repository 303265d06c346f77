"""What a person who waits for a sweep sees: plain lines, or a bar with the time left on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

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

from dprl.platform.errors import counted

_PLAIN_INTERVAL = 10.0
"""Seconds between two plain lines about a cell that is still running."""


class ProgressDisplay(Protocol):
    """Shows the stages of a sweep and the progress of its cells."""

    def say(self, line: str) -> None:
        """Show one line."""

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""

    def advanced(self, label: str, fraction: float) -> None:
        """The cell has done `fraction` of its episodes."""

    def ended(self, label: str, outcome: str) -> None:
        """The cell has finished or failed, as `outcome` tells in one line."""

    def close(self) -> None:
        """Nothing more will be shown."""


class PlainProgress:
    """Lines only, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0
        self._ended = 0
        self._next_line: dict[str, float] = {}

    def say(self, line: str) -> None:
        """Show one line."""
        self._stream.write(line + "\n")
        self._stream.flush()

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""
        self._total = total

    def advanced(self, label: str, fraction: float) -> None:
        """Show long cells now and then."""
        now = time.monotonic()
        if now >= self._next_line.setdefault(label, now + _PLAIN_INTERVAL) and fraction < 1:
            self._next_line[label] = now + _PLAIN_INTERVAL
            self.say(f"      {label}: {fraction:.0%}")

    def ended(self, label: str, outcome: str) -> None:
        """Number the line by the order in which the cells end."""
        self._ended += 1
        self.say(f"[{self._ended}/{self._total}] {label}: {outcome}")

    def close(self) -> None:
        """Nothing to give back."""


class TerminalProgress:
    """A bar over all cells with the time left, one bar per running cell, finished cells as lines above."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._ended = 0
        self._fractions: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bar: Progress | None = None
        self._all = TaskID(0)

    def say(self, line: str) -> None:
        """Show one line above the bars."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, total: int) -> None:
        """Show the bars."""
        self._total = total
        left = TimeRemainingColumn(elapsed_when_finished=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            left,
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._all = self._bar.add_task(counted(total, "cell"), total=float(total))
        self._bar.start()

    def advanced(self, label: str, fraction: float) -> None:
        """Move the cell's bar and the bar over all cells."""
        if self._bar is None:
            return
        if label not in self._tasks:
            self._tasks[label] = self._bar.add_task(label, total=1.0)
        self._fractions[label] = fraction
        self._bar.update(self._tasks[label], completed=fraction)
        self._bar.update(self._all, completed=sum(self._fractions.values()))

    def ended(self, label: str, outcome: str) -> None:
        """Turn the cell's bar into a line."""
        self._ended += 1
        self.advanced(label, 1.0)
        if self._bar is not None:
            self._bar.remove_task(self._tasks.pop(label))
        self.say(f"[{self._ended}/{self._total}] {label}: {outcome}")

    def close(self) -> None:
        """Take the bars away; the lines stay."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def progress_display(stream: TextIO | None = None) -> ProgressDisplay:
    """Bars where a person watches, plain lines otherwise. Standard error, so that results can be piped."""
    stream = sys.stderr if stream is None else stream
    if stream.isatty():
        return TerminalProgress(Console(file=stream))
    return PlainProgress(stream)
