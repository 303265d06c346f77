"""Regret bounds of [QW24] as data, beside the runs of tune_configs/qw24.yaml.

Paper: [QW24] Table 1, Theorems 4.1, 5.2 and 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprl.platform.reproductions.theory import Term, TheoryPaper

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
# Theorems 5.3 and 5.6: sqrt(H^2 S (A+B) T), and H S (A+B) / epsilon or sqrt(H S (A+B) T) / epsilon.
LEAST: Mapping[str, Term] = {
    "none": {"S": 0.5, "A+B": 0.5, "H": 1.5, "K": 0.5},
    "jdp": {"S": 1.0, "A+B": 1.0, "H": 1.0, "epsilon": -1.0},
    "ldp": {"S": 0.5, "A+B": 0.5, "H": 1.0, "K": 0.5, "epsilon": -1.0},
}
NAMES = {"dp_nash_vi": "DP-Nash-VI"}

PAPER = TheoryPaper("qw24", NAMES, AXES, BASE, TERMS, LEAST)
