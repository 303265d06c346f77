"""`dprl reproduce`: papers' experiments, with their numbers beside ours."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Fresh, Json, exit_code, interrupted, json_text, say, stdout_for_results
from dprl.platform.program import resume_command


def reproduce(
    paper: Annotated[str, Parameter(help="pgc-a3c, ma-ldp, or all")] = "all",
    /,
    *,
    quick: Annotated[bool, Parameter(negative="--full", help="as many trials as the paper, or 100 (default)")] = False,
    fresh: Fresh = False,
    as_json: Json = False,
) -> int:
    """Run a paper's experiments and compare its numbers with ours; repeat the command to resume."""
    from dprl.platform.environment_variables import tracking_uri
    from dprl.platform.reports.terminal import Table, write_table
    from dprl.platform.reproductions.engine import Request
    from dprl.platform.reproductions.papers import PAPERS, wanted
    from dprl.platform.results.home import home_folder
    from dprl.platform.sweeps.sweep import SweepOptions

    papers = wanted(paper)
    home, uri = home_folder(None), tracking_uri(None)
    sweep = SweepOptions("", home, "tune", None, uri, fresh, resume_command())
    request = Request(sweep, quick)
    try:
        with stdout_for_results():
            found = [PAPERS[name](request) for name in papers]
    except KeyboardInterrupt as error:
        return interrupted(error)
    # A closed pipe does not change the exit code.
    with suppress(BrokenPipeError):
        if as_json:
            say(json_text({one.paper: {"page": one.page and str(one.page), **one.data} for one in found}))
        for one in found:
            if one.page is not None and not as_json:
                headers, *rows = one.verdicts
                write_table(sys.stdout, Table(headers, rows, headers[:1]))
                say(f"page      {one.page}")
    return exit_code([line for one in found for line in one.failed])
