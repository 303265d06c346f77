"""Which papers can be reproduced, by the name of the algorithm."""

from __future__ import annotations

from collections.abc import Callable

from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reproductions.ma_ldp import reproduction as ma_ldp
from dprl.platform.reproductions.pgc_a3c import reproduction as pgc_a3c
from dprl.platform.reproductions.request import Reproduced, Request

ALL = "all"
PAPERS: dict[str, Callable[[Request], Reproduced]] = {
    pgc_a3c.NAME: pgc_a3c.reproduce,
    ma_ldp.NAME: ma_ldp.reproduce,
}


def wanted(word: str) -> list[str]:
    """Return the papers that a word names, 'pgc-a3c' like 'pgc_a3c', or all of them. Raises UserError."""
    name = word.replace("-", "_").lower()
    if name == ALL:
        return list(PAPERS)
    if name not in PAPERS:
        valid = [*PAPERS, ALL]
        raise broken_rule("PAPER", "must be one that can be reproduced", word, suggestion(name, valid))
    return [name]
