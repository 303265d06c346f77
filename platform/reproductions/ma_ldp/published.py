"""What [TH23] prints on privacy and regret: Tables 1 and 2, the theorems on order, and what Figure 1 is said to show.

Figure 1 is a picture in which no value can be read, so there are no numbers to compare with; none are guessed.
Paper: [TH23] Tables 1 and 2, Theorems 9, 10 and 11, sec. 8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

GAUSSIAN, LAPLACE, UNIFORM, BOUNDED = "gram_gaussian", "gram_laplace", "gram_uniform", "gram_bounded_laplace"
RUNS = 10
EPISODES, HORIZON, AGENTS, FEATURES = 8500, 5, 2, 2
ALPHA, DELTA = 0.1, 0.1
"""Ours: the paper names neither the failure probability nor the delta of its experiments."""
FIGURE_EPSILONS = {LAPLACE: (0.1, 0.2), GAUSSIAN: (0.05, 0.2)}
"""Of Figure 1, the smaller one first."""


class Row(NamedTuple):
    """A row of Table 1. privacy: as printed. order: of the regret, with 1 for what is hidden, as text."""

    mechanism: str
    name: str
    support: str
    privacy: str
    order: str


_COMMON = "(nd)^5/4 H^7/4 T^3/4 log(ndT/\u03b1)"
TABLE_1 = (
    Row(GAUSSIAN, "Gaussian", "unbounded", "(\u03b5, \u03b4)", f"{_COMMON} log(H/\u03b4)^1/4 \u03b5^-1/2"),
    Row(LAPLACE, "Laplace", "unbounded", "(\u03b5, 0)", f"{_COMMON} \u03b5^-1/2"),
    Row(UNIFORM, "uniform", "bounded", "(0, \u03b4)", f"{_COMMON} log(H/\u03b4)^1/4"),
    Row(BOUNDED, "bounded Laplace", "bounded", "(\u03b5, 0)", "(nd)^5/4 \u03b6^1/4 H^1/4 T^3/4 log(ndT/\u03b1)"),
)
NAMES = {row.mechanism: row.name for row in TABLE_1}


class Side(NamedTuple):
    """A cell of Figure 1."""

    mechanism: str
    epsilon: float

    @property
    def label(self) -> str:
        """What pages call it."""
        return f"{NAMES[self.mechanism]} \u03b5={self.epsilon:g}"


class Order(NamedTuple):
    """That one cell has more regret than another. ratio: of the two, as the theorem's proof has it."""

    theorem: str
    larger: Side
    smaller: Side
    ratio: float

    @property
    def label(self) -> str:
        """The order as an inequality."""
        return f"{self.larger.label} > {self.smaller.label}"


def _by_epsilon(mechanism: str) -> Order:
    small, large = FIGURE_EPSILONS[mechanism]
    return Order("Theorem 9", Side(mechanism, small), Side(mechanism, large), math.sqrt(large / small))


ORDERS = (
    _by_epsilon(LAPLACE),
    _by_epsilon(GAUSSIAN),
    # The proof prints log(H/delta); with the fourth root of Table 1 it is what stands here.
    Order("Theorem 10", Side(GAUSSIAN, 0.2), Side(LAPLACE, 0.2), math.log(HORIZON / DELTA) ** 0.25),
)
"""Theorem 10 is on one epsilon; 0.2 is the one that both mechanisms of Figure 1 have."""


def printed_bound(mechanism: str, epsilon: float, episodes: float) -> float:
    """Return the regret of Table 1 with 1 for the constants that it hides, for Gaussian or Laplace noise."""
    dimension, steps = AGENTS * FEATURES, episodes * HORIZON
    common = dimension**1.25 * HORIZON**1.75 * steps**0.75 * math.log(dimension * steps / ALPHA) / math.sqrt(epsilon)
    return float(common * (math.log(HORIZON / DELTA) ** 0.25 if mechanism == GAUSSIAN else 1.0))
