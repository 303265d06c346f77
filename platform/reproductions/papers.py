"""Papers that can be reproduced, by the name of the algorithm."""

from __future__ import annotations

from collections.abc import Callable

from dprl.platform.configs.config import config_files
from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reproductions import ma_ldp, pgc_a3c
from dprl.platform.reproductions.engine import Reproduced, Request

ALL = "all"
PAPERS: dict[str, Callable[[Request], Reproduced]] = {paper.name: paper for paper in (pgc_a3c.PAPER, ma_ldp.PAPER)}


def wanted(word: str) -> list[str]:
    """Return the papers that `word` names ('pgc-a3c', 'pgc_a3c' or 'all'). Raises UserError."""
    name = word.replace("-", "_").lower()
    if name == ALL:
        return list(PAPERS)
    if name not in PAPERS:
        remedy = suggestion(name.replace("_", "-"), [*(paper.replace("_", "-") for paper in PAPERS), ALL])
        remedy += f"; the sweep stays: dprl sweep {name}" * (name in config_files())
        raise broken_rule("PAPER", "must be one that can be reproduced", word, remedy)
    return [name]
