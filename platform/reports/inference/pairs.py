"""Which of several cells differ: Welch's test of every pair, adjusted by Holm for being that many."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_ind_from_stats

from dprl.platform.reports.inference.intervals import FEWEST_SEEDS

LEVEL = 0.05
"""At most with this probability a family of pairs has a false difference."""
_SAME = 1e-9
"""Relative difference of two means below which they are equal: exact values differ by roundings."""


class Pair(NamedTuple):
    """The test of two cells, numbered as they were given.

    difference: of the means, first minus second. p_value: of Welch's two-sided test, times what looking again costs.
    adjusted: the same for the family.
    Both are NaN where a cell has too few seeds for a test.
    """

    first: int
    second: int
    difference: float
    p_value: float
    adjusted: float

    @property
    def differs(self) -> bool:
        """Whether the two are told apart; nothing is where there is no test."""
        return self.adjusted <= LEVEL


def all_pairs(cells: Sequence[np.ndarray], looks: Sequence[int] = ()) -> list[Pair]:
    """Return the test of every pair of `cells`, each float64[n_seeds], one family.

    looks: how many sets of seeds each cell could have come with, where what was seen chose among them; nothing if none
    could have others. A p-value is times the looks of both cells, one for each pair of sets: so it is valid whatever
    the choice was.

    Welch's test asks whether the means differ, which is what tables show, and lets the variances differ, as they do
    between levels of noise. It takes values for normal. A permutation test would not, but it takes all cells of a pair
    for alike but for the mean, and its least p-value for three seeds a cell is 0.1, for five 0.008 before any
    adjustment: it could never tell many cells apart. Cells of fewer than 3 seeds are in no test, and not in the family.
    """
    count = len(cells)
    sizes = np.array([len(values) for values in cells])
    means = np.array([values.mean() for values in cells])
    spreads = np.array([values.std(ddof=1) if len(values) > 1 else math.nan for values in cells])
    one, other = np.array(list(itertools.combinations(range(count), 2)), dtype=np.int64).reshape(-1, 2).T
    tested = (sizes[one] >= FEWEST_SEEDS) & (sizes[other] >= FEWEST_SEEDS)
    p_values = np.full(len(one), math.nan)
    price = np.array(looks or [1] * count)
    found = _welch(means, spreads, sizes, one[tested], other[tested])
    p_values[tested] = np.minimum(1.0, found * price[one[tested]] * price[other[tested]])
    adjusted = np.full(len(one), math.nan)
    adjusted[tested] = holm(p_values[tested].tolist())
    differences = means[one] - means[other]
    columns = (one.tolist(), other.tolist(), differences.tolist(), p_values.tolist(), adjusted.tolist())
    return [Pair(*row) for row in zip(*columns, strict=True)]


def all_pairs_in_stages(cells: Sequence[np.ndarray], per_stage: int, stages: int) -> list[Pair]:
    """Return the test of every pair of cells whose seeds came in stages, of which some cells may have had fewer.

    cells: float64[k * per_stage] each, in the order of the stages. stages: at most so many, fixed in advance. After
    every stage a pair may be told apart and need no more seeds. p_value is the least of those after each stage times
    `stages`, which is valid however the number of seeds came about, and `adjusted` Holm's over all pairs. A pair that
    is told apart once stays so: both only fall. So the probability of any false difference, at any stage, is at most
    5 % whatever else differs. Raises ValueError for a cell with more seeds than the stages have.
    """
    looks = max(len(values) for values in cells) // per_stage
    if looks > stages:
        raise ValueError(f"cells must have at most {stages} stages of {per_stage} seeds, got {looks}; add to `stages`")
    least: dict[tuple[int, int], float] = {}
    final = all_pairs(cells)
    for look in range(1, looks + 1):
        size = look * per_stage
        for pair in all_pairs([values[:size] for values in cells]):
            both = min(len(cells[pair.first]), len(cells[pair.second])) >= size
            if both and not math.isnan(pair.p_value):
                key = pair.first, pair.second
                least[key] = min(least.get(key, 1.0), pair.p_value * stages)
    adjusted = dict(zip(least, holm(list(least.values())), strict=True))
    none = math.nan
    return [pair._replace(p_value=least.get(pair[:2], none), adjusted=adjusted.get(pair[:2], none)) for pair in final]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm for being that many, in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = largest
    return found


def _welch(means: np.ndarray, spreads: np.ndarray, sizes: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the two-sided p-values of pairs of cells; where neither varies, 1 for equal means and else 0."""
    # A spread of roundings would make a difference of them.
    real = np.where(spreads > _SAME * np.abs(means), spreads, 0.0)
    first, second = ((means[i], real[i], sizes[i]) for i in (one, other))
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = ttest_ind_from_stats(*first, *second, equal_var=False).pvalue
    same = np.isclose(means[one], means[other], rtol=_SAME, atol=0.0)
    still = (real[one] == 0.0) & (real[other] == 0.0)
    return np.where(still, np.where(same, 1.0, 0.0), p_values)
