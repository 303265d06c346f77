"""`dprl report`: sweeps side by side, as a page for a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, Storage, json_text, say, unwritable
from dprl.platform.errors import EXIT_DONE, broken_rule
from dprl.platform.program import resume_command


def report(
    first: Annotated[str, Parameter("SWEEP", help="the name of a sweep, or its folder")],
    /,
    *more: Annotated[str, Parameter("SWEEP", help="more of them")],
    out: Annotated[
        str | None, Parameter(help="folder for report.html and its files (default: the only sweep's)")
    ] = None,
    title: Annotated[str | None, Parameter(help="title of the page (default: the names of the sweeps)")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> int:
    """Report the best algorithm at each epsilon: a page with figures, tables and tests."""
    from dprl.platform.reports.report import SweepReport, answer_of, budget_table
    from dprl.platform.reports.terminal import write_table
    from dprl.platform.results.home import home_folder

    home = home_folder(storage, written=False)
    if out is not None and out.endswith(".md"):
        raise broken_rule("--out", "must be a folder for report.html", out, "write e.g. --out report")
    if out is None and more:
        rule, remedy = "must be given with several sweeps", "write e.g. --out report"
        raise broken_rule("--out", rule, None, remedy)
    found = SweepReport.of(home, [first, *more])
    place = found.layouts[0].folder if out is None else Path(out)
    try:
        files = found.write(place, resume_command(), title)
    except OSError as error:
        raise unwritable(place, error, "folder") from None
    if as_json:
        say(json_text({"page": str(files[0]), "files": [str(file) for file in files], **found.data()}))
        return EXIT_DONE
    say("\n".join([*(f"not complete: {line}" for line in found.missing), f"{answer_of(found.groups)}."]))
    if (table := budget_table(found.groups)).body:
        write_table(sys.stdout, table)
    say(f"report    {files[0]}")
    return EXIT_DONE
