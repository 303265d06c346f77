"""Exact high-probability bounds on the noise of counters and of sums of reports: what `precision: exact` means.

Every function returns E, in units of counts: with probability at least 1 - beta none of n_cells cells is off by more
than E at any of the prefixes 1..n_items. `law` is the Mechanism of one node (or of one report); Laplace, Gaussian,
discrete Laplace, discrete Gaussian and bounded Laplace are known.

    binary_tree_bound(n_items, law, n_cells, beta)
    kary_tree_bound(n_items, base, law, n_cells, beta)             odd base, balanced digits
    gaussian_process_bound(std, step_std, n_cells, beta)           float64[T] each; step_std[t] = std of N_t - N_(t-1), or None
    running_sum_bound(n_items, law, n_cells, beta)                 one report of every user
    unary_sum_bound(n_items, p, q, sampled_steps, n_cells, beta)   sums of sampled_steps*1{h*=h}(bit - q)/(p - q)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gammaincc, gammaln

_MIXTURE_STANDARD_DEVIATIONS = 14.0
# What the left-out part of a mixture can weigh, and below which no failure probability can be met.
_LEFT_OUT = 1e-40
_SMALLEST_BETA = 1e-30
# Relative; far above the rounding of a tail, far below what matters for a bound.
_SLACK = 1e-6


def laplace_sum_tail(x: float, m: int) -> float:
    """Return P(|X_1 + ... + X_m| > x) for independent Laplace(1), up to a relative rounding error below 1e-7.

    With weights w_j = C(m-1+j, j) 2^-(m+j), j < m, the density is the w-mixture of Gamma(m-j) on either side; the
    weights of one side sum to 1/2. Those further than 14 standard deviations from the top are left out, and what they
    can weigh is added.
    """
    first = max(0, m - 1 - int(_MIXTURE_STANDARD_DEVIATIONS * np.sqrt(2.0 * m)))
    j = np.arange(first, m)
    log_weight = gammaln(m + j) - gammaln(j + 1) - gammaln(m) - (m + j) * np.log(2.0)
    weight = np.exp(log_weight)
    # Dividing by their sum removes the error that all weights of a large m share.
    return float(np.sum(weight * gammaincc(m - j, x)) / np.sum(weight)) + (0.0 if first == 0 else _LEFT_OUT)


def tree_error_bound(n_items: int, n_cells: int, beta: float) -> float:
    """Return E with P(some cell, some prefix of the binary tree is off by more than E * node scale) <= beta.

    A prefix t adds popcount(t) Laplace draws; the union runs over the cells and over the prefixes 1..n_items, each
    with its own number of draws.
    """
    draws = _prefixes_by_popcount(n_items)

    def expected_failures(x: float) -> float:
        return n_cells * sum(count * laplace_sum_tail(x, m) for m, count in draws.items())

    return _solve(expected_failures, beta)


def sum_error_bound(n_items: int, n_cells: int, beta: float) -> float:
    """Return E with P(some cell's running sum of up to n_items Laplace(1) draws ever exceeds E) <= beta.

    Levy's inequality for independent symmetric variables, P(max_k |S_k| > x) <= 2 P(|S_n| > x), replaces the union
    over episodes by a factor of 2 (one draw needs no union).
    """
    return _solve(lambda x: min(2.0, n_items) * n_cells * laplace_sum_tail(x, n_items), beta)


def _prefixes_by_popcount(n_items: int) -> dict[int, int]:
    """Return how many of 1..n_items have each number of ones in binary."""
    counts = np.zeros(n_items.bit_length() + 1, dtype=object)
    ones = 0
    for bit in range(n_items.bit_length() - 1, -1, -1):
        if n_items >> bit & 1:
            counts[ones : ones + bit + 1] += _binomial_row(bit)
            ones += 1
    counts[ones] += 1
    counts[0] -= 1
    return {m: int(count) for m, count in enumerate(counts) if count}


def _binomial_row(n: int) -> npt.NDArray[np.object_]:
    row = np.array([1], dtype=object)
    for _ in range(n):
        row = np.append(row, 0) + np.append(0, row)
    return row


def _solve(failures: Callable[[float], float], beta: float) -> float:
    """Return the x at which the decreasing function `failures` meets beta, from the safe side."""
    if not beta >= _SMALLEST_BETA:
        raise ValueError(
            f"beta must be at least {_SMALLEST_BETA:g} per count family, got {beta:g}; choose a larger beta"
        )
    target = beta * (1.0 - _SLACK)
    high = 1.0
    while failures(high) > target:
        high *= 2.0
    root = float(brentq(lambda x: np.log(failures(x) / target), 0.0, high, xtol=1e-9 * high))
    return root * (1.0 + 1e-8)
