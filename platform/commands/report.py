"""`dprl report`: finished sweeps side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from dprl.platform.commands.base import as_json, home_folder, say
from dprl.platform.errors import EXIT_DONE, broken_rule

_PAGE_SUFFIX = ".md"


def report(options: argparse.Namespace) -> int:
    """Write the cells of finished sweeps as one Markdown page."""
    home = home_folder(options.storage)
    if options.out is not None and not options.out.endswith(_PAGE_SUFFIX):
        rule, remedy = f"must be a Markdown file, its name ending in {_PAGE_SUFFIX}", "write e.g. --out report.md"
        raise broken_rule("--out", rule, options.out, remedy)
    # Only here: pandas takes time to load.
    from dprl.platform.reports.pages.markdown_page import PageRequest, report_page, summaries  # noqa: PLC0415
    from dprl.platform.sweeps.atomic_files import write_text  # noqa: PLC0415

    if options.json:
        say(as_json(summaries(home, options.sweeps).to_dict("records")))
        return EXIT_DONE
    compared = None if options.compare is None else (options.compare[0], options.compare[1])
    wanted = PageRequest(options.title, options.preface, compared, options.resume_command)
    text = report_page(home, options.sweeps, wanted)
    if options.out is None:
        say(text.removesuffix("\n"))
        return EXIT_DONE
    file = Path(options.out)
    try:
        write_text(file, text)
    except OSError as error:
        rule = f"must be a file that can be written ({error.strerror})"
        raise broken_rule("--out", rule, options.out, "choose another") from None
    say(f"report    {file}")
    return EXIT_DONE
