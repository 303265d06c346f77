"""The binary tree with all nodes noised, and each block estimated from everything inside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counters.base import HONAKER, CounterState, Tally, check_geometry, check_item, node_of
from dprl.privacy.counters.error_bounds import gaussian_pieces_bound
from dprl.privacy.mechanisms.base import GAUSSIAN, Mechanism, Sensitivity

# Prefixes whose deviations are computed at a time.
_PIECE = 1 << 20


@dataclass(frozen=True)
class Honaker:
    """The binary tree whose blocks are estimated from below: own noise and both halves, weighted by inverse variance.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is mu-GDP for mu = sqrt(L) * l2 / sigma, L = floor(log2 T) + 1 (an item enters every complete block with
    it), also when later rows depend on earlier outputs. The weights are post-processing. An upper bound.

    A complete block of 2^i items has an estimate of variance 1 / (2 (1 - 2^-(i+1))) times a node's.

    Args:
        n_items: T, how many items there will be at most.
        node: the noise of every node; None for the mere geometry.

    Paper: Honaker 2015, "Efficient use of differentially private binary trees" (estimation from below).
    """

    n_items: int
    node: Mechanism | None = None
    name: ClassVar[str] = "honaker"
    laws: ClassVar[tuple[int, ...]] = (GAUSSIAN,)
    keeps_integers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_geometry(self.name, self.n_items, self.node, self.laws)

    def suited(self, norm: str) -> Honaker:  # noqa: ARG002 - as every counter
        """Return the counter: nothing is left open."""
        return self

    @property
    def levels(self) -> int:
        """L = floor(log2 T) + 1: how many noisy nodes item 1, and any item at most, enters."""
        return int(self.n_items).bit_length()

    def losses(self) -> Tally:
        """Return how many items are in how many complete blocks: the ones of T in binary cut 1..T into the largest."""
        places = (level for level in range(self.levels) if self.n_items >> level & 1)
        return Tally.of(Counter({level + 1: 1 << level for level in places}))

    def of_nodes(self, row: Sensitivity, nodes: int) -> Sensitivity:
        """Return what a user who enters `nodes` nodes changes: that many copies of `row`.

        No output before the user's row depends on their noise, so each copy has noise of its own.
        """
        return row.repeated(nodes)

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return L copies of `row`."""
        return self.of_nodes(row, self.levels)

    def user_sensitivity(self, item: int, row: Sensitivity) -> Sensitivity:
        """Return as many copies of `row` as user `item` is in complete blocks."""
        check_item(item, self.n_items)
        return self.of_nodes(row, sum((((item - 1) >> i) + 1) << i <= self.n_items for i in range(self.levels)))

    def shares(self) -> Float64Array:
        """Return a block's weight on its own noise, which is also its estimate's variance, float64[L]."""
        return 1.0 / (2.0 - np.exp2(-np.arange(self.levels, dtype=np.float64)))

    @property
    def attained(self) -> bool:
        """Not known: prefixes tell less than all nodes."""
        return False

    def profile(self) -> Float64Array:
        """Return the root of the summed variances of the blocks that make each prefix, float64[T]."""
        return self._deviations(np.arange(1, self.n_items + 1, dtype=np.int64))

    def errors(self) -> tuple[float, float]:
        """Return the roots of the mean and of the largest of the summed variances.

        A level's block is in so many prefixes; the largest variance is that of T, or of a prefix that ends in ones
        from a place on where T has a one.
        """
        total, candidates = 0.0, [self.n_items]
        for level, share in enumerate(self.shares()):
            block = 1 << level
            rounds, rest = divmod(self.n_items + 1, 2 * block)
            total += float(share) * (rounds * block + max(rest - block, 0))
            if self.n_items & block:
                candidates.append((self.n_items ^ block) | (block - 1))
        largest = float(self._deviations(np.array(candidates, dtype=np.int64)).max())
        return math.sqrt(total / self.n_items), largest

    def _deviations(self, prefixes: Int64Array) -> Float64Array:
        variance = np.zeros(prefixes.shape)
        for level, share in enumerate(self.shares()):
            variance += share * (prefixes >> level & 1)
        return np.sqrt(variance)

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta none of n_cells sums of `summands` cells is off by more, at 1..users."""
        sigma, steps, last = node_of(self).scale * math.sqrt(summands), self._steps(), users or self.n_items

        def pieces() -> Iterator[tuple[Float64Array, Float64Array]]:
            for start in range(1, last + 1, _PIECE):
                item = np.arange(start, min(start + _PIECE, last + 1), dtype=np.int64)
                yield sigma * self._deviations(item), sigma * steps[np.log2(item & -item).astype(np.int64)]

        return gaussian_pieces_bound(pieces, n_cells, beta)

    def _steps(self) -> Float64Array:
        """Return the standard deviation of a prefix's noise less that of the one before, by level of its last block.

        The difference is that of the last block's right half, plus share * (own noise - both halves' estimates).
        """
        shares = self.shares()
        variances, with_estimate = np.ones(self.levels), 1.0
        for level in range(1, self.levels):
            share = shares[level]
            variances[level] = variances[level - 1] + 2.0 * share * (shares[level - 1] - with_estimate)
            with_estimate *= 1.0 - share
        return np.sqrt(variances)

    def memory(self, n_cells: int) -> int:
        """Return the bytes of two rows a level, and a row of zeros."""
        return (2 * self.levels + 1) * n_cells * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the empty tree."""
        rows = np.zeros((2 * self.levels + 1, n_cells))
        return CounterState(HONAKER, 2, node_of(self).noise(key), rows, np.zeros(1, np.int64), self.shares())
