"""Root finding, rounded to the safe side."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import scipy

# Relative error of a root or a sum, with room to spare.
ROUNDING = 1e-9
_LARGEST = 1e300
_NOTHING = 1e-320
# Relative slack of failure probabilities: far above the rounding of a tail, far below the precision of a bound.
_SLACK = 1e-6
# Below every requested failure probability; those of bounded sums can be 0.
_ALMOST_NEVER = 1e-300
# Curves round deltas up by 1e-9, solve for deltas smaller by 2e-9, and round epsilons up by 1e-9.
_INSIDE = 1.0 - 4.0 * ROUNDING


def inside(epsilon: float, delta: float) -> tuple[float, float]:
    """Return a slightly stricter request: a curve that meets it also meets (epsilon, delta) after rounding."""
    return epsilon * _INSIDE, delta * _INSIDE


def smallest(value: Callable[[float], float], target: float, start: float) -> float:
    """Return the smallest x > 0 with value(x) <= target, rounded up; infinity if there is none below 1e300.

    value: non-increasing, from 0 upwards; may underflow to 0. target: above 0. start: a guess above 0, to save time.
    """
    high = low = start
    while value(high) > target:
        if high > _LARGEST:
            return math.inf
        low, high = high, high * 8.0
    while value(low) <= target:
        if low < 1.0 / _LARGEST:
            return low
        low, high = low / 8.0, low
    span = math.log(high / low)

    def at(part: float) -> float:
        # The exact end, whose value is known to lie on the other side.
        return high if part >= 1.0 else low * math.exp(part * span)

    def excess(part: float) -> float:
        # Ratios, because both may be 1e-15 or less.
        return math.log(max(value(at(part)), _NOTHING) / target)

    x = at(float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-13, rtol=1e-14)))
    step = ROUNDING
    while value(x * (1.0 + step)) > target:
        step *= 2.0
    return x * (1.0 + step)


def least_epsilon(delta_at: Callable[[float], float], delta: float, start: float, pure: float) -> float:
    """Return the least epsilon with delta_at(epsilon) <= delta, rounded up; at most `pure`, and `pure` for delta 0.

    delta_at: the delta of a privacy curve at each epsilon. start: a guess above 0, see `smallest`.
    """
    if delta <= 0.0:
        return pure
    return 0.0 if delta_at(0.0) <= delta else min(pure, smallest(delta_at, delta, start))


def largest(value: Callable[[float], float], target: float, start: float) -> float:
    """Return the largest x > 0 with value(x) <= target, rounded down, for a non-decreasing `value`."""
    return 1.0 / smallest(lambda y: value(1.0 / y), target, 1.0 / start)


def root_of_tail(failures: Callable[[float], float], failure: float) -> float:
    """Return the x where the decreasing failure probability `failures` meets `failure`, rounded up."""
    target = failure * (1.0 - _SLACK)
    high = 1.0
    while failures(high) > target:
        high *= 2.0
    log_excess = lambda x: math.log(max(failures(x), _ALMOST_NEVER) / target)  # noqa: E731
    root = float(scipy.optimize.brentq(log_excess, 0.0, high, xtol=1e-9 * high))
    return root * (1.0 + 1e-8)


def smallest_passing(fails: Callable[[int], bool], guess: int) -> int:
    """Return the smallest n >= 0 with fails(n) false; fails is true first, then false."""
    # The bracket widens from the guess, so a good guess costs few evaluations.
    width = max(1, guess // 256)
    low, high = guess - width, guess
    while fails(high):
        low, high, width = high, high + width, 4 * width
    while low >= 0 and not fails(low):
        low, high, width = low - width, low, 4 * width
    return bisect_left(range(high), True, lo=max(low, -1) + 1, key=lambda n: not fails(n))
