"""`dprl compose`: the joint certificate of several runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dprl.platform.commands.base import add_json, as_json, say, unwritable
from dprl.platform.commands.verify import CERTIFICATES
from dprl.platform.errors import EXIT_DONE

HELP = "compose the certificates of several runs on the same or on disjoint users into one"
EXAMPLE = "compose first/certificate.json second/certificate.json --out both.json"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("certificates", metavar="CERT", nargs="+", help=f"{CERTIFICATES}; all must be finished")
    parser.add_argument(
        "--disjoint",
        action="store_true",
        help="you state that no user is in two runs: the worst run counts (default: losses add up)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the joint certificate to a file")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show the joint certificate of several runs."""
    from dprl.atomic_files import write_json
    from dprl.platform.reports.verdicts import certificate_text
    from dprl.platform.results.certificates import composed, expanded

    paths = [path for path, _ in expanded(options.certificates, whole=True)]
    certificate = composed(paths, options.disjoint).to_dict()
    if options.out is not None:
        try:
            write_json(Path(options.out), certificate)
        except OSError as error:
            raise unwritable(options.out, error) from None
    if options.json:
        say(as_json(json.loads(json.dumps(certificate))))
    else:
        say(certificate_text(f"{len(certificate['composition']['of'])} together", certificate))
        users = " and that no user is in two of them" if options.disjoint else ""
        say(f"Assumed, not checked: that the runs drew independent noise{users}.")
        say("Runs with equal seed and settings did not: leave such runs out.")
    return EXIT_DONE
