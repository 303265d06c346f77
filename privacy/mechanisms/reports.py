"""Reports of bits by exact coins: randomized response, one-hot vectors, a user's rows, and shuffled reports.

A user draws one of H steps, independently of the data, sends it with all of epsilon, and the estimate is multiplied by
H. This costs a factor of about H in variance; sending every step with epsilon / H would cost about H^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from dprl.compiled import kernel
from dprl.privacy.accounting.amplification import ShuffledLoss
from dprl.privacy.accounting.closed_forms import PrivacyCurve, RandomizedResponses
from dprl.privacy.accounting.root_finding import inside, largest
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, Sensitivity
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.sampling import Noise, noise_of, sampler
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import LIMB_BITS, LIMBS, exp_minus, fill_bernoulli, leading_bits, to_limbs

COIN_BITS = LIMB_BITS * LIMBS
# For larger epsilon, a flip is rarer than the coins' resolution of 2^-256.
LARGEST_EPSILON = 100.0
SAMPLED_PREFIX = "sampled_"
_WORDS = 1 << 64
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)


def require_epsilon(epsilon: float) -> None:
    """Raise ValueError unless the coins' resolution suffices for `epsilon`."""
    if not 0.0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be above 0 and at most {LARGEST_EPSILON:g}, got {epsilon}; ask for less")


@lru_cache(maxsize=256)
def truth_bits(epsilon: float) -> int:
    """Return floor(2^256 e^epsilon / (1 + e^epsilon)); rounding down rounds the privacy loss down."""

    def truth(bits: int) -> int:
        # Rounded to the nearest: an error of 1/2, and 1/16 for the error of the exponential.
        one = 1 << (bits + 4)
        total = one + exp_minus(Fraction(epsilon), bits + 4)
        return ((one << (bits + 1)) + total) // (2 * total)

    return leading_bits(truth, COIN_BITS)


@dataclass(frozen=True)
class RandomizedResponse:
    """One bit, reported truthfully with probability e^epsilon / (1 + e^epsilon) and flipped otherwise.

    *Formal guarantee.* (epsilon, 0)-DP for any two values of the bit.
    The coins are exact: the probability is the stated one rounded down to 256 bits, so the loss is at most epsilon in
    computer arithmetic too, if the generator's words are uniform.

    epsilon: of one bit, above 0 and at most 100.
    Paper: Warner 1965; Kairouz, Oh, Viswanath 2015, sec. 3.
    """

    epsilon: float
    name: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)

    def table(self) -> npt.NDArray[np.uint64]:
        """Return the probability of the truth as uint64[4], for `fill_responses`."""
        return to_limbs(truth_bits(self.epsilon), LIMBS)


@kernel
def fill_responses(out: Float64Array, bits: Float64Array, key: np.ndarray, first: np.uint64, table: np.ndarray) -> None:
    """Fill `out` float64[n] with the responses to `bits` float64[n]; response i takes coin number first + i of `key`.

    A bit counts as 1 above 1/2, else (and for NaN) as 0: the guarantee holds for any data. `out` must not be `bits`.

    *Formal guarantee.* (epsilon, 0)-DP for every bit, with `table` that of RandomizedResponse(epsilon).
    """
    fill_bernoulli(out, table, key, first)
    for i in range(out.shape[0]):
        bit = 1.0 if bits[i] > 0.5 else 0.0
        out[i] = 1.0 - abs(out[i] - bit)


def _largest_row_loss(make: Callable[[float], OneHotEncoding], epsilon: float, delta: float) -> float:
    """Return the largest epsilon_0 at which the encoding make(epsilon_0) of one row is (epsilon, delta)-DP."""
    pure, row = epsilon, Sensitivity.of_cells(2)
    if delta <= 0.0 or pure >= LARGEST_EPSILON:
        return min(LARGEST_EPSILON, pure)
    epsilon, delta = inside(epsilon, delta)
    if make(LARGEST_EPSILON).curve(row).delta(epsilon) <= delta:
        return LARGEST_EPSILON
    return max(pure, largest(lambda e: make(min(e, LARGEST_EPSILON)).curve(row).delta(epsilon), delta, pure))


def encodings(sensitivity: Sensitivity) -> int:
    """Return the number of one-hot vectors that change; each changes two cells."""
    return (sensitivity.cells + 1) // 2


@kernel
def choose_step(key: np.ndarray, number: np.uint64, steps: int) -> int:
    """Return draw `number` of `key` on 0, ..., steps-1, see `scaled`; 1 <= steps < 2^32.

    *Formal guarantee.* None is needed: the choice does not depend on data, so even a biased one reveals nothing.
    """
    word = np.empty(1, dtype=np.uint64)
    fill_bits(word, key, number)
    return scaled(word[0], steps)


@kernel
def scaled(word: np.uint64, n: int) -> int:
    """Return the high word of word * n, 1 <= n < 2^32: 0, ..., n-1, each of probability >= floor(2^64 / n) / 2^64."""
    count = np.uint64(n)
    low = (word & _LOW_HALF) * count >> _HALF_WORD
    return int(np.int64(((word >> _HALF_WORD) * count + low) >> _HALF_WORD))


@dataclass(frozen=True)
class OneHotEncoding(ABC):
    """Base of all encodings, of epsilon in (0, 100]: bit i is 1 with probability p if i is the hot cell, else q."""

    epsilon: float
    name: ClassVar[str]
    law: ClassVar[int] = 8
    norm: ClassVar[str] = "cells"
    arithmetic: ClassVar[str] = INTEGER
    exclusive: ClassVar[bool] = False
    """Whether exactly one bit of a report is 1; otherwise bits are independent."""

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)

    @classmethod
    @abstractmethod
    def calibrated(cls, epsilon: float, delta: float, width: int) -> Self:
        """Return the (epsilon, delta)-DP encoding of one row of `width` cells with the least noise."""

    @property
    @abstractmethod
    def hot_probability(self) -> float:
        """Probability p that the hot cell's bit is 1."""

    @property
    @abstractmethod
    def cold_probability(self) -> float:
        """Probability q that another cell's bit is 1."""

    @property
    @abstractmethod
    def gap(self) -> float:
        """Difference p - q, without cancellation."""

    @property
    def losses(self) -> tuple[float, float]:
        """Privacy loss of a hot bit that is 1, and of one that is 0."""
        p, q = self.hot_probability, self.cold_probability
        return math.log(p / q), math.log((1.0 - p) / (1.0 - q))

    @abstractmethod
    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the curve of the encodings that can change within `sensitivity`."""

    @abstractmethod
    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the one line that explains the probabilities: their formula with the numbers, and the reason."""

    @abstractmethod
    def table(self) -> npt.NDArray[np.uint64]:
        """Return the probabilities of the sampler's coins, four words each: p and q for `fill_unary`."""

    def noise(self, key: npt.NDArray[np.uint64]) -> Noise:
        """Return the kernels' form of the law, with coins from the stream `key`."""
        return noise_of(self.law, 1.0, 0.0, key, self.table())

    def sum_of_bits(self, ones: Int64Array, users: Int64Array, generator: np.random.Generator) -> Int64Array:
        """Draw sums int64[rows, width] of the bits of users[i] users of row i, ones[i, j] of them with hot cell j."""
        bits = generator.binomial(ones, self.hot_probability)
        return np.asarray(bits + generator.binomial(users[:, None] - ones, self.cold_probability))

    def variance(self, *, hot: bool, steps: int = 1, cells: int = 1) -> float:
        """Return the variance of the estimate of the sum of `cells` cells, if one of `steps` vectors is drawn and sent.

        The estimate is `steps` times the sum of (bit - q) / (p - q) if its step was drawn and 0 otherwise. hot: whether
        the hot cell is among them.
        """
        p, q = self.hot_probability, self.cold_probability
        one = min(1.0, (cells - hot) * q + hot * p)
        bits = one * (1.0 - one) if self.exclusive else (cells - hot) * (q * (1.0 - q)) + hot * (p * (1.0 - p))
        return steps * (bits / self.gap**2) + (steps - 1 if hot else 0)


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
    def calibrated(cls, epsilon: float, delta: float, width: int) -> Self:  # noqa: ARG003 - as every encoding
        return cls(_largest_row_loss(cls, epsilon, delta))

    @property
    def cold_probability(self) -> float:
        return float(scipy.special.expit(-self.epsilon))

    @property
    def gap(self) -> float:
        return math.tanh(self.epsilon / 2.0) / 2.0

    def curve(self, sensitivity: Sensitivity) -> RandomizedResponses:
        return RandomizedResponses(encodings(sensitivity), self.epsilon, informative=0.5)

    def explain(self, sensitivity: Sensitivity) -> str:
        return (
            f"q = 1 / (e^epsilon + 1) = 1 / (e^{self.epsilon:.6g} + 1) = {self.cold_probability:.6g} for a 1 in a cold "
            f"cell, p = 1/2 in the hot one: {encodings(sensitivity)} one-hot rows change, two bits of each"
        )

    def table(self) -> npt.NDArray[np.uint64]:
        """Return 1/2 and q, rounded up: 1 minus the truth of randomized response, which is rounded down."""
        q = (1 << COIN_BITS) - truth_bits(self.epsilon)
        return np.concatenate([to_limbs(1 << (COIN_BITS - 1), LIMBS), to_limbs(q, LIMBS)])


@sampler(OptimizedUnaryEncoding.law)
def fill_unary(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n], contiguous, with the bits 0.0 or 1.0 of one encoding; bit i takes coin number first + i.

    `bound` is the hot cell; one outside 0, ..., n-1 is moved to the edge, because every input has one.

    *Formal guarantee.* That of the encoding that made `noise`, for any two hot cells.
    """
    n = out.shape[0]
    if n == 0:
        return
    cell = min(max(int(bound), 0), n - 1)
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


@dataclass(frozen=True)
class DirectEncoding(OneHotEncoding):
    """The report names one cell: the hot one with probability p, every other one with q = p / e^epsilon.

    It is k-ary randomized response on `width` cells, one bit per cell: with probability t = (e^epsilon - 1) /
    (e^epsilon - 1 + width) the truth, otherwise a uniform cell. A cold cell's variance is below that of the optimised
    unary encoding for width < 3 e^epsilon + 2, a hot cell's for width < e^epsilon + 3 + e^-epsilon.

    *Formal guarantee.* (epsilon, 0)-DP for any two one-hot vectors: a report has probability t [it is hot] + (1 - t) u,
    where u >= floor(2^64 / width) / 2^64 is the probability of the uniform choice in computer arithmetic, and t is
    rounded down to 256 bits such that t / ((1 - t) u) <= e^epsilon - 1, exactly.

    >>> encoding = DirectEncoding(math.log(3.0), width=2)
    >>> round(encoding.hot_probability, 6), round(encoding.cold_probability, 6)
    (0.75, 0.25)

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
        return cls(_largest_row_loss(partial(cls, width=width), epsilon, delta), width)

    @property
    def hot_probability(self) -> float:
        return self.cold_probability + self.gap

    @property
    def cold_probability(self) -> float:
        """Probability q = 1 / (e^epsilon - 1 + width)."""
        return 1.0 / (math.expm1(self.epsilon) + self.width)

    @property
    def gap(self) -> float:
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
        q = self.cold_probability
        return (
            f"q = 1 / (e^epsilon - 1 + k) = 1 / (e^{self.epsilon:.6g} - 1 + {self.width}) = {q:.6g} "
            f"for each cold cell of k, p = e^epsilon q for the hot one: {encodings(sensitivity)} one-hot rows change"
        )

    def table(self) -> npt.NDArray[np.uint64]:
        """Return t as uint64[4], for `fill_direct`."""
        truth = Fraction(truth_bits(self.epsilon), 1 << COIN_BITS)
        odds = (truth / (1 - truth) - 1) * Fraction(_WORDS // self.width, _WORDS)
        return to_limbs(math.floor(odds / (1 + odds) * (1 << COIN_BITS)), LIMBS)

    def sum_of_bits(self, ones: Int64Array, users: Int64Array, generator: np.random.Generator) -> Int64Array:
        """Return the sums of the bits of rows' users: who does not tell the truth is in a uniform cell."""
        true = generator.binomial(ones, self.gap)
        uniform = generator.multinomial(users - true.sum(axis=1), np.full(self.width, 1.0 / self.width))
        return np.asarray(true + uniform)


@sampler(DirectEncoding.law)
def fill_direct(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[width], contiguous, with one report: the coin is draw number first, the cell the next one.

    `bound` is the hot cell; one outside 0, ..., width-1 is moved to the edge, see `fill_unary`.

    *Formal guarantee.* That of the encoding of this width that made `noise`, for any two hot cells.
    """
    n = out.shape[0]
    if n == 0:
        return
    cell = min(max(int(bound), 0), n - 1)
    if n > 1:  # A row of one cell tells nothing.
        # The word is drawn in the memory of the bits.
        fill_bits(out.view(np.uint64)[1:2], key, first + np.uint64(1))
        other = scaled(out.view(np.uint64)[1], n)
        fill_bernoulli(out[:1], table, key, first)
        if out[0] == 0.0:
            cell = other
    for i in range(n):
        out[i] = 0.0
    out[cell] = 1.0


@dataclass(frozen=True)
class UnaryEncoder:
    """One of a user's one-hot rows as randomized bits.

    *Formal guarantee.* The user draws one step, independently of the data, and sends that step and its encoded row
    only: epsilon-LDP for any two trajectories, exactly, with the encoding's epsilon.

    encoding: of one row. n_steps: H. width: cells of a row.
    Paper: Wang, Blocki, Li, Jha 2017, sec. 4; [CZ22] Remark 7.
    """

    encoding: OneHotEncoding
    n_steps: int
    width: int
    arithmetic: ClassVar[str] = INTEGER
    NAMED: ClassVar[dict[str, object]] = {"sampled": True}

    def __post_init__(self) -> None:
        if getattr(self.encoding, "width", self.width) != self.width:
            raise ValueError(f"width must be that of the encoding, got {self.width} and {self.encoding}; give one")

    @property
    def name(self) -> str:
        """The name in configs and certificates."""
        return SAMPLED_PREFIX + self.encoding.name

    @property
    def scale(self) -> float:
        """The standard deviation that one user adds to a cell, averaged over a row."""
        return math.sqrt(self.mean_variance(1))

    @property
    def factor(self) -> float:
        """Factor of (bit - q) in the unbiased estimate."""
        return self.n_steps / self.encoding.gap

    def variances(self, cells: int = 1) -> tuple[float, float]:
        """Return the variance that one user adds to a sum of cells of a row, with and without the hot one."""
        steps, variance = self.n_steps, self.encoding.variance
        return variance(hot=True, steps=steps, cells=cells), variance(hot=False, steps=steps, cells=cells)

    def mean_variance(self, cells: int) -> float:
        """Return the mean of `variances` over all sums of a row with one hot cell."""
        hot, cold = self.variances(cells)
        return cold + (hot - cold) * (cells / self.width)

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the curve of the row that is sent."""
        return self.encoding.curve(sensitivity)

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the encoding's probabilities."""
        return f"{self.encoding.explain(sensitivity)}; one of {self.n_steps} steps is sent, with all of epsilon"


@dataclass(frozen=True)
class ShuffledReports:
    """Reports that a trusted shuffler permutes, in blocks of at least `users` reports, before anybody sees them.

    *Formal guarantee.* That of `ShuffledLoss` for the pure loss of one report.

    report: randomizes one message. users: in the smallest block, at least 1.
    """

    report: Mechanism | UnaryEncoder
    users: int

    def __post_init__(self) -> None:
        report: object = self.report
        if isinstance(report, ShuffledReports):
            raise LedgerError(f"report must not be shuffled already, got {report.name}; give the randomizer")
        if not isinstance(self.users, int) or self.users < 1:
            raise LedgerError(f"users must be a whole number of at least 1, got {self.users}; give the smallest block")

    @property
    def name(self) -> str:
        """The name on certificates."""
        return f"shuffled_{self.report.name}"

    @property
    def scale(self) -> float | None:
        """Scale of the report, None if it has none."""
        return getattr(self.report, "scale", None)

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the report."""
        return self.report.arithmetic

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the line that explains the report, and the size of its block."""
        return f"{self.report.explain(sensitivity)}; shuffled with the reports of at least {self.users - 1:,} others"

    def curve(self, sensitivity: Sensitivity) -> ShuffledLoss:
        """Return the curve of one report among the others of its block. Raises LedgerError if it has no pure loss."""
        loss = self.report.curve(sensitivity).pure_epsilon
        if not 0.0 < loss < float("inf"):
            raise LedgerError(f"shuffled reports must have a pure epsilon, got {self.report.name}; use another law")
        return ShuffledLoss(loss, self.users)
