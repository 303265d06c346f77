"""Families of tests between cells: Welch's test for each declared pair, with Holm's adjustment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from dprl.platform.reports.inference.effects import Effect, Scale, effect, scale_of

LEVEL = 0.05
"""Bound on the probability that a family of pairs has a false difference."""


class Pair(NamedTuple):
    """The test of two cells, numbered as they were given.

    effect: of the first against the second. p_value: of Welch's two-sided test.
    adjusted: the same, adjusted for the family. Both are NaN if a cell has too few seeds for a test.
    """

    first: int
    second: int
    effect: Effect
    p_value: float
    adjusted: float

    @property
    def tested(self) -> bool:
        """Whether both cells have enough seeds for a test."""
        return not math.isnan(self.adjusted)

    @property
    def significant(self) -> bool:
        """Whether the difference is significant in its family."""
        return self.adjusted <= LEVEL

    def better(self, side: Literal["low", "high"]) -> int | None:
        """Return the cell that is significantly better if `side` values are better, None if neither is.

        It is not always the cell with the better centre: its geometric mean may be lower and its tested mean higher.
        """
        if not self.significant:
            return None
        equal = 1.0 if self.effect.scale == "log" else 0.0
        return self.first if (self.effect.value < equal) == (side == "low") else self.second


def family(cells: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]], *, log: bool) -> list[Pair]:
    """Return the tests of these `pairs` of `cells`, each float64[n_seeds], as one family.

    log: whether positive values are compared by their ratio; a pair with a value that is not positive is compared by
    its difference. Cells of fewer than 3 seeds are in no test, and not in the family.
    """
    effects = []
    for i, j in pairs:
        scale: Scale = scale_of(cells[i], cells[j]) if log else "linear"
        effects.append(effect(cells[i], cells[j], scale))
    # The p-values are adjusted for the number of pairs that have one.
    tested = [k for k, found in enumerate(effects) if not math.isnan(found.p_value)]
    adjusted = dict(zip(tested, holm([effects[k].p_value for k in tested]), strict=True))
    return [Pair(*pair, effects[k], effects[k].p_value, adjusted.get(k, math.nan)) for k, pair in enumerate(pairs)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's adjustment, in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = largest
    return found
