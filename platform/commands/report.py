"""`dprl report`: sweeps side by side, as a page for a browser or as Markdown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dprl.platform.commands.base import add_json, add_storage, as_json, say
from dprl.platform.errors import EXIT_DONE, UserError, broken_rule

if TYPE_CHECKING:
    from dprl.platform.reports.pages.writing import SweepReport

HELP = "report the best algorithm at each epsilon: a page with figures, tables and tests"
EXAMPLE = "report regret_vs_epsilon"
_MARKDOWN = ".md"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("sweeps", metavar="SWEEP", nargs="+", help="the name of a sweep, or its folder")
    where = "folder of report.html and its files (default: that of the only sweep), or a file for a Markdown page"
    parser.add_argument("--out", metavar="DIR|FILE.md", help=where)
    parser.add_argument("--title", help="title of the page (default: the names of the sweeps)")
    parser.add_argument("--preface", metavar="FILE.md", help="Markdown for the top of a Markdown page")
    parser.add_argument(
        "--compare",
        metavar=("ONE", "OTHER"),
        nargs=2,
        help="also test these two algorithms or cells; on a Markdown page: ratio of the episodes to half regret, OTHER "
        "algorithm to ONE",
    )
    add_storage(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the report of some sweeps and print its answers."""
    from dprl.platform.results.home import home_folder

    home = home_folder(options.storage)
    if options.out is not None and options.out.endswith(_MARKDOWN):
        return _markdown(options, home)
    if options.preface is not None:
        remedy = "add e.g. --out report.md"
        raise broken_rule("--preface", "is for the Markdown form only", options.preface, remedy)
    from dprl.platform.reports.pages.writing import SweepReport

    if options.out is None and len(options.sweeps) > 1:
        rule, remedy = "must be given with several sweeps", "write e.g. --out report"
        raise broken_rule("--out", rule, None, remedy)
    found = SweepReport.of(home, options.sweeps, options.compare)
    folder = found.layouts[0].folder if options.out is None else Path(options.out)
    try:
        files = found.write(folder, options.resume_command, options.title)
    except OSError as error:
        raise _unwritable("folder", folder, error) from None
    if options.json:
        say(as_json({"page": str(files[0]), "files": [str(file) for file in files], **found.data()}))
        return EXIT_DONE
    _say_answers(found)
    say(f"report    {files[0]}")
    return EXIT_DONE


def _say_answers(found: SweepReport) -> None:
    from dprl.platform.reports.comparing.answers import answers_of
    from dprl.platform.reports.comparing.sentences import heading, lead
    from dprl.platform.reports.tables import write_table

    for line in found.missing:
        say(f"not finished: {line}")
    if answer := heading(found.groups):
        say(answer)
    for sentence in lead(found.groups):
        say(f"  {sentence}")
    for group in found.groups:
        say(f"{group.title}: {group.amount}" if group.amount else group.title)
        rows = [[each.need, each.best or each.note, each.value, each.cost, each.short] for each in answers_of(group)]
        if rows:
            write_table(sys.stdout, ["privacy budget", "best", "[95 % interval]", "cost of privacy", "next best"], rows)


def _markdown(options: argparse.Namespace, home: Path) -> int:
    from dprl.platform.reports.pages.markdown_page import PageRequest, report_page, summaries
    from dprl.platform.results.atomic_files import write_text

    compared = None if options.compare is None else (options.compare[0], options.compare[1])
    wanted = PageRequest(options.title, options.preface, compared, options.resume_command)
    text = report_page(home, options.sweeps, wanted)
    file = Path(options.out)
    try:
        write_text(file, text)
    except OSError as error:
        raise _unwritable("file", file, error) from None
    if options.json:
        say(as_json({"page": str(file), "cells": summaries(home, options.sweeps).to_dict("records")}))
        return EXIT_DONE
    say(f"report    {file}")
    return EXIT_DONE


def _unwritable(kind: str, path: Path, error: OSError) -> UserError:
    rule = f"must be a {kind} that can be written ({error.strerror})"
    return broken_rule("--out", rule, str(path), "choose another")
