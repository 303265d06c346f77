"""`dprl report`: sweeps side by side, as a page for a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dprl.platform.commands.base import add_json, add_storage, as_json, say, unwritable
from dprl.platform.errors import EXIT_DONE, broken_rule

HELP = "report the best algorithm at each epsilon: a page with figures, tables and tests"
EXAMPLE = "report regret_vs_epsilon"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("sweeps", metavar="SWEEP", nargs="+", help="the name of a sweep, or its folder")
    where = "folder for report.html and its files (default: the sweep's, if only one)"
    parser.add_argument("--out", metavar="DIR", help=where)
    parser.add_argument("--title", help="title of the page (default: the names of the sweeps)")
    parser.add_argument(
        "--compare",
        metavar=("ONE", "OTHER"),
        nargs=2,
        help="also test these two algorithms or cells",
    )
    add_storage(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the report of some sweeps and print its answers."""
    from dprl.platform.reports.report import SweepReport, answer_of, asked_table, budget_table
    from dprl.platform.reports.terminal import write_table
    from dprl.platform.results.home import home_folder

    home = home_folder(options.storage, written=False)
    if options.out is not None and options.out.endswith(".md"):
        raise broken_rule("--out", "must be a folder for report.html", options.out, "write e.g. --out report")
    if options.out is None and len(options.sweeps) > 1:
        rule, remedy = "must be given with several sweeps", "write e.g. --out report"
        raise broken_rule("--out", rule, None, remedy)
    compared = None if options.compare is None else (options.compare[0], options.compare[1])
    found = SweepReport.of(home, options.sweeps, compared)
    place = found.layouts[0].folder if options.out is None else Path(options.out)
    try:
        files = found.write(place, options.resume_command, options.title)
    except OSError as error:
        raise unwritable(place, error, "folder") from None
    if options.json:
        say(as_json({"page": str(files[0]), "files": [str(file) for file in files], **found.data()}))
        return EXIT_DONE
    say("\n".join([*(f"not finished: {line}" for line in found.missing), f"{answer_of(found.groups)}."]))
    for table in (budget_table(found.groups), asked_table(found.groups)):
        if table.body:
            write_table(sys.stdout, table)
    say(f"report    {files[0]}")
    return EXIT_DONE
