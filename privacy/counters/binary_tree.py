"""The binary tree counter."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import CounterState, Tally, Tree, node_of
from dprl.privacy.counters.error import failure_of_a_cell, tree_bound
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity


@dataclass(frozen=True)
class BinaryTree(Tree):
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

    Args:
        n_items: T, the maximum number of items.
        node: the noise of every node; None if only the geometry is needed.

    Paper: [CZ22] sec. 5.1; Chan, Shi, Song 2011, Algorithm 2.
    """

    n_items: int
    node: Mechanism | None = None
    name: ClassVar[str] = "binary_tree"

    @property
    def levels(self) -> int:
        """L = floor(log2 T) + 1: the number of noisy nodes that item 1 enters, and the maximum for any item."""
        return int(self.n_items).bit_length()

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return one copy of `row` for every level.

        No output before the user's row depends on the nodes' noise, so each copy has independent noise.
        """
        return row.repeated(self.levels)

    def explain(self) -> str:
        """Return the line that says how often a row counts."""
        return (
            f"a row counts L = floor(log2 T) + 1 = {self.levels} times: it is in at most one node of each level of a "
            f"binary tree over T = {self.n_items:,} releases, and each node has separate noise"
        )

    def profile(self) -> Float64Array:
        """Return the square root of the number of ones in 1..T, float64[T]."""
        prefix = np.arange(1, self.n_items + 1, dtype=np.int64)
        ones = np.zeros(self.n_items)
        for level in range(self.levels):
            ones += prefix >> level & 1
        return np.sqrt(ones)

    def depths(self, users: int) -> Tally:
        """Return the number of prefixes among 1..users by their number of nodes."""
        made = Counter[int]()
        for above, level in enumerate(reversed(_ones(users + 1))):
            for ones in range(level + 1):
                made[above + ones] += math.comb(level, ones)
        made[0] -= 1  # the empty prefix
        return Tally.of(made)

    def errors(self) -> tuple[float, float]:
        """Return the roots of the mean and of the largest number of ones in 1..T."""
        ones, prefixes = self.depths(self.n_items)
        return math.sqrt(int(ones @ prefixes) / self.n_items), math.sqrt(int(ones[-1]))

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta no error of n_cells sums of `summands` cells is larger, at 1..users."""
        return tree_bound(2, users or self.n_items, node_of(self), failure_of_a_cell(n_cells, beta), summands)

    def memory(self, n_cells: int) -> int:
        """Return the bytes of one row per level, and a row of zeros."""
        return (self.levels + 1) * n_cells * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the empty tree."""
        return self._opened(2, self.levels + 1, n_cells, key)


def _ones(number: int) -> list[int]:
    """Return the positions of the ones of `number` in binary, increasing."""
    return [place for place in range(number.bit_length()) if number >> place & 1]
