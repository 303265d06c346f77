"""Progress of a sweep as lines on the terminal and in its log file."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TextIO

from dprl.atomic_files import open_regular

_INTERVAL = 20.0  # seconds between two lines about a cell that is still running


class ProgressDisplay:
    """Lines on a sweep's stages and cells, only warnings if `quiet`.

    It writes to standard error, so that results can be piped, and appends every line to `log`, with the time. If the
    log can no longer be written, for example on a full disk, that is shown once and ends the log, not the sweep. A
    display without a reader, for example after Ctrl-C also ended a `tee`, shows nothing more; the log continues.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, log: Path | None = None) -> None:
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        self._quiet, self._log_file = quiet, log
        self._total, self._ended, self._began = 0, 0, 0.0
        self._running: dict[str, float] = {}
        """Fractions of running cells."""
        self._next_line: dict[str, float] = {}

    def say(self, line: str) -> None:
        """Show and log one line."""
        if not self._quiet:
            self._show(line)
        self._log(line)

    def warn(self, line: str) -> None:
        """Show and log one line about a problem or a decision for the user."""
        self._show(line)
        self._log(line)

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""
        self._total, self._began = total, time.monotonic()

    def advanced(self, label: str, fraction: float, seed: str) -> None:
        """The cell has done `fraction` of its episodes; `seed` is the running one, e.g. '2 of 5'."""
        self._running[label] = fraction
        now = time.monotonic()
        if now >= self._next_line.setdefault(label, now + _INTERVAL):
            self._next_line[label] = now + _INTERVAL
            self.say(f"      {label}: {fraction:.0%} (seed {seed}){self._time_left()}")

    def ended(self, label: str, outcome: str) -> None:
        """The cell has finished or failed, as `outcome` says in one line."""
        self._ended += 1
        self._running.pop(label, None)
        self._next_line.pop(label, None)
        self.say(f"[{self._ended}/{self._total}] {label}: {outcome}{self._time_left()}")

    def _time_left(self) -> str:
        """Return e.g. ', about 0:05:00 left' at the mean pace so far; '' at the end."""
        done = self._ended + sum(self._running.values())
        left = (time.monotonic() - self._began) * (self._total / done - 1.0) if done else 0.0
        return f", about {timedelta(seconds=round(left))} left" if left >= 1.0 else ""

    def _show(self, line: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except OSError as error:
            self._stream = None
            self._log(f"nobody sees these lines any more ({error.strerror}): they go on here")

    def _log(self, line: str) -> None:
        if self._log_file is None:
            return
        try:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_regular(self._log_file, flags), "a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line.strip()}\n")
        except OSError as error:
            complaint = f"{self._log_file}: cannot be written ({error.strerror}): the log ends here"
            self._log_file = None
            self._show(complaint)
