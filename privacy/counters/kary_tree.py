"""The k-ary tree counter with signed digits: a prefix is a combination of added and subtracted blocks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import CounterState, Tally, Tree, node_of
from dprl.privacy.counters.error import failure_of_a_cell, tree_bound
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity


@dataclass(frozen=True)
class KaryTree(Tree):
    """The k-ary tree counter with balanced digits: |digit| <= (k-1)/2, negative ones subtract blocks.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is as private as h copies of `row`, h = min{h : (k^h - 1)/2 >= T}, also if later rows depend on earlier
    outputs: with Laplace(b) nodes (l1 * h / b, 0)-DP, with Gaussian(sigma) nodes mu-GDP for mu = sqrt(h) * l2 / sigma.
    Item 1 attains this if T = (k^h - 1)/2; otherwise it is an upper bound.

    A prefix with negative digits reveals differences of nodes before the row of an item in both is chosen, and that row
    may depend on them. Given such a difference, the two noises are not independent. For a pure guarantee and for
    Gaussian noise this does not matter (only the shift of all nodes together counts); a curve at delta > 0 of Laplace
    noise must treat the h nodes of a cell as one release, with a loss of h / b. Discrete Gaussian noise is accounted by
    zCDP: given the differences it is discrete Gaussian on a line of the lattice, and shifted by a vector of that line;
    for sigma^2 >= 3 h its moments are those of the Gaussian up to a factor of 1 + 1e-25.

    The noise of a prefix is that of its parent (the prefix with the lowest non-zero digit one step closer to zero) plus
    or minus one node that belongs to this prefix alone; parents may be later prefixes.

    >>> tree = KaryTree(1000).suited("l1")
    >>> tree.k, tree.levels, round(tree.errors()[0], 2)  # nodes have standard deviation 1
    (13, 3, 3.08)

    Args:
        n_items: T, the maximum number of items.
        node: the noise of every node; None if only the geometry is needed.
        base: k, odd; 0 for the base with the smallest mean squared error for T items and the node's norm.

    Paper: Andersson, Pagh, Steiner, Torkamani 2024, "Count on your elders: Laplace vs Gaussian noise".
    """

    n_items: int
    node: Mechanism | None = None
    base: int = 0
    name: ClassVar[str] = "kary_tree"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base != 0 and (self.base < 3 or self.base % 2 == 0):
            raise ValueError(f"base must be odd and at least 3, got {self.base}; leave it out for the best one")
        least = self.node.least_joined_square if self.node else 0.0
        if self.node and self.levels > 1 and self.node.scale**2 < least * self.levels:
            raise ValueError(
                f"node must have a scale of at least sqrt({least:g} h) in a kary_tree of h = {self.levels} levels, got "
                f"{self.node.scale:g}; use counter: binary_tree for that little noise"
            )

    def suited(self, norm: str) -> Self:
        """Return the counter with the best base for noise with a scale that grows with `norm`."""
        return self if self.base else replace(self, base=best_base(self.n_items, norm))

    @property
    def k(self) -> int:
        """The base."""
        return self.base or best_base(self.n_items, "l1" if self.node is None else self.node.norm)

    @property
    def levels(self) -> int:
        """h: the number of noisy nodes that item 1 enters, and the maximum for any item."""
        return height(self.n_items, self.k)

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return one copy of `row` for every level, joined per cell."""
        return row.joined(self.levels)

    def explain(self) -> str:
        """Return the line that says how often a row counts."""
        k, h = self.k, self.levels
        return (
            f"a row counts h = {h} times: it is in at most one node of each level of a tree with k = {k} branches, and "
            f"(k^h - 1) / 2 = {(k**h - 1) // 2:,} covers T = {self.n_items:,} releases"
        )

    @property
    def attained(self) -> bool:
        """True if T = (k^h - 1)/2, because there are then as many prefixes as nodes; otherwise it is not known."""
        return 2 * self.n_items + 1 == int(self.k**self.levels)

    def profile(self) -> Float64Array:
        """Return the square root of the number of blocks of each prefix, float64[T]."""
        k, rest, blocks = self.k, np.arange(1, self.n_items + 1, dtype=np.int64), np.zeros(self.n_items)
        for _ in range(self.levels):
            shifted = rest + k // 2
            rest = shifted // k
            blocks += np.abs(shifted - rest * k - k // 2)
        return np.sqrt(blocks)

    def depths(self, users: int) -> Tally:
        """Return the number of prefixes among 1..users by their number of blocks, from the highest digit down.

        Below the first digit that is smaller than that of `users`, the digits of a prefix are free.
        """
        half = self.k // 2
        free, digit = [np.ones(1, dtype=np.int64)], np.full(half + 1, 2, dtype=np.int64)
        digit[0] = 1
        digits = _digits(users, self.k)
        for _ in digits:
            free.append(np.convolve(free[-1], digit))
        found, above = Counter[int]({sum(map(abs, digits)): 1}), 0
        for level in reversed(range(len(digits))):
            leading = above == 0
            for smaller in range(0 if leading else -half, digits[level]):
                below = free[level]
                if leading and smaller == 0:
                    below = (below - (np.arange(below.size) == 0)) // 2  # only the positive one of t and -t
                for blocks, prefixes in enumerate(below.tolist()):
                    found[above + abs(smaller) + blocks] += prefixes
            above += abs(digits[level])
        return Tally.of(found)

    def errors(self) -> tuple[float, float]:
        """Return the roots of the mean and of the largest number of blocks."""
        return math.sqrt(mean_blocks(self.n_items, self.k)), math.sqrt(_most_blocks(self.n_items, self.k))

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta no error of n_cells sums of `summands` cells is larger, at 1..users."""
        return tree_bound(self.k, users or self.n_items, node_of(self), failure_of_a_cell(n_cells, beta), summands)

    @property
    def _n_rows(self) -> int:
        # The highest digit is never negative.
        return 2 + (self.levels - 1) * (self.k // 2 + 1)

    def memory(self, n_cells: int) -> int:
        """Return the bytes of (k + 1)/2 rows per level, one for the highest, and a row of zeros."""
        return self._n_rows * n_cells * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the empty tree."""
        return self._opened(self.k, self._n_rows, n_cells, key)


def height(n_items: int, base: int) -> int:
    """Return h = min{h : (base^h - 1)/2 >= n_items}."""
    h = 1
    while (base**h - 1) // 2 < n_items:
        h += 1
    return h


def mean_blocks(n_items: int, base: int) -> float:
    """Return the mean number of blocks of the prefixes 1..n_items, in closed form."""
    total, size = 0, 1
    for _ in range(height(n_items, base)):
        half = (size - 1) // 2
        # Prefixes q * size - half ... q * size + half have the digit of q; the last run may be incomplete.
        last = (n_items + half) // size
        cut = last * size + half - n_items
        total += size * _digit_sum(last, base) - cut * abs(_digit(last, base))
        size *= base
    return total / n_items


def _most_blocks(n_items: int, base: int) -> int:
    """Return the largest number of blocks of the prefixes 1..n_items.

    That prefix is n_items, or has one smaller digit somewhere and the largest digits below it.
    """
    half, digits = base // 2, _digits(n_items, base)
    most, above = sum(map(abs, digits)), 0
    for level in reversed(range(len(digits))):
        digit = digits[level]
        if above > 0 and digit > -half:
            most = max(most, above + half + level * half)
        elif above == 0 and digit > 0:
            most = max(most, digit - 1 + level * half)
        above += abs(digit)
    return most


def _digits(number: int, base: int) -> list[int]:
    """Return the balanced digits of `number` > 0, the lowest first."""
    found = []
    while number:
        found.append(_digit(number, base))
        number = (number - found[-1]) // base
    return found


def _digit(q: int, base: int) -> int:
    return (q + base // 2) % base - base // 2


def _digit_sum(q: int, base: int) -> int:
    """Return the sum of |lowest balanced digit| over 1..q."""
    periods, rest = divmod(q, base)
    half = base // 2
    low = min(rest, half)
    total = periods * half * (half + 1) + low * (low + 1) // 2
    for_high = rest - low
    return total + for_high * half - for_high * (for_high - 1) // 2


@cache
def best_base(n_items: int, norm: str) -> int:
    """Return the odd base with the smallest mean squared error over 1..n_items.

    The variance of a node grows with h^2 if the scale grows with the L1 norm (or per cell), with h if with the L2 norm.
    """
    # Two levels need no larger base than this; one level needs 2 * n_items + 1.
    largest = math.isqrt(2 * n_items) + 3
    candidates: list[int] = [*range(3, largest + 1, 2), 2 * n_items + 1]

    def error(base: int) -> float:
        levels = height(n_items, base)
        return (levels if norm == "l2" else levels * levels) * mean_blocks(n_items, base)

    return min(candidates, key=error)
