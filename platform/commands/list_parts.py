"""`dprl list`: names and keys that a config can use."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, json_text, say
from dprl.platform.errors import EXIT_DONE, broken_rule, suggestion

_KINDS = ["algorithms", "envs", "trust_models", "counters", "mechanisms", "configs"]
_WHAT = f"a kind ({', '.join(_KINDS)}), with all keys; or a name, with its documentation (default: all names)"


def list_parts(what: Annotated[str | None, Parameter(help=_WHAT)] = None, /, *, as_json: Json = False) -> int:
    """List the names that a config can use."""
    from dprl.platform.reports.listing import listing, listing_text, named, overview_text

    if what is None or what in _KINDS:
        kinds = listing(what)
    elif not (kinds := named(what)):
        names = [entry["name"] for entries in listing().values() for entry in entries]
        known = suggestion(what, [*_KINDS, *names])
        raise broken_rule("WHAT", "must be a kind of parts, or the name of one", what, known)
    text = listing_text if what else overview_text
    say(json_text(kinds) if as_json else text(kinds))
    return EXIT_DONE
