"""Continual release of running sums: the exact counter and the binary tree.

A counter owns what decides its privacy (levels, node scale) and its error; the kernels below do its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.privacy.base import Float64Array, Mechanism
from dprl.privacy.compiled import kernel
from dprl.privacy.counters.error_bounds import sum_error_bound, tree_error_bound
from dprl.privacy.mechanisms.laplace import BLOCK, Laplace, first_half, second_half


@dataclass(frozen=True)
class ExactCounter:
    """Running sums without noise of its own (trust model none, or sums of reports that are already noisy)."""

    n_items: int
    name: ClassVar[str] = "exact"

    @property
    def node(self) -> Mechanism | None:
        """The noise of every node: none."""
        return None

    @staticmethod
    def nodes(n_items: int) -> int:  # noqa: ARG004 - as every counter
        """Return how many released numbers of one cell are drawn with an item in them: its own report."""
        return 1

    def noise_rows(self) -> int:
        """How many rows of noise the counter keeps."""
        return 1

    def error_bound(self, n_cells: int, beta: float, report: Mechanism | None) -> float:
        """Return E: with probability 1 - beta no cell's running sum is ever further from the exact one."""
        return 0.0 if report is None else report.scale * sum_error_bound(self.n_items, n_cells, beta)


@dataclass(frozen=True)
class BinaryTree:
    """The binary-tree counter with Laplace noise on every dyadic block that a prefix is made of.

    *Formal guarantee.* If replacing one item (one user's row) changes the cells by at most `l1` in L1, the whole
    sequence of T noisy prefix vectors is (l1 * L / b, 0)-DP, L = floor(log2 T) + 1, also when later rows depend on
    earlier outputs; exact for item 1. Real arithmetic.

    Only the noise is kept in the tree: the noise of prefix k is that of prefix k - lowbit(k) plus one fresh draw (the
    Fenwick recursion), so a step costs one draw a cell whatever T is, and the sums of the counts stay exact.

    Args:
        n_items: T, how many items there will be at most.
        node: Laplace(b), drawn for every node.

    Paper: [CZ22] sec. 5.1; Chan, Shi, Song 2011, Algorithm 2.
    """

    n_items: int
    node: Laplace
    name: ClassVar[str] = "binary_tree"

    @staticmethod
    def nodes(n_items: int) -> int:
        """Return L = floor(log2 T) + 1: how many noisy nodes of one cell item 1, and any item at most, enters."""
        return int(n_items).bit_length()

    def noise_rows(self) -> int:
        """How many rows of noise the counter keeps: one a level, and a row of zeros."""
        return self.nodes(self.n_items) + 1

    def error_bound(self, n_cells: int, beta: float, report: Mechanism | None) -> float:
        """Return E: with probability 1 - beta no released prefix of any cell is further from the exact one.

        Raises ValueError if the reports are noisy themselves: nothing bounds both noises together yet.
        """
        if report is not None:
            raise ValueError("a binary tree over noisy reports has no error bound here; use one of the two noises")
        return self.node.scale * tree_error_bound(self.n_items, n_cells, beta)


COUNTERS: dict[str, type[BinaryTree]] = {BinaryTree.name: BinaryTree}
"""What `counter` in a config can name."""


@kernel
def _level(k: int) -> int:
    """Return the row that holds the noise of prefix k: 0 for the empty prefix, else 1 + number of trailing zeros."""
    if k == 0:
        return 0
    level = 1
    while k & 1 == 0:
        k >>= 1
        level += 1
    return level


@kernel
def release_prefix(
    released: Float64Array, totals: Float64Array, noise: Float64Array, item: int, scale: float, key: np.uint64
) -> None:
    """Write totals + tree noise of prefix `item` (1-based) into `released`, float64[cells]; noise float64[rows, cells].

    *Formal guarantee.* See BinaryTree; the node that ends at `item` draws numbers item*cells ... of stream `key`.
    """
    parents, nodes = noise[_level(item & (item - 1))], noise[_level(item)]
    for start in range(0, released.shape[0], BLOCK):
        node, parent = nodes[start : start + BLOCK], parents[start : start + BLOCK]
        out, total = released[start : start + BLOCK], totals[start : start + BLOCK]
        first = np.uint64(item) * np.uint64(released.shape[0]) + np.uint64(start)
        for i in range(out.shape[0]):
            # The arrays that are about to be written hold the halves of the draws meanwhile.
            node[i], out[i] = first_half(key, first + np.uint64(i))
        for i in range(out.shape[0]):
            prefix_noise = parent[i] + second_half(node[i], out[i], scale)
            node[i] = prefix_noise
            out[i] = total[i] + prefix_noise
