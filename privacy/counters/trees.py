"""The two tree counters: a prefix is a sum of noisy blocks, or a combination of added and subtracted ones."""

from __future__ import annotations

import math
from collections import Counter as Counts
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.counters.base import TREE, Counter, CounterState, node_of
from dprl.privacy.counters.error import failure_of_a_cell, tree_bound
from dprl.privacy.mechanisms.base import NODE, Mechanism


class _Tree(Counter):
    """What both trees have in common: noise on nodes, and whole numbers if the nodes have them."""

    place = NODE

    if TYPE_CHECKING:  # a class variable or a field

        @property
        def base(self) -> int:
            """2 for binary digits, odd for balanced ones."""

    @property
    def _digits(self) -> range:
        """Digits of a prefix; it has |d| nodes for each digit d."""
        return range(-(self.base // 2) * (self.base % 2), self.base // 2 + 1)

    def profile(self) -> Float64Array:
        """Return the square root of the number of nodes of each prefix, float64[T]."""
        rest, nodes, lowest = np.arange(1, self.n_items + 1, dtype=np.int64), np.zeros(self.n_items), self._digits[0]
        for _ in range(self.levels):
            digit = (rest - lowest) % self.base + lowest
            nodes += np.abs(digit)
            rest = (rest - digit) // self.base
        return np.sqrt(nodes)

    def depths(self, users: int) -> dict[int, int]:
        """Return how many prefixes among 1..users have each number of nodes, from the highest digit down.

        Below the first digit that is smaller than that of `users`, the digits of a prefix are free.
        """
        lowest, digits, rest = self._digits[0], list[int](), users
        while rest:
            digits.append((rest - lowest) % self.base + lowest)
            rest = (rest - digits[-1]) // self.base
        free, nodes_of_digit = [np.ones(1, dtype=np.int64)], np.bincount(np.abs(self._digits))
        for _ in digits:
            free.append(np.convolve(free[-1], nodes_of_digit))
        found, above = Counts({sum(map(abs, digits)): 1}), 0
        for level in reversed(range(len(digits))):
            leading = above == 0
            for smaller in range(0 if leading else lowest, digits[level]):
                below = free[level]
                if leading and smaller == 0:
                    # Without prefix 0, and of t and -t only the positive one.
                    below = (below - (np.arange(below.size) == 0)) // (2 if lowest else 1)
                found.update({above + abs(smaller) + nodes: n for nodes, n in enumerate(below.tolist())})
            above += abs(digits[level])
        return {nodes: prefixes for nodes, prefixes in found.items() if prefixes > 0}

    def memory(self, n_cells: int) -> int:
        return (2 + (self.levels - 1) * (self.base // 2 + self.base % 2)) * n_cells * 8

    def errors(self) -> tuple[float, float]:
        depths = self.depths(self.n_items)
        return math.sqrt(sum(nodes * n for nodes, n in depths.items()) / self.n_items), math.sqrt(max(depths))

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        return tree_bound(self.base, users or self.n_items, node_of(self), failure_of_a_cell(n_cells, beta), summands)

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        held = np.full(self.memory(1) // 8, -1, dtype=np.int64)
        held[0] = 0
        rows = np.zeros((held.size, n_cells))
        return CounterState(TREE, self.base, node_of(self).noise(key), rows, held, np.zeros(0))


@dataclass(frozen=True)
class BinaryTree(_Tree):
    """The binary-tree counter: noise on every dyadic block of a prefix.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is as private as L copies of `row`, each with separate node noise, L = floor(log2 T) + 1, also if later rows
    depend on earlier outputs: with Laplace(b) nodes (l1 * L / b, 0)-DP, with Gaussian(sigma) nodes mu-GDP for
    mu = sqrt(L) * l2 / sigma. Item 1 attains this.

    The tree stores only noise: the noise of prefix k is that of prefix k - lowbit(k) plus one fresh draw (the Fenwick
    recursion). A step costs one draw per cell for any T, and the sums of the counts are exact.

    >>> from dprl.privacy.mechanisms.laplace import Laplace
    >>> tree = BinaryTree(1000, Laplace(10.0))
    >>> tree.levels, tree.sensitivity(Sensitivity.of_cells(1)).l1
    (10, 10.0)
    >>> round(tree.error_bound(n_cells=1, beta=0.05), 1)  # of any of 1000 running sums
    154.7

    Paper: [CZ22] sec. 5.1; Chan, Shi, Song 2011, Algorithm 2.
    """

    n_items: int
    node: Mechanism | None = None
    name: ClassVar[str] = "binary_tree"
    base: ClassVar[int] = 2

    @property
    def levels(self) -> int:
        """L = floor(log2 T) + 1: the number of noisy nodes that item 1 enters, and the maximum for any item."""
        return int(self.n_items).bit_length()

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return one copy of `row` for every level: no output before that row depends on its nodes' noise."""
        return row.repeated(self.levels)

    def explain(self) -> str:
        return (
            f"a row counts L = floor(log2 T) + 1 = {self.levels} times: it is in at most one node of each level of a "
            f"binary tree over T = {self.n_items:,} releases, and each node has separate noise"
        )


@dataclass(frozen=True)
class KaryTree(_Tree):
    """The k-ary tree counter with balanced digits: |digit| <= (k-1)/2, negative ones subtract blocks.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is as private as h copies of `row`, h = min{h : (k^h - 1)/2 >= T}, also if later rows depend on earlier
    outputs: with Laplace(b) nodes (l1 * h / b, 0)-DP, with Gaussian(sigma) nodes mu-GDP for mu = sqrt(h) * l2 / sigma.
    Item 1 attains this if T = (k^h - 1)/2; otherwise it is an upper bound.

    A prefix with negative digits reveals differences of nodes before the row of an item in both is chosen, and that row
    may depend on them. Given such a difference, the two noises are not independent. A pure guarantee bounds the ratio
    of the nodes' joint densities at every point, and for Gaussian noise only the length of their joint shift counts, so
    for both it does not matter; a curve at delta > 0 of Laplace noise must treat the h nodes of a cell as one release,
    with a loss of h / b. Discrete Gaussian noise is accounted by zCDP: given the differences it is discrete Gaussian on
    a line of the lattice, and shifted by a vector of that line; for sigma^2 >= 3 h its moments are those of the
    Gaussian up to a factor of 1 + 1e-25.

    The noise of a prefix is that of its parent (the prefix with the lowest non-zero digit one step closer to zero) plus
    or minus one node that belongs to this prefix alone; parents may be later prefixes.

    >>> tree = KaryTree(1000)
    >>> tree.base, tree.levels, round(tree.errors()[0], 2)  # nodes have standard deviation 1
    (13, 3, 3.08)

    Args:
        base: k, odd; if 0, it becomes the one with the least mean squared error for T items and the node's norm.

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
        best = self.base or best_base(self.n_items, "l1" if self.node is None else self.node.norm)
        object.__setattr__(self, "base", best)
        least = self.node.least_joined_square if self.node else 0.0
        if self.node and self.levels > 1 and self.node.scale**2 < least * self.levels:
            rule = f"node must have a scale of at least sqrt({least:g} h) in a kary_tree of h = {self.levels} levels"
            raise ValueError(f"{rule}, got {self.node.scale:g}; use counter: binary_tree for that little noise")

    def suited(self, norm: str) -> Self:
        return replace(self, base=best_base(self.n_items, norm))

    @cached_property
    def levels(self) -> int:
        """h: the number of noisy nodes that item 1 enters, and the maximum for any item."""
        return height(self.n_items, self.base)

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        return row.joined(self.levels)

    def explain(self) -> str:
        k, h = self.base, self.levels
        return (
            f"a row counts h = {h} times: it is in at most one node of each level of a tree with k = {k} branches, and "
            f"(k^h - 1) / 2 = {(k**h - 1) // 2:,} covers T = {self.n_items:,} releases"
        )

    @property
    def attained(self) -> bool:
        """True if T = (k^h - 1)/2, because there are then as many prefixes as nodes; otherwise it is not known."""
        return 2 * self.n_items + 1 == int(self.base**self.levels)


def height(n_items: int, base: int) -> int:
    """Return h = min{h : (base^h - 1)/2 >= n_items}."""
    h = 1
    while (base**h - 1) // 2 < n_items:
        h += 1
    return h


def mean_blocks(n_items: int, base: int) -> float:
    """Return the mean number of blocks of the prefixes 1..n_items, in closed form."""
    total, size, most = 0, 1, base // 2
    for _ in range(height(n_items, base)):
        half = (size - 1) // 2
        # Prefixes q * size - half ... q * size + half have the digit of q; the last run may be incomplete.
        last = (n_items + half) // size
        cut = last * size + half - n_items
        # The sum of |lowest balanced digit| over 1..last.
        periods, rest = divmod(last, base)
        low, high = min(rest, most), rest - min(rest, most)
        digits = periods * most * (most + 1) + low * (low + 1) // 2 + high * most - high * (high - 1) // 2
        total += size * digits - cut * abs((last + most) % base - most)
        size *= base
    return total / n_items


@cache
def best_base(n_items: int, norm: str) -> int:
    """Return the odd base with the smallest mean squared error over 1..n_items.

    The variance of a node grows with h^2 if the scale grows with the L1 norm (or per cell), with h if with the L2 norm.
    """

    def error(base: int) -> float:
        levels = height(n_items, base)
        return (levels if norm == "l2" else levels * levels) * mean_blocks(n_items, base)

    # Two levels need no larger base than the last of the range; one level needs 2 * n_items + 1.
    candidates: list[int] = [*range(3, math.isqrt(2 * n_items) + 4, 2), 2 * n_items + 1]
    return min(candidates, key=error)
