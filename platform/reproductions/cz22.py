"""Regret bounds of [CZ22] as data, beside the runs of tune_configs/cz22.yaml.

Paper: [CZ22] Table 1, Theorems 1 and 2, Corollaries 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprl.platform.reproductions.theory import Term, TheoryPaper

AXES = {"H": "env.horizon", "S": "env.n_states", "A": "env.n_actions"}
BASE = {"H": 4, "S": 3, "A": 2}
# Of T = K H: S^2 A H^3 / epsilon, and S^2 A sqrt(H^5 T) / epsilon.
_CENTRAL: Term = {"S": 2.0, "A": 1.0, "H": 3.0, "epsilon": -1.0}
_LOCAL: Term = {**_CENTRAL, "K": 0.5}
TERMS: dict[str, Mapping[str, Term]] = {
    "private_ucb_vi": {"none": {"S": 0.5, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
    "private_ucb_po": {"none": {"S": 1.0, "A": 0.5, "H": 2.0, "K": 0.5}, "jdp": _CENTRAL, "ldp": _LOCAL},
}
# sqrt(H^2 S A T), Domingues et al. 2021, where transitions depend on the step; H S A / epsilon, Vietri et al. 2020; and
# sqrt(H S A T) / epsilon, Garcelon et al. 2021.
LEAST: Mapping[str, Term] = {
    "none": {"S": 0.5, "A": 0.5, "H": 1.5, "K": 0.5},
    "jdp": {"S": 1.0, "A": 1.0, "H": 1.0, "epsilon": -1.0},
    "ldp": {"S": 0.5, "A": 0.5, "H": 1.0, "K": 0.5, "epsilon": -1.0},
}
NAMES = {
    "private_ucb_vi": "Private-UCB-VI",
    "private_ucb_po": "Private-UCB-PO",
    "pucb": "PUCB",
    "ldp_obi": "LDP-OBI",
    "bernstein_vi": "bernstein_vi (ours)",
}

PAPER = TheoryPaper("cz22", NAMES, AXES, BASE, TERMS, LEAST)
