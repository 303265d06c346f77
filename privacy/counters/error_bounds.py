"""Exact high-probability bounds on the noise of counters and of sums of messages: `precision: exact`.

A bound E is in counts: with probability at least 1 - beta none of n_cells independent cells has an error above E at any
of the prefixes 1..n_items. The law is that of one node, or of one message. A cell can be the sum of `summands` disjoint
cells.

Sums with weights in [-1, 1] that are fixed in advance have bounds by moment generating functions: that of w Z is at
most that of Z. They are about 7 % above the exact ones for weights of 1, and more for few draws.
"""

from __future__ import annotations

import math

import numpy as np

from dprl.privacy.accounting.root_finding import root_of_tail
from dprl.privacy.counters.base import Tally
from dprl.privacy.counters.gaussian_bounds import Pieces, gaussian_bound
from dprl.privacy.counters.tree_bounds import tree_bound
from dprl.privacy.counters.unary_bounds import UnaryCell, unary_bound
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.tails import LEAST_VARIANCE, least_over_arguments, moment_bound

# Running sums of fewer draws are treated as a chain of nodes, because the recursion of trees has no factor of 2.
_CHAIN_ITEMS = 32
_SMALLEST_BETA = 1e-30


def binary_tree_bound(n_items: int, law: Mechanism, n_cells: int, beta: float, summands: int = 1) -> float:
    """Return E for the binary tree: prefix t adds one node for every 1 of t in binary."""
    _check("n_items", n_items)
    return tree_bound(2, n_items, law, summands, failure_of_a_cell(n_cells, beta))


def kary_tree_bound(n_items: int, base: int, law: Mechanism, n_cells: int, beta: float, summands: int = 1) -> float:
    """Return E for the tree of odd base: prefix t adds or subtracts |d| nodes for every balanced digit d of t."""
    _check("n_items", n_items)
    if base < 3 or base % 2 == 0:
        raise ValueError(f"base must be odd and at least 3, got {base}; balanced digits need it")
    return tree_bound(base, n_items, law, summands, failure_of_a_cell(n_cells, beta))


def gaussian_process_bound(pieces: Pieces, n_cells: int, beta: float) -> float:
    """Return E for Gaussian noise N_1..N_T of known standard deviations, given range by range."""
    return gaussian_bound(pieces, failure_of_a_cell(n_cells, beta))


def running_sum_bound(n_items: int, law: Mechanism, n_cells: int, beta: float) -> float:
    """Return E for running sums of independent draws, one per item."""
    _check("n_items", n_items)
    failure = failure_of_a_cell(n_cells, beta)
    if n_items <= _CHAIN_ITEMS:
        return tree_bound(2 * n_items + 1, n_items, law, 1, failure)
    return law.sum_bound(n_items, failure)


def weighted_sum_bound(n_items: int, law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some running sum of 1..n_items draws per cell exceeds E) <= failure, for all weights."""
    return moment_bound(law.log_moment, n_items * summands, failure, law.variance, law.moment_limit)


def weighted_tree_bound(depths: Tally, law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some prefix exceeds E) <= failure, for all weights, by a union bound over prefixes.

    depths: number of prefixes by their number of nodes.
    """
    number, prefixes = depths

    def exponent(draws: float, x: float) -> float:
        """Return an upper bound of log P(sum of `draws` draws > x)."""
        guess = x / max(draws * law.variance, LEAST_VARIANCE)
        found = least_over_arguments(lambda a: draws * law.log_moment(a) - a * x, guess, law.moment_limit)
        return min(found, 0.0)

    def failures(x: float) -> float:
        exponents = [exponent(float(nodes) * summands, x * law.scale) if x > 0.0 else 0.0 for nodes in number]
        return float(2.0 * (prefixes * np.exp(exponents)).sum())

    return law.scale * root_of_tail(failures, failure)


def unary_cell_bound(n_items: int, cell: UnaryCell, n_cells: int, beta: float) -> float:
    """Return E for running sums of the unbiased estimates of a cell, one per item.

    A hot cell's bit is 1 with probability p, a cold one's with q; one of `sampled_steps` steps is reported (1: all).
    The choice of hot items is arbitrary and may depend on all earlier bits; cells may depend on each other. A cell can
    be the sum of several cells of one step, at most one of them hot.
    """
    _check("n_items", n_items)
    if not 0.0 <= cell.q < cell.p <= 1.0:
        raise ValueError(
            f"p and q must satisfy 0 <= q < p <= 1, got {cell.p:g} and {cell.q:g}; a bit must tell something"
        )
    failure_of_a_cell(n_cells, beta)
    return unary_bound(n_items, cell, beta / n_cells)


def failure_of_a_cell(n_cells: int, beta: float) -> float:
    """Return the failure probability per cell for which n_cells independent cells fail with probability beta."""
    _check("n_cells", n_cells)
    if not _SMALLEST_BETA <= beta < 1.0:
        raise ValueError(
            f"beta must be at least {_SMALLEST_BETA:g} per count family and below 1, got {beta:g}; choose a larger beta"
        )
    return -math.expm1(math.log1p(-beta) / n_cells)


def _check(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}; without any there is no error")
