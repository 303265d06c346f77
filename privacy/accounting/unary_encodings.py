"""The exact privacy curve of optimised unary encodings, alone and composed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprl.privacy.accounting.root_finding import smallest
from dprl.privacy.base import Float64Array


@lru_cache(maxsize=64)
def _total_loss(n: int, epsilon_0: float) -> Float64Array:
    """Return the probabilities float64[2n+1] of a total loss of -n, ..., n times epsilon_0.

    By squaring. Sums of positive terms only: every probability is right to a few digits of the last place.
    """
    q = 1.0 / (1.0 + math.exp(epsilon_0)) if epsilon_0 < 700.0 else math.exp(-epsilon_0)
    power, total = np.array([q / 2.0, 0.5, (1.0 - q) / 2.0]), np.ones(1)
    left = n
    while left:
        if left & 1:
            total = np.convolve(total, power)
        power = np.convolve(power, power) if left > 1 else power
        left >>= 1
    total.flags.writeable = False
    return total


@dataclass(frozen=True)
class OptimizedUnaryEncodings:
    """n optimised unary encodings with epsilon_0 each, of n one-hot vectors that may all change.

    *Exact.* Only the two cells that differ carry information, and one of them is a fair coin in either world. With
    probability 1/2 their bits are equal and the loss is 0; otherwise they are one randomised response with epsilon_0.
    So delta(epsilon) of one is half that of randomised response, and n of them lose a sum of independent 0,
    +-epsilon_0.

    Args:
        n: how many encodings.
        epsilon_0: pure epsilon of each.
    """

    n: int
    epsilon_0: float
    exact: bool = True

    @property
    def pure_epsilon(self) -> float:
        """The total loss."""
        return self.n * self.epsilon_0

    def delta(self, epsilon: float) -> float:
        """Return the sum over the losses j epsilon_0 > epsilon of P(j) (1 - e^(epsilon - j epsilon_0))."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        gap = np.arange(-self.n, self.n + 1) * self.epsilon_0 - epsilon
        positive = gap > 0.0
        total = float(np.sum(_total_loss(self.n, self.epsilon_0)[positive] * -np.expm1(-gap[positive])))
        # What n convolutions may round off.
        return min(1.0, total * (1.0 + 4e-16 * (self.n + 2)))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta`, rounded up; n epsilon_0 for 0."""
        pure = self.pure_epsilon
        if delta <= 0.0:
            return pure
        if self.delta(0.0) <= delta:
            return 0.0
        return min(pure, smallest(self.delta, delta, pure))

    @property
    def method(self) -> str:
        """How the numbers come about."""
        return f"exact composition of {self.n} optimised unary encodings with epsilon_0 = {self.epsilon_0:.6g}"
