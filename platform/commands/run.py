"""`dprl run`: the cells of a config in this process."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import add_config, add_naming
from dprl.platform.commands.sweep import add_dry_run, add_tracking, execute, show_cells

HELP = "run every cell of a config in this process, without Ray"
EXAMPLE = "run smoke --set privacy='{model: jdp, epsilon: 2}' --seeds 2"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_config(parser)
    parser.add_argument("--seeds", metavar="N", help="the same as --set seeds=N")
    add_naming(parser)
    add_tracking(parser)
    add_dry_run(parser)


def run(options: argparse.Namespace) -> int:
    """Run every cell in this process, or with --dry-run only show the cells."""
    if options.seeds is not None:
        options.set.append(f"seeds={options.seeds}")
    return show_cells(options) if options.dry_run else execute(options, "process")
