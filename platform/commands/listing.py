"""`dprl list`: what a config can name."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import as_json, say
from dprl.platform.errors import EXIT_DONE
from dprl.platform.reports.listing import listing, listing_text, overview_text


def list_registered(options: argparse.Namespace) -> int:
    """Show what a config can name: the names of all kinds, or one kind with all keys."""
    kinds = listing(options.kind)
    text = listing_text if options.kind else overview_text
    say(as_json(kinds) if options.json else text(kinds))
    return EXIT_DONE
