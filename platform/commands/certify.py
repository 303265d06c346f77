"""`dprl certify` and `dprl audit`: what noise proves, and what attacks on it measure."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import as_json, expanded_cells, labels_of, planned_certificates, say
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED
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


def audit(options: argparse.Namespace) -> int:
    """Attack the noise of each cell, of one mechanism or of every paper's claims."""
    # Only here: its kernels take seconds to load.
    from dprl.platform.audits.answer import audit_command  # noqa: PLC0415

    answer = audit_command(options, labels_of)
    say(as_json(answer.data) if options.json else answer.text)
    return EXIT_SOME_FAILED if answer.violated else EXIT_DONE
