"""Largest noise of all prefixes of a tree counter: its exact distribution, by recursion over the levels.

Given the noise x of one prefix, both sides of it depend on fresh nodes only. With H_i(x) the probability that one of
the prefixes of a base^i-block on one side of it leaves [-E, E], both kinds of tree obey

    a_J = G_i,   a_j = G_i + (1 - G_i) K a_(j+1),   H_(i+1) = H_i + (1 - H_i) K a_1,

where K adds one node, J is the number of digits in one direction, and G_i is for both sides of a prefix: H_i on the
right (binary, J = 1), or on both sides (balanced digits, J = (base - 1) / 2). No term is negative, so a failure
probability of 1e-25 is as precise as one of 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dprl.privacy.accounting.root_finding import smallest_passing
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.tails import Lattice

# Lattice points in [0, E] for one Laplace: rounding changes a node's noise by half a step, 18 nodes by 6e-4 E.
_FINE_POINTS = 16384
_COARSE_STEP = 0.25
# Lattice steps in one standard deviation. Rounding then adds 1/12 step^2 to its variance, 4e-5 to the deviation ...
_STEPS = 32
# ... and this covers it; checked against finer lattices.
_SLACK = 2e-4
# Number of cached bounds: the seeds of a cell share them, and solving for one takes 20 to 40 ms.
_KEPT = 256


def tree_bound(base: int, n_items: int, law: Mechanism, summands: int, failure: float) -> float:
    """Return E with P(some prefix 1..n_items of a sum of `summands` cells has an error above E) <= failure.

    base: 2 for the binary tree, odd for balanced digits. Laplace (one summand) and the discrete laws: rigorous, at most
    0.2 % above the smallest E (discrete: the next integer). Others: a lattice of 1/32 standard deviations and 2e-4 of
    slack.
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
    crossing = _crossing(base, n_items, standard.rounded(deviation / _STEPS, summands), failure)
    return deviation * (crossing / _STEPS * (1.0 + _SLACK))


def _crossing(base: int, n_items: int, law: Lattice, failure: float) -> float:
    """Return the point between two half-integers where a continuous law's failure probability meets `failure`."""
    right = _smallest(base, n_items, law, failure, 8 * _STEPS)
    if right == 0:
        return 0.5
    above, below = (math.log(failure_probability(base, n_items, law, n) / failure) for n in (right - 1, right))
    return right - 0.5 + above / (above - below)


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

    def fails(largest: int) -> bool:
        return failure_probability(base, n_items, law, largest) > failure

    return smallest_passing(fails, guess)
