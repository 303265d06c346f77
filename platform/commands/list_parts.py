"""`dprl list`: names and keys that a config can use."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import add_json, as_json, say
from dprl.platform.errors import EXIT_DONE, broken_rule, suggestion

HELP = "list the names that a config can use"
EXAMPLE = "list bernstein_vi"
_KINDS = ["algorithms", "envs", "trust_models", "counters", "mechanisms", "configs"]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    kinds = f"a kind ({', '.join(_KINDS)}), with all keys"
    text = f"{kinds}; or a name, with its documentation (default: all names)"
    parser.add_argument("what", metavar="WHAT", nargs="?", help=text)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show the names of all kinds, or one kind or one name with all keys."""
    from dprl.platform.reports.listing import listing, listing_text, named, overview_text

    if options.what is None or options.what in _KINDS:
        kinds = listing(options.what)
    elif not (kinds := named(options.what)):
        names = [entry["name"] for entries in listing().values() for entry in entries]
        known = suggestion(options.what, [*_KINDS, *names])
        raise broken_rule("WHAT", "must be a kind of parts, or the name of one", options.what, known)
    text = listing_text if options.what else overview_text
    say(as_json(kinds) if options.json else text(kinds))
    return EXIT_DONE
