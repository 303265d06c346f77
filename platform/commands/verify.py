"""`dprl verify`: certificates computed again from their own fields."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dprl.platform.commands.base import add_json, as_json, say
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED

HELP = "compute certificates again from their own fields, and say whether they stand"
EXAMPLE = "verify dprl_runs/sweeps/smoke/cells/*"
CERTIFICATES = "certificate.json, or the folder that holds it"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("certificates", metavar="CERT", nargs="+", help=CERTIFICATES)
    add_json(parser)
    parser.epilog = (
        f"{parser.epilog}\n\nExit codes: 0 all stand, 1 a field contradicts the others, 2 bad input.\n"
        "A certificate can stand and its claim fail: the verdict of each is shown.\n"
        "It is not shown that the sensitivities fit the config, nor that this noise was drawn. The checksum finds\n"
        "accidents, not forgery."
    )


def run(options: argparse.Namespace) -> int:
    """Compute certificates again and name the fields that do not stand."""
    from dprl.platform.reports.verdicts import verdict_line
    from dprl.platform.results.certificates import certificates_in, verified

    found = {label: one for path in options.certificates for label, one in certificates_in(path).items()}
    results = {label: verified(label, one) for label, one in found.items()}
    if options.json:
        say(as_json([_data(label, each.stands, map(asdict, each.differences)) for label, each in results.items()]))
    else:
        for label, each in results.items():
            lines = [f"{label}: {f'stands. {verdict_line(found[label])}' if each.stands else 'DOES NOT STAND'}"]
            say("\n".join([*lines, *(f"  {difference}" for difference in each.differences)]))
    return EXIT_DONE if all(each.stands for each in results.values()) else EXIT_SOME_FAILED


def _data(label: str, stands: bool, differences: object) -> dict[str, object]:
    return {"certificate": label, "stands": stands, "differences": list(differences)}  # type: ignore[call-overload]
