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

    effect: of the first against the second. p_value: of Welch's two-sided test, multiplied by the number of looks.
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


def family(
    cells: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]], *, log: bool, looks: Sequence[int] = ()
) -> list[Pair]:
    """Return the tests of these `pairs` of `cells`, each float64[n_seeds], as one family.

    log: whether positive values are compared by their ratio; a pair with a value that is not positive is compared by
    its difference. looks: number of sets of seeds that each cell could have had, if results decided among them; () if
    seeds were fixed. A pair is corrected for the product of both cells' looks. Cells of fewer than 3 seeds are in no
    test, and not in the family.
    """
    price = looks or [1] * len(cells)
    effects = [_effect(cells[i], cells[j], price[i] * price[j], log=log) for i, j in pairs]
    return _adjusted(pairs, effects, [found.p_value for found in effects])


def family_in_stages(
    cells: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]], per_stage: int, stages: int, *, log: bool
) -> list[Pair]:
    """Return the tests of `pairs` of cells with seeds in stages; some cells may have had fewer stages.

    cells: float64[k * per_stage] each, in the order of the stages. stages: their maximum, fixed in advance. After
    every stage a pair may be significant and need no more seeds. `p_value` is the least p-value of all stages times
    `stages`, which is valid whatever decided the number of seeds; `effect` is that of the same stage, and `adjusted`
    is Holm's over the family. A pair that is significant once stays so, because both only fall. So the probability of
    any false difference, at any stage, is at most 5 % whatever else differs. Raises ValueError for a cell with more
    seeds than the stages have.
    """
    looks = max((len(values) for values in cells), default=0) // per_stage
    if looks > stages:
        raise ValueError(f"cells must have at most {stages} stages of {per_stage} seeds, got {looks}; add to `stages`")
    effects, p_values = [], []
    for i, j in pairs:
        seen = max(1, min(len(cells[i]), len(cells[j])) // per_stage)
        sizes = [look * per_stage for look in range(1, seen + 1)]
        at_looks = [_effect(cells[i][:size], cells[j][:size], stages, log=log) for size in sizes]
        effects.append(min(at_looks, key=lambda found: (math.isnan(found.p_value), found.p_value)))
        p_values.append(effects[-1].p_value)
    return _adjusted(pairs, effects, p_values)


def _effect(first: np.ndarray, second: np.ndarray, looks: int, *, log: bool) -> Effect:
    scale: Scale = scale_of(first, second) if log else "linear"
    return effect(first, second, scale, looks)


def _adjusted(pairs: Sequence[tuple[int, int]], effects: Sequence[Effect], p_values: Sequence[float]) -> list[Pair]:
    """Return the pairs with p-values adjusted for the number of pairs that have one."""
    tested = [k for k, p_value in enumerate(p_values) if not math.isnan(p_value)]
    adjusted = dict(zip(tested, holm([p_values[k] for k in tested]), strict=True))
    return [Pair(*pair, effects[k], p_values[k], adjusted.get(k, math.nan)) for k, pair in enumerate(pairs)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's adjustment, in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = largest
    return found
