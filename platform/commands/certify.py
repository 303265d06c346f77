"""`dprl certify`: the planned certificate of each cell."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import add_config, as_json, say
from dprl.platform.errors import EXIT_DONE

HELP = "show the privacy certificate of each cell without running it"
EXAMPLE = "certify regret_vs_epsilon --set episodes=1000"
add_flags = add_config


def run(options: argparse.Namespace) -> int:
    """Show every cell's planned certificate."""
    from dprl.platform.commands.cells import expanded_cells, labels_of, planned_certificates
    from dprl.platform.reports.verdicts import certificate_text

    cells = expanded_cells(options)
    certificates = planned_certificates(cells)
    if options.json:
        say(as_json(certificates))
    else:
        say("\n\n".join(map(certificate_text, labels_of(cells), certificates)))
    return EXIT_DONE
