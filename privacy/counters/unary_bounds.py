"""Largest running sum of unary-encoded reports, for any true bits of the users.

A bit's error has one of two laws, that of a hot cell or that of a cold one, and the choice may depend on earlier
releases, because policies do. For any a < x, by Doob's inequality for the submartingale (S_k - a)+,

    P(max_k S_k >= x) <= E(S_n - a)+ / (x - a) <= E(Y_1 + ... + Y_n/m - a)+ / (x - a),

where E(Y - a)+ is the largest value of E(S_m - a)+ over all choices of hot and cold in m steps (Y dominates them all in
the convex order). The right side is computed exactly; in the limit it is 1.36 times the bound of the reflection
principle, which is 2 % in x.

Paper: Bentkus 2004, section 4, for the inequality.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from dprl.privacy.accounting.root_finding import root_of_tail
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.tails import Complex128Array, LogTransform, inverted_tail, moment_bound

# Steps for which hot and cold are chosen together: the cost of the two laws' different shapes falls with its root.
_BLOCK = 64
# The laws of sums of several cells are more alike, and have more values.
_SHORTEST_BLOCK = 4
# Grid points in a standard deviation: of one step while choosing, of a block after it. Between them a convex function
# is replaced by its chord: this adds 1/1000 and 1/600 to the variance at most.
_FINE, _COARSE = 16, 10
# Normal noise of this share of the sum's standard deviation is added: it can only increase E(S - a)+, and makes its
# transform decrease ...
_SMOOTHING = 0.03
# ... to e^-50, in multiples of its inverse.
_REACH = 10.0
# Steps for which e^step - 1 - step cancels, and for which e^step overflows.
_SMALL_STEP, _LARGE_STEP = 1e-3, 700.0


class UnaryCell(NamedTuple):
    """Message of a unary encoding about one cell: the sum of `cells` bits of one step.

    p, q: probabilities that the bit of a hot and a cold cell is 1; sampled_steps: number of steps per reported one;
    exclusive: whether exactly one bit of the whole row is 1, so that the sum is 0 or 1; otherwise bits are independent.
    """

    p: float
    q: float
    sampled_steps: int
    cells: int
    exclusive: bool = False


class _FiniteLaw(NamedTuple):
    """A law of mean 0: values float64[n], increasing, and their probabilities float64[n]."""

    values: Float64Array
    mass: Float64Array

    def mirrored(self) -> _FiniteLaw:
        """Return the law of -X."""
        return _FiniteLaw(-self.values[::-1], self.mass[::-1])

    @property
    def variance(self) -> float:
        """Variance."""
        return float(np.sum(self.mass * self.values**2))


def unary_bound(n_items: int, cell: UnaryCell, failure: float) -> float:
    """Return E with P(some running sum of one cell's unbiased reports ever has an error above E) <= failure."""
    hot, cold = (report_error(cell, truth) for truth in (1, 0))
    n_blocks = math.ceil(n_items / max(_SHORTEST_BLOCK, _BLOCK // cell.cells))
    law = worst_block(hot, cold, math.ceil(n_items / n_blocks))
    sides = (law, law.mirrored())
    # root_of_tail() starts at 1: in units of the standard deviation that is never far away.
    unit = math.sqrt(n_blocks * law.variance)
    bound = unit * root_of_tail(lambda x: sum(maximum_tail(side, n_blocks, unit * x) for side in sides), failure)
    return min(bound, n_items * max(float(np.abs(one.values).max()) for one in (hot, cold)))


def report_error(cell: UnaryCell, truth: int) -> _FiniteLaw:
    """Return the law of sampled_steps * 1{the step is reported} * sum of (bit - q) / (p - q), less the truth.

    With truth 1 one of the bits is 1 with probability p; the others are with probability q.
    """
    cold = cell.cells - truth
    if cell.exclusive:
        one = min(1.0, cold * cell.q + truth * cell.p)
        ones, mass = np.arange(2), np.array([1.0 - one, one])
    else:
        ones = np.arange(cell.cells + 1)
        mass = scipy.special.comb(cold, ones) * cell.q**ones * (1.0 - cell.q) ** np.maximum(cold - ones, 0)
        if truth:
            mass = (1.0 - cell.p) * mass + cell.p * np.concatenate(([0.0], mass[:-1]))
    scale = cell.sampled_steps / (cell.p - cell.q)
    values = np.append(scale * (ones - cell.cells * cell.q) - truth, -truth)
    mass = np.append(mass / cell.sampled_steps, 1.0 - 1.0 / cell.sampled_steps)
    order = np.argsort(values)
    held = order[mass[order] > 0.0]
    return _FiniteLaw(values[held], mass[held])


def grid_points(cell: UnaryCell) -> float:
    """Return the approximate number of grid points for `unary_bound`, which is large if bits are almost never wrong."""
    laws = [report_error(cell, truth) for truth in (1, 0)]
    farthest = max(float(np.abs(law.values).max()) for law in laws)
    deviation = math.sqrt(max(law.variance for law in laws))
    return _BLOCK * farthest * _FINE / deviation if deviation > 0.0 else math.inf


def worst_block(first: _FiniteLaw, second: _FiniteLaw, n_steps: int) -> _FiniteLaw:
    """Return the least law (on a grid) above every sum of n_steps errors of the two laws, chosen adaptively.

    V_m(x), the largest mean of (x + S_m)+, is the larger of the means of V_(m-1)(x + X) under the two laws; the
    result's mass is the second derivative of V.
    """
    step = math.sqrt(max(first.variance, second.variance)) / _FINE
    farthest = max(float(np.abs(law.values).max()) for law in (first, second))
    skipped = max(1, math.floor(math.sqrt(n_steps) * _FINE / _COARSE))
    points = skipped * (math.ceil(n_steps * farthest / (step * skipped)) + 1)
    x = np.arange(-points, points + 1, dtype=np.float64) * step
    # The part of V above (x)+: 0 outside the grid, and without cancellation in it.
    above = np.zeros(x.shape)
    for _ in range(n_steps):
        above = np.maximum(_above_after(x, above, first), _above_after(x, above, second))
    mass = np.diff(above[::skipped], n=2, prepend=0.0, append=0.0) / (step * skipped)
    mass[points // skipped] += 1.0
    held = mass > 0.0
    # V(x) is the mean of (x + Y)+.
    return _FiniteLaw(x[::skipped][held], mass[held] / mass[held].sum()).mirrored()


def _above_after(x: Float64Array, above: Float64Array, law: _FiniteLaw) -> Float64Array:
    """Return the mean of V(x + X) - (x)+ for V(y) = (y)+ + above(y), `above` on the grid x."""
    mean = np.zeros(x.shape)
    for value, mass in zip(law.values, law.mass, strict=True):
        # Means being 0, E(x + X)+ - x = E(-x - X)+.
        crossed = np.maximum(np.where(x < 0.0, x + value, -x - value), 0.0)
        mean += mass * (crossed + np.interp(x + value, x, above, left=0.0, right=0.0))
    return mean


def maximum_tail(law: _FiniteLaw, n: int, x: float) -> float:
    """Return a bound on P(max_k S_k >= x) for every martingale of n increments below `law` in the convex order.

    With g(a) = E(Y_1 + ... + Y_n - a)+, the least g(a) / (x - a) has x - a = 1 / theta at the saddle point theta.

    law: its values are on a grid, as those of `worst_block` are.
    """
    smoothing = (_SMOOTHING**2) * n * law.variance
    log_mean = _log_transform(law)

    def log_transform(s: Complex128Array) -> Complex128Array:
        return n * log_mean(s) + 0.5 * smoothing * s * s

    def above(theta: float) -> float:
        tilted = law.mass * np.exp(theta * law.values - (theta * law.values).max())
        return float(n * (tilted @ law.values) / tilted.sum() + smoothing * theta - 1.0 / theta - x)

    high = 1.0 / math.sqrt(n * law.variance)
    while above(high) < 0.0:
        high *= 2.0
    low = 0.5 * high
    while above(low) >= 0.0:
        low *= 0.5
    theta = float(scipy.optimize.brentq(above, low, high, xtol=1e-12 * high))
    a = x - 1.0 / theta
    excess = inverted_tail(lambda s: log_transform(s) - s * a - 2.0 * np.log(s), theta, _REACH / math.sqrt(smoothing))
    return min(1.0, theta * excess)


def _log_transform(law: _FiniteLaw) -> LogTransform:
    """Return the function ln E e^(s Y), Re s > 0, of a law on a grid.

    With y = y_max - step (B j + k), 0 <= k < B, the sum over y is a product of matrices: about 2 sqrt(n) exponentials
    per argument instead of n.
    """
    step = float(np.diff(law.values).min())
    places = np.rint((law.values[-1] - law.values) / step).astype(np.int64)
    side = math.isqrt(int(places[0])) + 1
    table = np.zeros((side, side))
    table.flat[places] = law.mass
    near = step * np.arange(side)

    def log_transform(s: Complex128Array) -> Complex128Array:
        rows = np.exp(-s[:, None] * (side * near)) @ table
        mean = (rows * np.exp(-s[:, None] * near)).sum(axis=1)
        # A mean that is 0 by rounding stays as small, with a finite logarithm.
        found: Complex128Array = s * law.values[-1] + np.log(np.where(mean == 0.0, np.finfo(float).tiny, mean))
        return found

    return log_transform


def weighted_unary_bound(n_items: int, cell: UnaryCell, failure: float, *, pooled: bool = False) -> float:
    """Return E with P(some running sum of 1..n_items weighted rows of unary bits has an error above E) <= failure.

    A user's error is A w_hot + sum_i w_i B_i with E A = 0, and E B_i = 0 given A and the other bits. Its moment
    generating function at any lambda is convex in every weight in [0, 1], and flat at 0 in that of a cold cell, where a
    weight of 1 is the worst. A hot cell's worst weight is 1 or 0, and with 0 there is no hot cell. Whether a user's row
    has one may depend on all earlier releases. The rest is as in `moment_bound`.

    If exactly one bit of the row is 1, the moment is convex in all weights together, so they are 0 or 1, and the sum is
    1 with probability P: p and up to cells - 1 times q, or up to cells times q. All P in between are counted.

    pooled: the sum is over all steps of a user, who reports one of them. In some number of these steps the row has a
    hot cell of weight 1 (the moment is convex in all weights together); the worst number counts.
    """
    step = cell.sampled_steps / (cell.p - cell.q)
    log_moment = _log_pooled_moment if pooled else _log_unary_moment

    def one_side(sign: float) -> float:
        return moment_bound(lambda a: log_moment(cell, sign * a), n_items, failure, step * step)

    return max(one_side(1.0), one_side(-1.0))


def _log_unary_moment(cell: UnaryCell, argument: float) -> float:
    """Return the larger log E e^(argument Y) of the errors Y of a whole row's sum with and without a hot cell."""
    hot, cold = _log_row_moments(cell, argument)
    return max(_log_mean(hot, cell.sampled_steps) - argument, _log_mean(cold, cell.sampled_steps))


def _log_pooled_moment(cell: UnaryCell, argument: float) -> float:
    """Return log E e^(argument Y), Y the error of one user's sum over all steps, for the worst number of hot steps."""
    hot, cold = _log_row_moments(cell, argument)
    numbers = np.arange(cell.sampled_steps + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        shares = np.log(numbers / cell.sampled_steps), np.log1p(-numbers / cell.sampled_steps)
    return float(np.max(np.logaddexp(shares[0] + hot, shares[1] + cold) - argument * numbers))


def _log_row_moments(cell: UnaryCell, argument: float) -> tuple[float, float]:
    """Return log E e^(argument X), X a reported row's sum times the sampled steps, with and without a hot cell."""
    p, q, steps, cells, exclusive = cell
    step = steps * argument / (p - q)
    if exclusive:
        hot = _worst_log_error(p, min(1.0, p + (cells - 1) * q), step)
        return hot + steps * argument, _worst_log_error(0.0, min(1.0, cells * q), step)
    cold, hot = _log_bit(q, step), _log_bit(p, step)
    return (cells - 1) * cold + hot - cells * q * step, cells * cold - cells * q * step


def _worst_log_error(low: float, high: float, step: float) -> float:
    """Return the largest log E e^(step (B - P)) of a bit B that is 1 with a probability P between low and high.

    It is concave in P, with the maximum at 1 / step - 1 / (e^step - 1).
    """
    if abs(step) < _SMALL_STEP:
        best = 0.5 - step / 12.0
    else:
        best = 1.0 / step - (1.0 / math.expm1(step) if step < _LARGE_STEP else 0.0)
    worst = min(max(best, low), high)
    return (_log_bit(worst, step) if worst > 0.0 else 0.0) - worst * step


def _log_bit(probability: float, step: float) -> float:
    """Return log(1 - probability + probability e^step), probability > 0."""
    if abs(step) < 1.0:
        return math.log1p(probability * math.expm1(step))
    otherwise = math.log1p(-probability) if probability < 1.0 else -math.inf
    return float(np.logaddexp(otherwise, math.log(probability) + step))


def _log_mean(reported: float, steps: int) -> float:
    """Return log(1 - 1/steps + e^reported / steps)."""
    return _log_bit(1.0 / steps, reported)
