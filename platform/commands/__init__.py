"""What each command does, once its words are understood: a file a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from dprl.platform.commands.audit import audit
from dprl.platform.commands.certify import certify
from dprl.platform.commands.listing import list_registered
from dprl.platform.commands.plot import plot
from dprl.platform.commands.report import report
from dprl.platform.commands.reproduce import reproduce
from dprl.platform.commands.submit import submit
from dprl.platform.commands.sweep import run, sweep
from dprl.platform.commands.ui import ui

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": list_registered,
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
