"""Registry of commands: one module each, with HELP, EXAMPLE, `add_flags(parser)` and `run(options)`.

The modules import libraries within `run`, so that `dprl --help` waits for no library.
"""

from __future__ import annotations

import argparse
from typing import Protocol

from dprl.platform.commands import audit, certify, list_parts, plot, report, reproduce, run, submit, sweep, ui


class _Command(Protocol):
    """Module of one command. HELP: one line. EXAMPLE: words that follow the program's name."""

    HELP: str
    EXAMPLE: str

    def add_flags(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's arguments to its own parser."""

    def run(self, options: argparse.Namespace, /) -> int:
        """Run the command and return its exit code. Raises UserError."""


COMMANDS: dict[str, _Command] = {
    "list": list_parts,
    "run": run,
    "sweep": sweep,
    "submit": submit,
    "report": report,
    "plot": plot,
    "certify": certify,
    "audit": audit,
    "reproduce": reproduce,
    "ui": ui,
}
WORKING = {"run", "sweep", "submit", "reproduce"}
"""Commands that do more than answer on standard output."""
