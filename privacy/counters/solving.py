"""Roots of decreasing failure probabilities, from the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

# Relative; far above the rounding of a tail, far below what matters for a bound.
_SLACK = 1e-6
# Below every failure probability asked for; bounded sums can have none.
_ALMOST_NEVER = 1e-300


def solved(failures: Callable[[float], float], failure: float) -> float:
    """Return the x at which the decreasing function `failures` meets `failure`, from the safe side."""
    target = failure * (1.0 - _SLACK)
    high = 1.0
    while failures(high) > target:
        high *= 2.0
    log_excess = lambda x: math.log(max(failures(x), _ALMOST_NEVER) / target)  # noqa: E731
    root = float(brentq(log_excess, 0.0, high, xtol=1e-9 * high))
    return root * (1.0 + 1e-8)


def smallest_passing(fails: Callable[[int], bool], guess: int) -> int:
    """Return the smallest n >= 0 for which fails(n) is false; fails is true first, then false."""
    if not fails(0):
        return 0
    # Brackets that widen from the guess: a good one costs few evaluations.
    low, high, width = 0, guess, max(1, guess // 256)
    if fails(guess):
        low, high = guess, guess + width
        while fails(high):
            width *= 4
            low, high = high, high + width
    else:
        while guess - width > 0 and not fails(guess - width):
            high = guess - width
            width *= 4
        low = max(guess - width, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
