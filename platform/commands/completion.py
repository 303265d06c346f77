"""`dprl completion`: the script that lets a shell complete commands, flags and configs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import cast

from dprl.platform.commands.base import say
from dprl.platform.errors import EXIT_DONE

HELP = "print a script for completion in your shell"
EXAMPLE = "completion bash"
_SHELLS = ("bash", "zsh", "tcsh")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add SHELL."""
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")


def run(options: argparse.Namespace) -> int:
    """Print the script; `eval "$(dprl completion bash)"` in ~/.bashrc loads it."""
    import shtab

    parser: argparse.ArgumentParser = options.parser
    parser.prog = "dprl"  # shells find it by the last part of a path, too
    for parts in parser._subparsers._group_actions if parser._subparsers else ():
        for own in cast("Mapping[str, argparse.ArgumentParser]", parts.choices).values():
            for action in own._actions:
                if action.metavar == "CONFIG":
                    action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab's own
    say(shtab.complete(parser, options.shell))
    return EXIT_DONE
