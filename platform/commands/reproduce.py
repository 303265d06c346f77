"""`dprl reproduce`: published experiments again."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from dprl.platform.commands.base import as_json, interrupted, say, stdout_for_results
from dprl.platform.environment_variables import tracking_uri
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, complain
from dprl.platform.results.home import home_folder


def reproduce(options: argparse.Namespace) -> int:
    """Run papers' experiments, as far as they are not finished, and write their numbers beside ours."""
    # Only here: pandas and the compiled loops take time to load.
    from dprl.platform.reports.tables import write_table  # noqa: PLC0415
    from dprl.platform.reproductions.engine import Request  # noqa: PLC0415
    from dprl.platform.reproductions.papers import PAPERS, wanted  # noqa: PLC0415

    papers = wanted(options.paper)
    home, uri = home_folder(None), tracking_uri(None)
    request = Request(home, options.quick, options.resume_command, fresh=options.fresh, tracking_uri=uri)
    try:
        with stdout_for_results():
            found = [PAPERS[paper](request) for paper in papers]
    except KeyboardInterrupt as error:
        return interrupted(error, options)
    # A reader who goes away changes nothing about how the papers came out.
    with suppress(BrokenPipeError):
        if options.json:
            say(as_json({one.paper: {"page": one.page and str(one.page), **one.data} for one in found}))
        for one in found:
            if one.page is not None and not options.json:
                headers, *rows = one.verdicts
                write_table(sys.stdout, headers, rows)
                say(f"page      {one.page}")
    for one in found:
        for line in one.failed:
            complain(f"dprl: failed: {line}")
    return EXIT_SOME_FAILED if any(one.failed for one in found) else EXIT_DONE
