"""`dprl reproduce`: papers' experiments, with their numbers beside ours."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from dprl.platform.commands.base import SWITCHES, add_json, as_json, exit_code, interrupted, say, stdout_for_results

HELP = "run a paper's experiments and compare its numbers with ours; repeat the command to resume"
EXAMPLE = "reproduce pgc-a3c --quick"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("paper", metavar="PAPER", nargs="?", default="all", help="pgc-a3c, ma-ldp, or all (default)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        action="store_true",
        help="as many trials as the paper: 20, or 10 for ma-ldp",
    )
    size.add_argument("--full", action="store_true", help="100 trials, for narrower intervals (default)")
    parser.add_argument("--fresh", action="store_true", help=SWITCHES["--fresh"])
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run papers' unfinished experiments, and write their numbers beside ours."""
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.reports.terminal import Table, write_table
    from dprl.platform.reproductions.engine import Request
    from dprl.platform.reproductions.papers import PAPERS, wanted
    from dprl.platform.results.home import home_folder
    from dprl.platform.sweeps.sweep import SweepOptions

    papers = wanted(options.paper)
    home, uri = home_folder(None), tracking_uri(None)
    sweep = SweepOptions("", home, "tune", None, uri, options.fresh, options.resume_command)
    request = Request(sweep, options.quick)
    try:
        with stdout_for_results():
            found = [PAPERS[paper](request) for paper in papers]
    except KeyboardInterrupt as error:
        return interrupted(error, options)
    # A closed pipe does not change the exit code.
    with suppress(BrokenPipeError):
        if options.json:
            say(as_json({one.paper: {"page": one.page and str(one.page), **one.data} for one in found}))
        for one in found:
            if one.page is not None and not options.json:
                headers, *rows = one.verdicts
                write_table(sys.stdout, Table(headers, rows, headers[:1]))
                say(f"page      {one.page}")
    return exit_code([line for one in found for line in one.failed])
