"""What happened to a sweep and when, in a file that outlives the terminal: each line names its cell, and its seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dprl.platform.sweeps.progress import ProgressDisplay

_INTERVAL = 60.0
"""Seconds between two lines about a cell that is still running."""


class LoggedProgress:
    """Shows everything on `display`, and appends it to `file` with the time.

    A file that cannot be written any more, on a full disk, is told once, and ends the log, not the sweep. Nor does a
    display whose reader is gone, as when Ctrl-C ends a `tee` too: from then on there is the log alone.
    """

    def __init__(self, display: ProgressDisplay, file: Path) -> None:
        self._display: ProgressDisplay | None = display
        self._file: Path | None = file
        self._next_line: dict[str, float] = {}

    def say(self, line: str) -> None:
        """Show and log one line."""
        self._show(lambda display: display.say(line))
        self._log(line)

    def warn(self, line: str) -> None:
        """Show and log one line on what goes wrong."""
        self._show(lambda display: display.warn(line))
        self._log(line)

    def begin(self, total: int) -> None:
        """`total` cells are about to run."""
        self._show(lambda display: display.begin(total))

    def advanced(self, label: str, fraction: float, seed: str) -> None:
        """The cell has come so far."""
        self._show(lambda display: display.advanced(label, fraction, seed))
        now = time.monotonic()
        if now >= self._next_line.get(label, 0.0) and fraction < 1:
            self._next_line[label] = now + _INTERVAL
            self._log(f"{label}: seed {seed}, {fraction:.1%}")

    def ended(self, label: str, outcome: str) -> None:
        """The cell has ended."""
        self._show(lambda display: display.ended(label, outcome))
        self._next_line.pop(label, None)
        self._log(f"{label}: {outcome}")

    def close(self) -> None:
        """Nothing more will be shown."""
        self._show(lambda display: display.close())

    def _show(self, show: Callable[[ProgressDisplay], None]) -> None:
        if self._display is None:
            return
        try:
            show(self._display)
        except OSError as error:
            gone, self._display = self._display, None
            with suppress(OSError):
                gone.close()
            self._log(f"nobody sees these lines any more ({error.strerror}): they go on here")

    def _log(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
        except OSError as error:
            complaint = f"{self._file}: cannot be written ({error.strerror}): the log ends here"
            self._file = None
            self._show(lambda display: display.warn(complaint))
