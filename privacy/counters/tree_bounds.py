"""The largest noise of all prefixes of a tree counter: its exact distribution, by recursion over the levels.

Given the noise x of one prefix, what lies to its right and to its left depends on fresh nodes only. With H_i(x) the
probability that one of the base^i-blocks' prefixes on one side of it leaves [-E, E], both kinds of tree obey

    a_J = G_i,   a_j = G_i + (1 - G_i) K a_(j+1),   H_(i+1) = H_i + (1 - H_i) K a_1,

where K adds one node, J digits go one way, and G_i is what lies around a prefix: H_i on the right (binary, J = 1), or
on both sides (balanced digits, J = (base - 1) / 2). No term is negative, so a failure probability of 1e-25 is as
precise as one of 0.1.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.laplace_sums import laplace_sum_tail
from dprl.privacy.counters.solving import smallest_passing
from dprl.privacy.mechanisms.base import (
    BOUNDED_LAPLACE,
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    LAPLACE,
    Mechanism,
)

KNOWN_LAWS = "laplace, gaussian, discrete_laplace, discrete_gaussian, bounded_laplace"
# Lattice points in [0, E] for Laplace: rounding a node's noise moves it by half a step, 18 nodes by 6e-4 E.
_LAPLACE_POINTS = 16384
_COARSE_STEP = 0.25
# Lattice steps in one standard deviation. Rounding then adds 1/12 step^2 to its variance, 4e-5 to the deviation ...
_GAUSSIAN_STEPS = 32
# ... and this covers it; checked against finer lattices.
_GAUSSIAN_SLACK = 2e-4
# A Gaussian's mass further out is below 1e-55.
_GAUSSIAN_REACH = 16.0
# What is left out of a law of sums.
_NEGLIGIBLE = 1e-50
# Larger scales are treated as continuous.
_LARGEST_LATTICE_SCALE = 64.0
# Bounds that are remembered: each seed of a cell asks for the same, and solving for one takes 20 to 40 ms.
_KEPT = 256


class Lattice(NamedTuple):
    """A symmetric law on the integers: `mass` float64[m] of 0..m-1, then mass[-1] * ratio, * ratio^2, ..."""

    mass: Float64Array
    ratio: float

    def spread(self, inside: Float64Array) -> Float64Array:
        """Return the mean of g(x + Z), x = -N..N, for g = `inside` float64[2N+1], symmetric, there and 1 elsewhere."""
        if self.ratio == 0.0:
            return _spread_by_sum(self.mass, inside)
        own, step = float(self.mass[0]), float(self.mass[1])
        one_side = _decayed_sum(inside, self.ratio)
        return own * inside + (step / self.ratio) * (one_side + one_side[::-1])


def tree_bound(base: int, n_items: int, law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some prefix 1..n_items of a sum of `summands` cells is off by more than E) <= failure.

    base: 2 for the binary tree, odd for balanced digits. Laplace (one summand) and the discrete laws: rigorous, at most
    0.2 % above the smallest E (discrete: the next integer). Others: a lattice of 1/32 standard deviations and 2e-4 of
    slack.
    """
    scale = law.scale
    discrete = {DISCRETE_LAPLACE: discrete_laplace, DISCRETE_GAUSSIAN: discrete_gaussian}.get(law.law)
    if discrete is not None and (scale < 1.0 or scale * math.sqrt(summands) <= _LARGEST_LATTICE_SCALE):
        return float(_smallest(base, n_items, _summed(discrete(scale), summands), failure, 1))
    if law.law in (LAPLACE, BOUNDED_LAPLACE):
        # A bounded Laplace is the more peaked of two log-concave laws: it fails less.
        return scale * _laplace_bound(base, n_items, summands, failure)
    if law.law == DISCRETE_LAPLACE:
        # The difference of two exponentials rounded down is less than 1 away from the unrounded one.
        rounding = summands * _largest_depth(base, n_items)
        return float(math.floor(scale * _laplace_bound(base, n_items, summands, failure) + rounding))
    if law.law == GAUSSIAN:
        return scale * math.sqrt(summands) * _gaussian_bound(base, n_items, failure)
    if law.law == DISCRETE_GAUSSIAN:
        return float(math.floor(scale * math.sqrt(summands) * _gaussian_bound(base, n_items, failure) + 0.5))
    raise ValueError(f"law must be one of {KNOWN_LAWS}, got {law.name}; no exact bound is known for it")


def discrete_laplace(scale: float) -> Lattice:
    """Return P(z) proportional to exp(-|z| / scale)."""
    ratio = math.exp(-1.0 / scale)
    return Lattice((1.0 - ratio) / (1.0 + ratio) * np.array([1.0, ratio]), ratio)


def rounded_laplace(step: float) -> Lattice:
    """Return the law of Laplace(1) / step rounded to the nearest integer."""
    ratio = math.exp(-step)
    return Lattice(np.array([-math.expm1(-step / 2.0), math.sinh(step / 2.0) * ratio]), ratio)


def rounded_laplace_sum(step: float, summands: int) -> Lattice:
    """Return the law of a sum of Laplace(1) draws / step rounded to the nearest integer."""
    end = 2.0 * math.sqrt(summands)
    while laplace_sum_tail(end, summands) > _NEGLIGIBLE:
        end *= 1.2
    edges = step * (np.arange(math.ceil(end / step) + 2) - 0.5)
    beyond = 0.5 * np.array([laplace_sum_tail(float(x), summands) for x in edges[1:]])
    return Lattice(np.concatenate(([1.0 - 2.0 * beyond[0]], -np.diff(beyond))), 0.0)


def discrete_gaussian(scale: float) -> Lattice:
    """Return P(z) proportional to exp(-z^2 / (2 scale^2))."""
    z = np.arange(math.ceil(_GAUSSIAN_REACH * scale) + 2)
    mass = np.exp(-0.5 * (z / scale) ** 2)
    return Lattice(mass / (2.0 * mass.sum() - mass[0]), 0.0)


def rounded_gaussian(steps: int) -> Lattice:
    """Return the law of N(0, 1) * steps rounded to the nearest integer."""
    edges = (np.arange(math.ceil(_GAUSSIAN_REACH * steps) + 2) - 0.5) / steps
    # Gauss-Legendre in every bin: differences of a distribution function would lose the tail.
    nodes, weights = np.polynomial.legendre.leggauss(5)
    x = edges[:, None] + (nodes + 1.0) / (2.0 * steps)
    return Lattice(np.exp(-0.5 * x * x) @ weights / (2.0 * steps * math.sqrt(2.0 * math.pi)), 0.0)


def _summed(law: Lattice, summands: int) -> Lattice:
    """Return the law of a sum of independent draws; what has no mass to speak of is left out."""
    if summands == 1:
        return law
    mass = law.mass
    if law.ratio > 0.0:
        mass = mass[0] * law.ratio ** np.arange(1 + math.ceil(math.log(_NEGLIGIBLE) / math.log(law.ratio)))
    one = np.concatenate((mass[:0:-1], mass))
    total = one
    for _ in range(summands - 1):
        total = np.convolve(total, one)
        total = total[np.flatnonzero(total > _NEGLIGIBLE)[0] :]
        total = total[: np.flatnonzero(total > _NEGLIGIBLE)[-1] + 1]
    return Lattice(total[total.shape[0] // 2 :], 0.0)


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
        # A prefix reached by subtraction: its whole left side is counted, though the last of it are not released.
        return _chain(law, sides[level - 1], truncated(max(rest - digit * block, 0)), digit, base)

    return float(truncated(n_items)[largest])


def _either(first: Float64Array, second: Float64Array) -> Float64Array:
    """Return the probability of one of two independent events."""
    return first + (1.0 - first) * second


def _chain(law: Lattice, side: Float64Array, last: Float64Array, digits: int, base: int) -> Float64Array:
    """Return what lies on one side: the lower levels, then `digits` blocks; `last` is right of the last of them."""
    around = side if base == 2 else _either(side, side)
    failing = last if base == 2 else _either(side, last)
    for _ in range(digits - 1):
        failing = _either(around, law.spread(failing))
    return _either(side, law.spread(failing))


def _decayed_sum(inside: Float64Array, ratio: float) -> Float64Array:
    """Return sum over j >= 1 of ratio^j g(x - j), x = -N..N, g being 1 left of -N; by doubling the number of terms."""
    total = np.concatenate(([1.0 / (1.0 - ratio)], inside))
    shift, factor = 1, ratio
    while shift < total.shape[0] and factor > 0.0:
        total[shift:] = total[shift:] + factor * total[:-shift]
        shift, factor = 2 * shift, factor * factor
    return ratio * total[:-1]


def _spread_by_sum(mass: Float64Array, inside: Float64Array) -> Float64Array:
    both = np.concatenate((mass[:0:-1], mass))
    reach = mass.shape[0] - 1
    inner = np.convolve(inside, both)[reach : reach + inside.shape[0]]
    beyond = np.zeros(inside.shape[0])
    tail = np.cumsum(mass[::-1])[::-1]
    near = min(inside.shape[0], reach)
    beyond[:near] = tail[1 : near + 1]
    return inner + beyond + beyond[::-1]


@lru_cache(_KEPT, typed=True)
def _laplace_bound(base: int, n_items: int, summands: int, failure: float) -> float:
    if summands > 1:
        step = math.sqrt(2.0 * summands) / _GAUSSIAN_STEPS
        law = rounded_laplace_sum(step, summands)
        return _crossing(base, n_items, law, failure) * step * (1.0 + _GAUSSIAN_SLACK)
    coarse = _smallest(base, n_items, rounded_laplace(_COARSE_STEP), failure, 64)
    step = _COARSE_STEP * (coarse + 1) / _LAPLACE_POINTS
    points = _smallest(base, n_items, rounded_laplace(step), failure, _LAPLACE_POINTS)
    return (points + 0.5 + 0.5 * _largest_depth(base, n_items)) * step


@lru_cache(_KEPT, typed=True)
def _gaussian_bound(base: int, n_items: int, failure: float) -> float:
    law = rounded_gaussian(_GAUSSIAN_STEPS)
    return _crossing(base, n_items, law, failure) / _GAUSSIAN_STEPS * (1.0 + _GAUSSIAN_SLACK)


def _crossing(base: int, n_items: int, law: Lattice, failure: float) -> float:
    """Return where in between two half-integers the failure probability of a continuous law meets `failure`."""
    right = _smallest(base, n_items, law, failure, 8 * _GAUSSIAN_STEPS)
    if right == 0:
        return 0.5
    above, below = (math.log(failure_probability(base, n_items, law, n) / failure) for n in (right - 1, right))
    return right - 0.5 + above / (above - below)


def _largest_depth(base: int, n_items: int) -> int:
    """Return how many nodes a prefix 1..n_items has at most (balanced digits: an upper bound)."""
    if base == 2:
        return n_items.bit_length()
    half, depth, reach = (base - 1) // 2, 0, 0
    while reach < n_items:
        block = 2 * reach + 1
        depth += min(half, (n_items + reach) // block)
        reach = (block * base - 1) // 2
    return depth


def _smallest(base: int, n_items: int, law: Lattice, failure: float, guess: int) -> int:
    """Return the smallest whole number that the noise exceeds with probability `failure` at most."""

    def fails(largest: int) -> bool:
        return failure_probability(base, n_items, law, largest) > failure

    return smallest_passing(fails, guess)
