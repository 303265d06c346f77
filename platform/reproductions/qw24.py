"""Regret bounds of [QW24] as data, beside the runs of tune_configs/qw24.yaml.

Paper: [QW24] Table 1, Theorems 4.1, 5.2 and 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprl.platform.reproductions.engine import Findings, Group
from dprl.platform.reproductions.theory import FINAL, MODELS, Term, TheoryPaper, blocks_of, figures_of, key_of, read

AXES = {"H": "env.horizon", "S": "env.n_states", "A": "env.n_max_actions", "B": "env.n_min_actions"}
BASE = {"H": 3, "S": 3, "A": 2, "B": 2}
# Of T = K H: H^3 S^2 A B / epsilon, and S^2 A B sqrt(H^5 T) / epsilon.
_CENTRAL: Term = {"S": 2.0, "A": 1.0, "B": 1.0, "H": 3.0, "epsilon": -1.0}
TERMS: dict[str, Mapping[str, Term]] = {
    "dp_nash_vi": {
        "none": {"S": 0.5, "A": 0.5, "B": 0.5, "H": 1.5, "K": 0.5},
        "jdp": _CENTRAL,
        "ldp": {**_CENTRAL, "K": 0.5},
    },
}
NAMES = {"dp_nash_vi": "DP-Nash-VI"}
GROUPS = tuple(Group(name, words, {"algorithm.name": name}) for name, words in NAMES.items())


def blocks(found: Findings) -> dict[str, str]:
    """Return the tables of the page."""
    return blocks_of(PAPER, found)


def figures(found: Findings) -> dict[str, bytes]:
    """Return the figure of the page."""
    return figures_of(PAPER, found)


PAPER = TheoryPaper(
    name="qw24",
    config="qw24",
    runs=3,
    groups=GROUPS,
    names={**MODELS, **NAMES},
    key=key_of(AXES),
    read=read,
    measures=(FINAL,),
    blocks=blocks,
    figures=figures,
    axes=AXES,
    base=BASE,
    terms=TERMS,
)
