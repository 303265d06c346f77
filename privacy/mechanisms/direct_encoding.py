"""Direct encoding, also called k-ary or generalised randomized response: the report names one cell of the row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import RandomizedResponses
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import OneHotEncoding, encodings, largest_row_loss, scaled
from dprl.privacy.mechanisms.randomized_response import COIN_BITS, truth_bits
from dprl.privacy.mechanisms.samplers import Noise, sampler
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import LIMBS, fill_bernoulli, to_limbs

_WORDS = 1 << 64


@dataclass(frozen=True)
class DirectEncoding(OneHotEncoding):
    """The report names one cell: the hot one with probability p, every other one with q = p / e^epsilon.

    It is k-ary randomized response on `width` cells, sent as one bit per cell: with probability
    t = (e^epsilon - 1) / (e^epsilon - 1 + width) the truth, otherwise a uniform cell.
    A cold cell's variance is below that of the optimised unary encoding for width < 3 e^epsilon + 2, a hot cell's for
    width < e^epsilon + 3 + e^-epsilon.

    *Formal guarantee.* (epsilon, 0)-DP for any two one-hot vectors: a report has probability t [it is hot] + (1 - t) u,
    where u >= floor(2^64 / width) / 2^64 is the probability of the uniform choice in computer arithmetic, and t is
    rounded down to 256 bits such that t / ((1 - t) u) <= e^epsilon - 1, exactly.

    >>> encoding = DirectEncoding(math.log(3.0), width=2)
    >>> round(encoding.hot_probability, 6), round(encoding.cold_probability, 6)
    (0.75, 0.25)

    Args:
        width: cells of a row, at least 1 and below 2^32.

    Paper: Kairouz, Bonawitz, Ramage 2016, sec. 3.1; Wang, Blocki, Li, Jha 2017, sec. 4.1.
    """

    width: int = 2
    name: ClassVar[str] = "direct_encoding"
    law: ClassVar[int] = 9
    exclusive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.width < 1 << 32:
            raise ValueError(f"width must be at least 1 and below 2^32, got {self.width}; give the cells of a row")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, width: int) -> Self:
        """Return the (epsilon, delta)-DP encoding of one row with the least noise."""
        return cls(largest_row_loss(partial(cls, width=width), epsilon, delta), width)

    @property
    def hot_probability(self) -> float:
        """Probability p = e^epsilon / (e^epsilon - 1 + width)."""
        return self.cold_probability + self.gap

    @property
    def cold_probability(self) -> float:
        """Probability q = 1 / (e^epsilon - 1 + width)."""
        return 1.0 / (math.expm1(self.epsilon) + self.width)

    @property
    def gap(self) -> float:
        """Probability t of the truth, p - q."""
        return math.expm1(self.epsilon) * self.cold_probability

    @property
    def losses(self) -> tuple[float, float]:
        """Privacy loss of a hot bit that is 1, and of one that is 0: only the bit that is 1 tells something."""
        return self.epsilon, 0.0

    def curve(self, sensitivity: Sensitivity) -> RandomizedResponses:
        """Return the exact composition of the encodings; a report names one of two cells with probability p + q."""
        informative = (math.exp(self.epsilon) + 1.0) * self.cold_probability * (1.0 + 1e-15)
        return RandomizedResponses(encodings(sensitivity), self.epsilon, informative=min(1.0, informative))

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the probabilities."""
        q = self.cold_probability
        return (
            f"q = 1 / (e^epsilon - 1 + k) = 1 / (e^{self.epsilon:.6g} - 1 + {self.width}) = {q:.6g} "
            f"for each cold cell of k, p = e^epsilon q for the hot one: {encodings(sensitivity)} one-hot rows change"
        )

    def table(self) -> npt.NDArray[np.uint64]:
        """Return t as uint64[4], for `fill_direct`."""
        truth = Fraction(truth_bits(Fraction(self.epsilon)), 1 << COIN_BITS)
        odds = (truth / (1 - truth) - 1) * Fraction(_WORDS // self.width, _WORDS)
        return to_limbs(math.floor(odds / (1 + odds) * (1 << COIN_BITS)), LIMBS)

    def sum_of_bits(self, ones: Int64Array, users: Int64Array, generator: np.random.Generator) -> Int64Array:
        """Return the sums of the bits of rows' users: who does not tell the truth is in a uniform cell."""
        true = generator.binomial(ones, self.gap)
        uniform = generator.multinomial(users - true.sum(axis=1), np.full(self.width, 1.0 / self.width))
        return np.asarray(true + uniform)


@sampler(DirectEncoding.law)
def fill_direct(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[width], contiguous, with one report: the coin is draw number first, the cell the next one.

    `noise.bound` is the hot cell; one outside 0, ..., width-1 is moved to the edge, see `fill_unary`.

    *Formal guarantee.* That of the encoding of this width that made `noise`, for any two hot cells.
    """
    n = out.shape[0]
    if n == 0:
        return
    cell = min(max(int(noise.bound), 0), n - 1)
    if n > 1:  # A row of one cell tells nothing.
        # The word is drawn in the memory of the bits.
        fill_bits(out.view(np.uint64)[1:2], noise.key, first + np.uint64(1))
        other = scaled(out.view(np.uint64)[1], n)
        fill_bernoulli(out[:1], noise.table, noise.key, first)
        if out[0] == 0.0:
            cell = other
    for i in range(n):
        out[i] = 0.0
    out[cell] = 1.0
