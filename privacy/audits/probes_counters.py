"""Probes of continual counters: the real counter's prefixes with and without the first user's row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dprl.privacy.audits.probes_cells import log_ratios
from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.randomness.streams import Streams

_COVARIANCE_RUNS = 1 << 14
_SEED_OF_COVARIANCE = 0


@dataclass(frozen=True)
class CounterPrefixes:
    """All noisy prefixes of a counter; the first user's row differs between the worlds, nobody else has any.

    Runs are laid side by side as cells of one counter: their noise is independent, as that of cells is.

    Args:
        counter: with its noise.
        ones, zeros: the first user's row in world 1 and in world 0.
        label: for the description.
    """

    counter: Counter
    ones: tuple[float, ...]
    zeros: tuple[float, ...]
    label: str
    _weights: list[Float64Array] = field(default_factory=list, repr=False, compare=False)

    @property
    def description(self) -> str:
        """The configuration."""
        return f"{self.label}, {self.counter.name}, scale {node_of(self.counter).scale:.4g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return what speaks for world 1, float64[runs]: exact log likelihood ratios for a binary tree.

        For other counters the best linear statistic of each cell's prefixes, which is the exact ratio under Gaussian
        noise.
        """
        ones, zeros = np.array(self.ones), np.array(self.zeros)
        prefixes = self._release(ones if world else zeros, runs, key)
        if isinstance(self.counter, BinaryTree):
            return tree_ratios(self.counter, prefixes, ones, zeros)
        middle = (ones + zeros) / 2.0
        weighted = np.tensordot(self._best_weights(), prefixes - middle, axes=1)
        return np.asarray(weighted @ (ones - zeros))

    def _release(self, row: Float64Array, runs: int, key: Key) -> Float64Array:
        """Return every prefix of every run, float64[T, runs, cells]."""
        cells = runs * row.shape[0]
        state = self.counter.open(cells, key)
        totals = np.tile(row, runs)
        prefixes = np.empty((self.counter.n_items, cells))
        for item in range(1, self.counter.n_items + 1):
            release_prefix(prefixes[item - 1], totals, state, item)
        return prefixes.reshape(self.counter.n_items, runs, row.shape[0])

    def _best_weights(self) -> Float64Array:
        """Return the inverse covariance of a cell's prefixes times the all-ones vector, float64[T], by simulation."""
        if not self._weights:
            key = Streams(_SEED_OF_COVARIANCE, f"audit|covariance|{self.description}").key("server_noise")
            noise = self._release(np.zeros(1), _COVARIANCE_RUNS, key)[:, :, 0]
            self._weights.append(best_linear_weights(noise))
        return self._weights[0]


def tree_ratios(tree: BinaryTree, prefixes: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
    """Return exact log likelihood ratios float64[runs] of a tree's prefixes float64[T, runs, cells] without others.

    Prefix 2^i is the one node of its level that the first user is in; no other node knows that user.
    """
    nodes = [prefixes[(1 << i) - 1] for i in range(tree.n_items.bit_length())]
    return np.asarray(np.sum([log_ratios(node_of(tree), y, ones, zeros).sum(axis=1) for y in nodes], axis=0))


def best_linear_weights(noise: Float64Array) -> Float64Array:
    """Return the inverse covariance of a cell's prefixes times the all-ones vector, float64[T]; noise float64[T, n]."""
    covariance = np.atleast_2d(np.cov(noise))
    return np.asarray(np.linalg.solve(covariance, np.ones(covariance.shape[0])), dtype=np.float64)
