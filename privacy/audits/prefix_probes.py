"""Probe of a counter's released prefixes, in two worlds that differ in the first user's row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprl.privacy.audits.distinguishing_attack import Key
from dprl.privacy.audits.message_probes import Cells
from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.randomness.streams import Streams

COVARIANCE_RUNS = 1 << 14
_SEED_OF_COVARIANCE = 0


@dataclass(frozen=True, eq=False)
class PrefixProbe:
    """Noisy prefixes that a counter releases; the first user's row differs between the worlds.

    Scores are exact log likelihood ratios for a binary tree; for other counters they are the best linear statistic of
    each cell's prefixes: the exact ratio under Gaussian noise.

    Args:
        description: the configuration, in a few words.
        counter: with its noise.
        ones, zeros: the first user's row in world 1 and in world 0, float64[cells].
        release: returns prefixes float64[T, runs, cells] without the other users for (world, runs, key).
        noise: returns noise of one cell's prefixes, float64[T, n].
    """

    description: str
    counter: Counter
    ones: Float64Array
    zeros: Float64Array
    release: Callable[[int, int, Key], Float64Array]
    noise: Callable[[], Float64Array]

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the scores of `runs` runs, float64[runs]."""
        prefixes = self.release(world, runs, key)
        if isinstance(self.counter, BinaryTree):
            return _tree_ratios(self.counter, prefixes, self.ones, self.zeros)
        weighted = np.tensordot(self._weights, prefixes - (self.ones + self.zeros) / 2.0, axes=1)
        return np.asarray(weighted @ (self.ones - self.zeros))

    @cached_property
    def _weights(self) -> Float64Array:
        """Inverse covariance of a cell's prefixes times the all-ones vector, float64[T], by simulation."""
        covariance = np.atleast_2d(np.cov(self.noise()))
        return np.asarray(np.linalg.solve(covariance, np.ones(covariance.shape[0])), dtype=np.float64)


def counter_prefixes(counter: Counter, ones: Cells, zeros: Cells, label: str) -> PrefixProbe:
    """Return the probe of a counter that no other user enters.

    Runs are cells of one counter, side by side, because the noise of cells is independent.
    """
    description = f"{label}, {counter.name}, scale {node_of(counter).scale:.4g}"
    rows = np.array(zeros), np.array(ones)

    def released(row: Float64Array, runs: int, key: Key) -> Float64Array:
        cells = runs * row.shape[0]
        state, totals = counter.open(cells, key), np.tile(row, runs)
        prefixes = np.empty((counter.n_items, cells))
        for item in range(1, counter.n_items + 1):
            release_prefix(prefixes[item - 1], totals, state, item)
        return prefixes.reshape(counter.n_items, runs, row.shape[0])

    def noise() -> Float64Array:
        key = Streams(_SEED_OF_COVARIANCE, f"audit|covariance|{description}").key("server_noise")
        return released(np.zeros(1), COVARIANCE_RUNS, key)[:, :, 0]

    def release(world: int, runs: int, key: Key) -> Float64Array:
        return released(rows[world], runs, key)

    return PrefixProbe(description, counter, rows[1], rows[0], release, noise)


def _tree_ratios(tree: BinaryTree, prefixes: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
    """Return exact log likelihood ratios float64[runs] of a tree's prefixes float64[T, runs, cells] without others.

    Prefix 2^i is the only node of its level that includes the first user.
    """
    nodes = [prefixes[(1 << i) - 1] for i in range(tree.n_items.bit_length())]
    return np.asarray(np.sum([node_of(tree).log_ratios(y, ones, zeros).sum(axis=1) for y in nodes], axis=0))
