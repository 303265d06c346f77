"""Encodings of one-hot vectors, as bits that are drawn by exact coins: their common part, and a user's rows.

A user draws one of H steps, independently of the data, sends it with all of epsilon, and the estimate is multiplied by
H. This costs a factor of about H in variance; sending every step with epsilon / H would cost about H^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.compiled import kernel
from dprl.privacy.accounting.amplification import ShuffledLoss
from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.accounting.root_finding import inside, largest
from dprl.privacy.base import Int64Array, LedgerError
from dprl.privacy.mechanisms.base import INTEGER, Mechanism, Sensitivity
from dprl.privacy.mechanisms.randomized_response import LARGEST_EPSILON, require_epsilon
from dprl.privacy.mechanisms.samplers import Noise, prepare
from dprl.privacy.randomness.bits import fill_bits

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
SAMPLED_PREFIX = "sampled_"


def largest_row_loss(make: Callable[[float], OneHotEncoding], epsilon: float, delta: float) -> float:
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


@dataclass(frozen=True)
class OneHotEncoding(ABC):
    """Base of all encodings: bit i of the report is 1 with probability p if i is the hot cell, else q.

    Args:
        epsilon: of one encoding, above 0 and at most 100.
    """

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
        prepare(self.law)
        return Noise(self.law, 1.0, 0.0, key, self.table())

    def sum_of_bits(self, ones: Int64Array, users: Int64Array, generator: np.random.Generator) -> Int64Array:
        """Draw the sums int64[rows, width] of the bits in the reports of users[i] users of row i.

        ones int64[rows, width]: the number of them with this hot cell.
        """
        bits = generator.binomial(ones, self.hot_probability)
        return np.asarray(bits + generator.binomial(users[:, None] - ones, self.cold_probability))

    def variance(self, *, hot: bool, steps: int = 1, cells: int = 1) -> float:
        """Return the variance of the estimate of the sum of `cells` cells, if one of `steps` vectors is drawn and sent.

        The estimate is `steps` times the sum of (bit - q) / (p - q) if its step was drawn and 0 otherwise. hot: whether
        the hot cell is among them.
        """
        p, q = self.hot_probability, self.cold_probability
        if self.exclusive:
            one = min(1.0, (cells - hot) * q + hot * p)
            bits = one * (1.0 - one)
        else:
            bits = (cells - hot) * (q * (1.0 - q)) + hot * (p * (1.0 - p))
        return steps * (bits / self.gap**2) + (steps - 1 if hot else 0)


@dataclass(frozen=True)
class UnaryEncoder:
    """One of a user's one-hot rows as randomized bits.

    *Formal guarantee.* The user draws one step, independently of the data, and sends that step and its encoded row
    only: epsilon-LDP for any two trajectories, exactly, with the encoding's epsilon.

    Args:
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
            raise ValueError(
                f"width must be that of the encoding, got {self.width} and {self.encoding}; give one width"
            )

    @property
    def name(self) -> str:
        """The name in configs and certificates."""
        return SAMPLED_PREFIX + self.encoding.name

    @property
    def scale(self) -> float:
        """The standard deviation that one user adds to a cell, averaged over a row."""
        return math.sqrt(self.variance)

    @property
    def message_cells(self) -> int:
        """Numbers in a message: the step that is sent, and its bits."""
        return 1 + self.width

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

    @property
    def variance(self) -> float:
        """The mean variance that one user adds to one cell of a row."""
        return self.mean_variance(1)

    @property
    def sensitivity(self) -> Sensitivity:
        """Change of the encoded row if the user is replaced: two cells."""
        return Sensitivity.of_cells(2)

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

    Args:
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
    """Return the high word of word * n, 1 <= n < 2^32: of a uniform word, each of 0, ..., n-1 has the probability
    floor(2^64 / n) / 2^64 at least.
    """
    count = np.uint64(n)
    low = (word & _LOW_HALF) * count >> _HALF_WORD
    return int(np.int64(((word >> _HALF_WORD) * count + low) >> _HALF_WORD))
