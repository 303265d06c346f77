"""Registry of commands: one module each, with HELP, EXAMPLE, `add_flags(parser)` and `run(options)`.

The modules import libraries within `run`, so that `dprl --help` waits for no library.
"""

from __future__ import annotations

import argparse
from typing import Protocol

from dprl.platform.commands import (
    audit,
    certify,
    compose,
    list_parts,
    new,
    plot,
    report,
    reproduce,
    run,
    submit,
    sweep,
    ui,
    verify,
)


class _Command(Protocol):
    """Module of one command. HELP: one line. EXAMPLE: words that follow the program's name."""

    HELP: str
    EXAMPLE: str

    def add_flags(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's arguments to its own parser."""

    def run(self, options: argparse.Namespace, /) -> int:
        """Run the command and return its exit code. Raises UserError."""


GROUPS: dict[str, dict[str, _Command]] = {
    "run experiments": {"run": run, "sweep": sweep, "submit": submit, "reproduce": reproduce},
    "look at results": {"report": report, "plot": plot, "ui": ui},
    "check privacy": {"certify": certify, "verify": verify, "compose": compose, "audit": audit},
    "write configs and parts": {"list": list_parts, "new": new},
}
"""Commands by their headings in the help."""
COMMANDS: dict[str, _Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
WORKING = {"run", "sweep", "submit", "reproduce"}
"""Commands that do more than answer on standard output."""
