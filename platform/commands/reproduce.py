"""`dprl reproduce`: papers' experiments, with their numbers beside ours."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Literal

from cyclopts import Parameter

from dprl.platform.commands.base import Fresh, Json, exit_code, interrupted, json_text, say, stdout_for_results
from dprl.platform.program import resume_command


def reproduce(
    paper: Annotated[
        Literal["cz22", "qw24", "ot20", "th23"], Parameter(help="the paper, as docs/paper_map.md names it")
    ],
    /,
    *,
    quick: Annotated[
        bool, Parameter(negative="--full", help="as few trials as the paper, or 3 (default: all)")
    ] = False,
    fresh: Fresh = False,
    as_json: Json = False,
) -> int:
    """Run a paper's experiments and compare its numbers with ours; repeat the command to resume."""
    from dprl.papers import compare
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.reports.terminal import Table, write_table
    from dprl.platform.results.home import home_folder
    from dprl.platform.sweeps.sweep import SweepOptions

    sweep = SweepOptions("", home_folder(None), "tune", None, tracking_uri(None), fresh, resume_command())
    try:
        with stdout_for_results():
            sections, page, failed = compare.reproduce(import_module(f"dprl.papers.{paper}"), sweep, quick)
    except KeyboardInterrupt as error:
        return interrupted(error)
    # A closed pipe does not change the exit code.
    with suppress(BrokenPipeError):
        if as_json:
            say(json_text({"page": page and str(page), **{one.title: one.records() for one in sections}}))
        elif page is not None:
            for one in (one for one in sections if len(one.texts)):
                say(one.title)
                headers, rows = [*one.texts.columns], one.texts.to_numpy().tolist()
                write_table(sys.stdout, Table(headers, rows, headers))
                say("")
            say(f"page      {page}")
    return exit_code(failed)
