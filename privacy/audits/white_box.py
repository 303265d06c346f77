"""White-box recomputation: the guarantee of noise objects, independent of their curves.

An audit that only used a mechanism's own curve would trust the code under audit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import scipy

from dprl.privacy import CountPrivatizer
from dprl.privacy.accounting.closed_forms import composed_epsilon, gaussian_epsilon
from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import Counter
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.mechanisms.base import INTEGER, Mechanism, Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism

_GRID, _STEPS, _MOST_SUMMED = 4001, 200, 10_000


def supremum_of_loss(mechanism: Mechanism, change: float) -> float:
    """Return the supremum of the log likelihood ratio of one number that changes by `change`, from the densities.

    For Laplace laws it uses a grid with both numbers and others far from both; for every other law it is infinite.
    """
    if not mechanism.pure:
        return math.inf
    y = np.linspace(-3.0 * change, 4.0 * change, _GRID)
    ratios = mechanism.log_ratios(y, np.full(_GRID, change), np.zeros(_GRID))
    return float(np.max(np.abs(ratios)))


def nodes_entered(counter: Counter, row: Sensitivity) -> Sensitivity:
    """Return the change of all noisy numbers by one user's row, for a binary tree by counting its blocks.

    For other counters it is their own sensitivity, which tests compare with their algebra.
    """
    if not isinstance(counter, BinaryTree):
        return counter.sensitivity(row)
    # Node t covers the items t - lowbit(t) + 1 .. t.
    ends = np.arange(1, counter.n_items + 1)
    entered = np.zeros(counter.n_items + 2, dtype=np.int64)
    np.add.at(entered, ends - (ends & -ends) + 1, 1)
    np.add.at(entered, ends + 1, -1)
    return row.repeated(int(np.cumsum(entered).max()))


def of_a_table(chances: Sequence[int], n: int, delta: float) -> float:
    """Return the exact epsilon of n draws of a table, each shifted by 1: from its worst ratio and the mass outside."""
    # P(0) has one entry of the table, P(z) and P(-z) share one.
    masses = [2 * chances[0], *chances[1:]]
    ratio = max(max(Fraction(a, b), Fraction(b, a)) for a, b in pairwise(masses))
    outside = 1 - (1 - Fraction(masses[-1], 1 << 64)) ** n
    if Fraction(delta) < outside:
        return math.inf
    # If delta exceeds the outside mass, the rest is for the (pure, 0)-DP part, with randomized response as worst case.
    pure = n * math.log(ratio)
    spent = float((Fraction(delta) - outside) / (1 - outside)) * (1.0 + math.exp(-pure))
    return max(0.0, pure + math.log1p(-spent)) if spent < 1.0 else 0.0


def of_laplace_losses(n: float, most: float, delta: float) -> float:
    """Return the epsilon of n numbers with Laplace noise that change by `most` scales each, within 1e-4 of it.

    n may be fractional; one number then changes by less. The loss of one is `most` with probability 1/2, -`most` with
    probability e^-most / 2, and has the density e^(-(most - l) / 2) / 4 between; losses are added on a grid.
    """
    if delta <= 0.0:
        return n * most
    step, whole = most / _STEPS, int(n)
    last = round((n - whole) * _STEPS)
    size = 2 * (whole * _STEPS + last) + 1
    spectrum = np.fft.rfft(_laplace_loss(_STEPS, step), size) ** whole
    if last > 0:
        spectrum *= np.fft.rfft(_laplace_loss(last, step), size)
    chances = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    losses = step * (np.arange(size) - size // 2)

    def failure(epsilon: float) -> float:
        return float(chances @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0))))

    return 0.0 if failure(0.0) <= delta else float(scipy.optimize.brentq(lambda e: failure(e) - delta, 0.0, n * most))


def _laplace_loss(steps: int, step: float) -> Float64Array:
    """Return the probabilities of the losses -steps..steps of one number; a loss between two counts half for each."""
    most, edges = steps * step, step * np.arange(-steps, steps + 1)
    between = np.diff(np.exp(-(most - edges) / 2.0)) / 2.0
    found = np.convolve(between, [0.5, 0.5])
    found[0] += math.exp(-most) / 2.0
    found[-1] += 0.5
    return found


def recomputed_epsilon(privatizer: CountPrivatizer, delta: float) -> float:
    """Return the epsilon that a privatizer's noise proves at `delta`, from scales, blocks and coins.

    It is NaN for randomized bits at delta > 0, which are not recomputed. Raises ValueError for unsupported laws.
    """
    report, counter = privatizer.query.noise.law, privatizer.query.noise.counter
    families = privatizer.query.encoding.released
    if isinstance(report, UnaryEncoder):
        p, q = report.encoding.hot_probability, report.encoding.cold_probability
        zero = 0.0 if report.encoding.exclusive else math.log((1.0 - q) / (1.0 - p))
        return math.nan if delta > 0.0 else report.rows_sent * (math.log(p / q) + zero)
    noise = report or counter.node
    if noise is None:
        return math.inf
    changed = nodes_entered(counter, families.row(len(families.families)))
    if noise.norm == "l2":
        return math.inf if delta <= 0.0 else gaussian_epsilon(delta, changed.l2 / noise.scale)
    if isinstance(noise, TabulatedMechanism):
        return of_a_table(noise.chances(), changed.cells, delta)
    each = supremum_of_loss(noise, 1.0)
    if (noise.arithmetic == INTEGER and changed.linf == 1.0) or changed.cells > _MOST_SUMMED:
        return min(changed.l1 * each, composed_epsilon(delta, changed.cells, changed.linf * each))
    return of_laplace_losses(changed.l1 / changed.linf, changed.linf * each, delta)
