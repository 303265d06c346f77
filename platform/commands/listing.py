"""`dprl list`: what a config can name."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import as_json, say
from dprl.platform.errors import EXIT_DONE
from dprl.platform.reports.listing import listing, listing_text


def list_registered(options: argparse.Namespace) -> int:
    """Show what a config can name."""
    kinds = listing(options.kind)
    say(as_json(kinds) if options.json else listing_text(kinds))
    return EXIT_DONE
