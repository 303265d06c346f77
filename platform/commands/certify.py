"""`dprl certify`: what the noise of each cell proves."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import as_json, expanded_cells, labels_of, planned_certificates, say
from dprl.platform.errors import EXIT_DONE
from dprl.platform.reports.verdicts import certificate_text


def certify(options: argparse.Namespace) -> int:
    """Show every cell's planned certificate."""
    cells = expanded_cells(options)
    certificates = planned_certificates(cells)
    if options.json:
        say(as_json(certificates))
    else:
        texts = map(certificate_text, labels_of(cells), certificates)
        say("\n\n".join(texts))
    return EXIT_DONE
