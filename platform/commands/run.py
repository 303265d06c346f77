"""`dprl run`: the cells of a config in this process."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import add_config, add_naming
from dprl.platform.commands.sweep import execute

HELP = "run every cell of a config in this process, without Ray"
EXAMPLE = "run smoke --set privacy='{model: jdp, epsilon: 2}' --seeds 2"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_config(parser)
    parser.add_argument("--seeds", metavar="N", help="the same as --set seeds=N")
    add_naming(parser)


def run(options: argparse.Namespace) -> int:
    """Run every cell in this process."""
    if options.seeds is not None:
        options.set.append(f"seeds={options.seeds}")
    return execute(options, "process")
