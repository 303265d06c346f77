"""Papers that can be reproduced, by the name of the algorithm or of the paper."""

from __future__ import annotations

from collections.abc import Callable

from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reproductions import ma_ldp_page, pgc_a3c_page
from dprl.platform.reproductions.engine import Reproduced, Request
from dprl.platform.reproductions.theory import Term, TheoryPaper

ALL = "all"

# Of T = K H: S^2 A H^3 / epsilon, and S^2 A sqrt(H^5 T) / epsilon.
_CENTRAL: Term = {"S": 2.0, "A": 1.0, "H": 3.0, "epsilon": -1.0}
_LOCAL: Term = {**_CENTRAL, "K": 0.5}
CZ22 = TheoryPaper(
    "cz22",
    names={
        "private_ucb_vi": "Private-UCB-VI",
        "private_ucb_po": "Private-UCB-PO",
        "pucb": "PUCB",
        "ldp_obi": "LDP-OBI",
        "bernstein_vi": "bernstein_vi (ours)",
    },
    axes={"H": "env.horizon", "S": "env.n_states", "A": "env.n_actions"},
    base={"H": 4, "S": 3, "A": 2},
    terms={
        "private_ucb_vi": {"none": {"S": 0.5, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
        "private_ucb_po": {"none": {"S": 1.0, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
    },
    # sqrt(H^2 S A T), Domingues et al. 2021, where transitions depend on the step; H S A / epsilon, Vietri et al. 2020;
    # and sqrt(H S A T) / epsilon, Garcelon et al. 2021.
    least={
        "none": {"S": 0.5, "A": 0.5, "H": 1.5, "K": 0.5},
        "jdp": {"S": 1.0, "A": 1.0, "H": 1.0, "epsilon": -1.0},
        "ldp": {"S": 0.5, "A": 0.5, "H": 1.0, "K": 0.5, "epsilon": -1.0},
    },
)
"""Regret bounds beside the runs of tune_configs/cz22.yaml: [CZ22] Table 1, Theorems 1 and 2, Corollaries 1 and 2."""

# Of T = K H: H^3 S^2 A B / epsilon, and S^2 A B sqrt(H^5 T) / epsilon.
_CENTRAL_GAME: Term = {**_CENTRAL, "B": 1.0}
QW24 = TheoryPaper(
    "qw24",
    names={"dp_nash_vi": "DP-Nash-VI"},
    axes={"H": "env.horizon", "S": "env.n_states", "A": "env.n_max_actions", "B": "env.n_min_actions"},
    base={"H": 3, "S": 3, "A": 2, "B": 2},
    terms={
        "dp_nash_vi": {
            "none": {"S": 0.5, "A": 0.5, "B": 0.5, "H": 1.5, "K": 0.5},
            "jdp": _CENTRAL_GAME,
            "ldp": {**_CENTRAL_GAME, "K": 0.5},
        },
    },
    # Theorems 5.3 and 5.6: sqrt(H^2 S (A+B) T), and H S (A+B) / epsilon or sqrt(H S (A+B) T) / epsilon.
    least={
        "none": {"S": 0.5, "A+B": 0.5, "H": 1.5, "K": 0.5},
        "jdp": {"S": 1.0, "A+B": 1.0, "H": 1.0, "epsilon": -1.0},
        "ldp": {"S": 0.5, "A+B": 0.5, "H": 1.0, "K": 0.5, "epsilon": -1.0},
    },
)
"""Regret bounds beside the runs of tune_configs/qw24.yaml: [QW24] Table 1, Theorems 4.1, 5.2 and 5.5."""

PAPERS: dict[str, Callable[[Request], Reproduced]] = {
    paper.name: paper for paper in (pgc_a3c_page.PAPER, ma_ldp_page.PAPER, CZ22, QW24)
}


def wanted(word: str) -> list[str]:
    """Return the papers that `word` names ('pgc-a3c', 'pgc_a3c' or 'all'). Raises UserError."""
    name = word.replace("-", "_").lower()
    if name == ALL:
        return list(PAPERS)
    if name not in PAPERS:
        valid = [*PAPERS, ALL]
        raise broken_rule("PAPER", "must be one that can be reproduced", word, suggestion(name, valid))
    return [name]
