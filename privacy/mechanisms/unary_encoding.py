"""Unary encoding: a one-hot vector is reported bit by bit, each by a separate exact coin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.closed_forms import RandomizedResponses
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import OneHotEncoding, encodings, largest_row_loss
from dprl.privacy.mechanisms.randomized_response import COIN_BITS, truth_bits
from dprl.privacy.mechanisms.samplers import Noise, sampler
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import LIMBS, fill_bernoulli, to_limbs


@dataclass(frozen=True)
class OptimizedUnaryEncoding(OneHotEncoding):
    """The hot bit is a fair coin, p = 1/2; every other bit is 1 with probability q = 1 / (e^epsilon + 1).

    *Formal guarantee.* (epsilon, 0)-DP for any two one-hot vectors: two bits change, and p (1 - q) / (q (1 - p)) =
    e^epsilon, exactly, in computer arithmetic too (q is rounded up to 256 bits). A step drawn independently of the data
    may be sent in the clear with the encoding of that step: the report's guarantee is that of the encoding.

    >>> encoding = OptimizedUnaryEncoding(math.log(3.0))
    >>> encoding.hot_probability, round(encoding.cold_probability, 6)
    (0.5, 0.25)

    Paper: Wang, Blocki, Li, Jha 2017, sec. 4.3.
    """

    name: ClassVar[str] = "optimized_unary_encoding"
    hot_probability: ClassVar[float] = 0.5

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, width: int) -> Self:
        """Return the (epsilon, delta)-DP encoding of one row with the least noise."""
        del width
        return cls(largest_row_loss(cls, epsilon, delta))

    @property
    def cold_probability(self) -> float:
        """Probability q = 1 / (e^epsilon + 1)."""
        return float(scipy.special.expit(-self.epsilon))

    @property
    def gap(self) -> float:
        """Difference p - q."""
        return math.tanh(self.epsilon / 2.0) / 2.0

    def curve(self, sensitivity: Sensitivity) -> RandomizedResponses:
        """Return the exact composition of the encodings."""
        return RandomizedResponses(encodings(sensitivity), self.epsilon, informative=0.5)

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the probabilities."""
        return (
            f"q = 1 / (e^epsilon + 1) = 1 / (e^{self.epsilon:.6g} + 1) = {self.cold_probability:.6g} for a 1 in a cold "
            f"cell, p = 1/2 in the hot one: {encodings(sensitivity)} one-hot rows change, two bits of each"
        )

    def table(self) -> npt.NDArray[np.uint64]:
        """Return 1/2 and q, rounded up: 1 minus the truth of randomized response, which is rounded down."""
        q = (1 << COIN_BITS) - truth_bits(Fraction(self.epsilon))
        return np.concatenate([to_limbs(1 << (COIN_BITS - 1), LIMBS), to_limbs(q, LIMBS)])


@sampler(OptimizedUnaryEncoding.law)
def fill_unary(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with the bits 0.0 or 1.0 of one encoding; bit i takes coin number first + i.

    `noise.bound` is the hot cell; one outside 0, ..., n-1 is moved to the edge, because a report without a hot cell
    would be another kind of input.

    *Formal guarantee.* That of the encoding that made `noise`, for any two hot cells.
    """
    n, key, table = out.shape[0], noise.key, noise.table
    if n == 0:
        return
    cell = min(max(int(noise.bound), 0), n - 1)
    # The words are drawn in the memory of the bits.
    words = out.view(np.uint64)
    fill_bits(words, key, first)
    hot_word, p, q = words[cell], table[0], table[4]
    ties = 0
    for i in range(n):
        word = words[i]
        ties += int(word == q)
        out[i] = np.float64(word < q)
    if ties > 0:
        # Once in 2^64 words, a coin needs further words.
        fill_bernoulli(out, table[4:], key, first)
    if hot_word == p:
        fill_bernoulli(out[cell : cell + 1], table[:4], key, first + np.uint64(cell))
    else:
        out[cell] = np.float64(hot_word < p)
