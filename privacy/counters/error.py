"""High-probability bounds on the noise of counters and on sums of messages: `precision: exact`.

A bound E is in counts: with probability at least 1 - beta none of n_cells independent cells has an error above E at any
of the prefixes 1..n_items. The law is that of one node or message. A cell can be the sum of `summands` disjoint cells.

* Trees: the exact distribution of the largest noise, by a recursion over the levels (`tree_bound`).
* Gaussian noise of known standard deviations: Hunter's inequality along the chain of prefixes (`gaussian_bound`).
* Running sums of messages: Levy's inequality, see `Mechanism.sum_bound` (`running_sum_bound`).
* Unary-encoded reports: Bentkus' inequality for any choice of hot cells (`unary_cell_bound`).
* Sums with weights in [-1, 1] that are fixed in advance: bounds by moment generating functions, because that of w Z is
  at most that of Z (`weighted_...`). They are about 7 % above the exact ones for weights of 1, and more for few draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from dprl.privacy.accounting.root_finding import root_of_tail, smallest_passing
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms import tails
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.tails import Complex128Array, Lattice, LogTransform

_SMALLEST_BETA = 1e-30
# Running sums of fewer draws are treated as a chain of nodes, because the recursion of trees has no factor of 2.
_CHAIN_ITEMS = 32


def failure_of_a_cell(n_cells: int, beta: float) -> float:
    """Return the failure probability per cell for which n_cells independent cells fail with probability beta."""
    if n_cells < 1:
        raise ValueError(f"n_cells must be at least 1, got {n_cells}; without any there is no error")
    if not _SMALLEST_BETA <= beta < 1.0:
        raise ValueError(f"beta must lie in [{_SMALLEST_BETA:g}, 1) per count family, got {beta:g}; raise it")
    return -math.expm1(math.log1p(-beta) / n_cells)


def running_sum_bound(n_items: int, law: Mechanism, n_cells: int, beta: float) -> float:
    """Return E for running sums of independent draws, one per item."""
    failure = failure_of_a_cell(n_cells, beta)
    if n_items <= _CHAIN_ITEMS:
        return tree_bound(2 * n_items + 1, n_items, law, failure)
    return law.sum_bound(n_items, failure)


def weighted_sum_bound(n_items: int, law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some running sum of 1..n_items draws per cell exceeds E) <= failure, for all weights."""
    return tails.moment_bound(law.log_moment, n_items * summands, failure, law.variance, law.moment_limit)


def weighted_tree_bound(depths: Mapping[int, int], law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some prefix exceeds E) <= failure, for all weights, by a union bound over prefixes.

    depths: number of prefixes by their number of nodes.
    """
    number, prefixes = sorted(depths), np.array([depths[nodes] for nodes in sorted(depths)])

    def exponent(draws: float, x: float) -> float:
        """Return an upper bound of log P(sum of `draws` draws > x)."""
        if x <= 0.0:
            return 0.0
        guess = x / max(draws * law.variance, tails.LEAST_VARIANCE)
        least = tails.least_over_arguments(lambda a: draws * law.log_moment(a) - a * x, guess, law.moment_limit)
        return min(0.0, least)

    def failures(x: float) -> float:
        exponents = [exponent(float(nodes) * summands, x * law.scale) for nodes in number]
        return float(2.0 * (prefixes * np.exp(exponents)).sum())

    return law.scale * root_of_tail(failures, failure)


# Trees.

# Lattice points in [0, E] for one Laplace: rounding changes a node's noise by half a step, 18 nodes by 6e-4 E.
_FINE_POINTS = 16384
_COARSE_STEP = 0.25
# Lattice steps in one standard deviation. Rounding then adds 1/12 step^2 to its variance, 4e-5 to the deviation ...
_STEPS = 32
# ... and this covers it; checked against finer lattices.
_TREE_SLACK = 2e-4
# Number of cached bounds: the seeds of a cell share them, and solving for one takes 20 to 40 ms.
_KEPT = 256


def tree_bound(base: int, n_items: int, law: Mechanism, failure: float, summands: int = 1) -> float:
    """Return E with P(some prefix 1..n_items of a sum of `summands` cells has an error above E) <= failure.

    Prefix t of the binary tree (base 2) adds one node for every 1 of t in binary; that of a tree with an odd base adds
    or subtracts |d| nodes for every balanced digit d of t.

    Given the noise x of one prefix, both sides of it depend on fresh nodes only. With H_i(x) the probability that one
    of the prefixes of a base^i-block on one side of it leaves [-E, E], both kinds of tree obey

        a_J = G_i,   a_j = G_i + (1 - G_i) K a_(j+1),   H_(i+1) = H_i + (1 - H_i) K a_1,

    where K adds one node, J is the number of digits in one direction, and G_i is for both sides of a prefix: H_i on the
    right (binary, J = 1), or on both sides (balanced digits, J = (base - 1) / 2). No term is negative, so a failure
    probability of 1e-25 is as precise as one of 0.1.

    base: 2 (binary tree) or odd (balanced digits). Laplace (one summand) and the discrete laws: rigorous, at most 0.2 %
    above the smallest E (discrete: the next integer). Others: a lattice of 1/32 standard deviations and 2e-4 of slack.
    """
    lattice = law.lattice(summands)
    if lattice is not None:
        return float(_smallest(base, n_items, lattice, failure, 1))
    envelope = law.envelope
    bound = envelope.scale * _standard_bound(type(envelope), base, n_items, summands, failure)
    rounding = law.rounding(summands * _largest_depth(base, n_items))
    return float(math.floor(bound + rounding)) if rounding else bound


def failure_probability(base: int, n_items: int, law: Lattice, largest: int) -> float:
    """Return P(|noise of some prefix 1..n_items| > largest); for balanced digits rounded up to whole left sides."""
    nothing = np.zeros(2 * largest + 1)
    sides, reach = [nothing], [0]
    while reach[-1] < n_items:
        level = len(sides)
        reach.append(2**level - 1 if base == 2 else (base**level - 1) // 2)
        if reach[-1] < n_items:
            side = sides[-1]
            digits = 1 if base == 2 else (base - 1) // 2
            sides.append(_chain(law, side, side, digits, base))

    def truncated(rest: int) -> Float64Array:
        level = next(i for i, r in enumerate(reach) if r >= rest)
        if level == 0:
            return nothing
        block, below = base ** (level - 1), 0 if base == 2 else reach[level - 1]
        digit = (rest + below) // block
        # A prefix reached by subtraction: its whole left side is counted, although its last prefixes are not released.
        return _chain(law, sides[level - 1], truncated(max(rest - digit * block, 0)), digit, base)

    return float(truncated(n_items)[largest])


def _either(first: Float64Array, second: Float64Array) -> Float64Array:
    """Return the probability of one of two independent events."""
    return first + (1.0 - first) * second


def _chain(law: Lattice, side: Float64Array, last: Float64Array, digits: int, base: int) -> Float64Array:
    """Return the failures on one side: the lower levels, then `digits` blocks; `last` is right of the last of them."""
    around = side if base == 2 else _either(side, side)
    failing = last if base == 2 else _either(side, last)
    for _ in range(digits - 1):
        failing = _either(around, law.spread(failing))
    return _either(side, law.spread(failing))


@lru_cache(_KEPT, typed=True)
def _standard_bound(law: Callable[[float], Mechanism], base: int, n_items: int, summands: int, failure: float) -> float:
    """Return E for a continuous law of scale 1."""
    standard = law(1.0)
    coarse = standard.rounded(_COARSE_STEP, summands)
    if coarse.ratio > 0.0:  # a geometric law costs little on a fine lattice
        points = _smallest(base, n_items, coarse, failure, 64)
        step = _COARSE_STEP * (points + 1) / _FINE_POINTS
        points = _smallest(base, n_items, standard.rounded(step, summands), failure, _FINE_POINTS)
        return (points + 0.5 + 0.5 * _largest_depth(base, n_items)) * step
    deviation = math.sqrt(standard.variance * summands)
    lattice = standard.rounded(deviation / _STEPS, summands)
    # The failure probability meets `failure` between two half-integers.
    right, crossing = _smallest(base, n_items, lattice, failure, 8 * _STEPS), 0.5
    if right > 0:
        above, below = (math.log(failure_probability(base, n_items, lattice, n) / failure) for n in (right - 1, right))
        crossing = right - 0.5 + above / (above - below)
    return deviation * (crossing / _STEPS * (1.0 + _TREE_SLACK))


def _largest_depth(base: int, n_items: int) -> int:
    """Return the largest number of nodes of a prefix 1..n_items (for balanced digits an upper bound)."""
    if base == 2:
        return n_items.bit_length()
    half, depth, reach = (base - 1) // 2, 0, 0
    while reach < n_items:
        block = 2 * reach + 1
        depth += min(half, (n_items + reach) // block)
        reach = (block * base - 1) // 2
    return depth


def _smallest(base: int, n_items: int, law: Lattice, failure: float, guess: int) -> int:
    """Return the smallest whole number that the noise exceeds with probability at most `failure`."""
    return smallest_passing(lambda largest: failure_probability(base, n_items, law, largest) > failure, guess)


# Gaussian noise.

# Relative: standard deviations and distances 1 - correlation are rounded up to powers of one plus these, to group
# similar prefixes. The first increases E by at most this share.
_DEVIATION_STEP = 2e-4
_DISTANCE_STEP = 0.02
_SMALLEST_DISTANCE = 1e-12
# Three powers, each below 2^20 in absolute value, make one whole number.
_RADIX = 1 << 21
# Standard deviations below this share of the largest count as 0.
_NO_NOISE = 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Twice the logarithm of the decrease of an integrand at the end of its integral.
_FALL = 80.0
# Prefixes with a smaller share of the failures are bounded by P(A_t).
_NEGLIGIBLE = 1e-7


def gaussian_bound(std: Float64Array, step_std: Float64Array, failure: float) -> float:
    """Return E with P(|N_t| > E for some t) <= failure, N_t normal.

    With A_t the event that the error of prefix t exceeds E, Hunter's inequality along the chain of prefixes is
    P(some A_t) <= P(A_1) + sum over t > 1 of P(A_t without A_(t-1)); the terms are integrals over a half line.
    Paper: Hunter 1976, equation (4).

    std, step_std: standard deviations of N_t and of N_t - N_(t-1), float64[T] each; the first step is not used.
    """
    unit = float(std.max())
    if unit == 0.0:
        return 0.0
    smallest = _NO_NOISE * unit
    first, noisy = max(float(std[0]), smallest), std[1:] > smallest
    now, before, step = std[1:][noisy], np.maximum(std[:-1][noisy], smallest), step_std[1:][noisy]
    # 1 - correlation: (step^2 - (now - before)^2) / (2 now before), without its cancellation.
    change = now - before
    distance = np.clip((step - change) * ((step + change) / now) / (2.0 * before), _SMALLEST_DISTANCE, 2.0)
    distance[before <= smallest] = 1.0
    # The prefixes in groups: their numbers are rounded up to powers, see above.
    keys, widths = np.zeros(now.shape, dtype=np.int64), (_DEVIATION_STEP, _DEVIATION_STEP, _DISTANCE_STEP)
    for values, width in zip((now, before, distance), widths, strict=True):
        keys = keys * _RADIX + (np.ceil(np.log(values) / math.log1p(width)).astype(np.int64) + _RADIX // 2)
    keys, number = np.unique(keys, return_counts=True)
    powers = keys // _RADIX**2, keys // _RADIX % _RADIX, keys % _RADIX
    now, before, distance = (
        np.exp((power - _RADIX // 2) * math.log1p(width)) for power, width in zip(powers, widths, strict=True)
    )
    distance = np.minimum(distance, 2.0)

    def failures(x: float) -> float:
        found, failing = 2.0 * scipy.special.ndtr(-unit * x / first), number * 2.0 * scipy.special.ndtr(-unit * x / now)
        if failing.size == 0:
            return float(found)
        heavy = failing > _NEGLIGIBLE * failing.sum() / failing.size
        fresh = above_and_not_before(unit * x / now[heavy], unit * x / before[heavy], distance[heavy])
        # Rounding up the correlation's distance never makes a term larger than the prefix alone.
        later = np.minimum(2.0 * number[heavy] * fresh, failing[heavy]).sum() + failing[~heavy].sum()
        return float(found + later)

    return unit * root_of_tail(failures, failure)


def above_and_not_before(h: Float64Array, k: Float64Array, distance: Float64Array) -> Float64Array:
    """Return P(X > h, Y <= k) of standard normal X, Y with correlation 1 - distance, distance in (0, 2]; h >= 0.

    It is the integral of phi(h + v) Phi((k - rho h - rho v) / s) over v > 0, by 64 Gauss-Legendre points as far as the
    integrand has not fallen by e^-40.
    """
    rho, s = 1.0 - distance, np.sqrt(np.maximum(distance * (2.0 - distance), _SMALLEST_DISTANCE))
    start = (k - rho * h) / s
    end = np.sqrt(h * h + _FALL) - h
    falling = rho > 0.0
    until = (start + np.sqrt(np.minimum(start, 0.0) ** 2 + _FALL)) * s / np.where(falling, rho, 1.0)
    end = np.where(falling, np.minimum(end, until), end)
    v = 0.5 * end[:, None] * (_NODES + 1.0)
    density = np.exp(-0.5 * (h[:, None] + v) ** 2) / math.sqrt(2.0 * math.pi)
    below: Float64Array = (density * scipy.special.ndtr(start[:, None] - (rho / s)[:, None] * v)) @ _WEIGHTS
    return 0.5 * end * below


# Unary-encoded reports.

# Steps for which hot and cold are chosen together: the cost of the two laws' different shapes falls with its root.
_BLOCK = 64
# The laws of sums of several cells are more alike, and have more values.
_SHORTEST_BLOCK = 4
# Grid points in a standard deviation: of one step while choosing, of a block after it. Between them a convex function
# is replaced by its chord: this adds 1/1000 and 1/600 to the variance at most.
_FINE, _COARSER = 16, 10
# Normal noise of this share of the sum's standard deviation is added: it can only increase E(S - a)+, and makes its
# transform decrease ...
_SMOOTHING = 0.03
# ... to e^-50, in multiples of its inverse.
_WIDEST = 10.0
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
        return _FiniteLaw(-self.values[::-1], self.mass[::-1])

    @property
    def variance(self) -> float:
        return float(np.sum(self.mass * self.values**2))


def unary_cell_bound(n_items: int, cell: UnaryCell, n_cells: int, beta: float) -> float:
    """Return E for running sums of the unbiased estimates of a cell, one per item.

    A hot cell's bit is 1 with probability p, a cold one's with q; one of `sampled_steps` steps is reported (1: all).
    The choice of hot items is arbitrary and may depend on all earlier bits; cells may depend on each other. A cell can
    be the sum of several cells of one step, at most one of them hot.

    A bit's error has one of two laws, that of a hot cell or that of a cold one, and the choice may depend on earlier
    releases, because policies do. For any a < x, by Doob's inequality for the submartingale (S_k - a)+,

        P(max_k S_k >= x) <= E(S_n - a)+ / (x - a) <= E(Y_1 + ... + Y_n/m - a)+ / (x - a),

    where E(Y - a)+ is the largest value of E(S_m - a)+ over all choices of hot and cold in m steps (Y dominates them
    all in the convex order). The right side is computed exactly; in the limit it is 1.36 times the bound of the
    reflection principle, which is 2 % in x.
    Paper: Bentkus 2004, section 4, for the inequality.
    """
    if not 0.0 <= cell.q < cell.p <= 1.0:
        raise ValueError(f"p and q must have 0 <= q < p <= 1, got {cell.p:g} and {cell.q:g}; a bit must tell something")
    failure_of_a_cell(n_cells, beta)  # raises for an impossible beta
    hot, cold = (report_error(cell, truth) for truth in (1, 0))
    n_blocks = math.ceil(n_items / max(_SHORTEST_BLOCK, _BLOCK // cell.cells))
    law = worst_block(hot, cold, math.ceil(n_items / n_blocks))
    sides = (law, law.mirrored())
    # In units of the standard deviation, because root_of_tail() starts at 1.
    unit = math.sqrt(n_blocks * law.variance)
    bound = unit * root_of_tail(lambda x: sum(maximum_tail(side, n_blocks, unit * x) for side in sides), beta / n_cells)
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
    """Return about how many grid points `unary_cell_bound` needs: many if bits are almost never wrong."""
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
    skipped = max(1, math.floor(math.sqrt(n_steps) * _FINE / _COARSER))
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

    def log_integrand(s: Complex128Array) -> Complex128Array:
        return n * log_mean(s) + 0.5 * smoothing * s * s - s * a - 2.0 * np.log(s)

    return min(1.0, theta * tails.inverted_tail(log_integrand, theta, _WIDEST / math.sqrt(smoothing)))


def _log_transform(law: _FiniteLaw) -> LogTransform:
    """Return the function ln E e^(s Y), Re s > 0, of a law on a grid.

    With y = y_max - step (B j + k), 0 <= k < B, the sum over y is a matrix product: about 2 sqrt(n) exponentials each.
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
        return tails.moment_bound(lambda a: log_moment(cell, sign * a), n_items, failure, step * step)

    return max(one_side(1.0), one_side(-1.0))


def _log_unary_moment(cell: UnaryCell, argument: float) -> float:
    """Return the larger log E e^(argument Y) of the errors Y of a whole row's sum with and without a hot cell."""
    hot, cold = (_log_bit(1.0 / cell.sampled_steps, moment) for moment in _log_row_moments(cell, argument))
    return max(hot - argument, cold)


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
    """Return the largest log E e^(step (B - P)) of a bit B of probability P in [low, high]: concave in P."""
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
