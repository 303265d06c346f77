"""`dprl list`: names and keys that a config can use."""

from __future__ import annotations

import argparse

from dprl.platform.commands.base import add_json, as_json, say
from dprl.platform.errors import EXIT_DONE

HELP = "list the names that a config can use"
EXAMPLE = "list envs"
_KINDS = ["algorithms", "envs", "trust_models", "counters", "mechanisms", "configs"]
_SCHEMA = "schema"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    text = "one kind, with all keys (default: only names); schema: all kinds as a JSON schema of configs, for editors"
    parser.add_argument("kind", nargs="?", choices=[*_KINDS, _SCHEMA], help=text)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show the names of all kinds, one kind with all keys, or the JSON schema of configs."""
    if options.kind == _SCHEMA:
        from dprl.platform.reports.json_schema import config_schema

        say(as_json(config_schema()))
        return EXIT_DONE
    from dprl.platform.reports.listing import listing, listing_text, overview_text

    kinds = listing(options.kind)
    text = listing_text if options.kind else overview_text
    say(as_json(kinds) if options.json else text(kinds))
    return EXIT_DONE
