"""Regret bounds of [CZ22] as data, beside the runs of tune_configs/cz22.yaml.

Paper: [CZ22] Table 1, Theorems 1 and 2, Corollaries 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprl.platform.reproductions.engine import Findings, Group
from dprl.platform.reproductions.theory import FINAL, MODELS, Term, TheoryPaper, blocks_of, figures_of, key_of, read

AXES = {"H": "env.horizon", "S": "env.n_states", "A": "env.n_actions"}
BASE = {"H": 4, "S": 3, "A": 2}
# Of T = K H: S^2 A H^3 / epsilon, and S^2 A sqrt(H^5 T) / epsilon.
_CENTRAL: Term = {"S": 2.0, "A": 1.0, "H": 3.0, "epsilon": -1.0}
_LOCAL: Term = {**_CENTRAL, "K": 0.5}
TERMS: dict[str, Mapping[str, Term]] = {
    "private_ucb_vi": {"none": {"S": 0.5, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
    "private_ucb_po": {"none": {"S": 1.0, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
}
NAMES = {
    "private_ucb_vi": "Private-UCB-VI",
    "private_ucb_po": "Private-UCB-PO",
    "pucb": "PUCB",
    "ldp_obi": "LDP-OBI",
    "bernstein_vi": "bernstein_vi (ours)",
}
GROUPS = tuple(Group(name, words, {"algorithm.name": name}) for name, words in NAMES.items())


def blocks(found: Findings) -> dict[str, str]:
    """Return the tables of the page."""
    return blocks_of(PAPER, found)


def figures(found: Findings) -> dict[str, bytes]:
    """Return the figure of the page."""
    return figures_of(PAPER, found)


PAPER = TheoryPaper(
    name="cz22",
    config="cz22",
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
