"""Whole-number noise given by a table of its probabilities, for plugins' mechanisms.

A draw is one 64-bit word: a sign and 63 bits U, and |Z| is the number of boundaries that U has reached. Probabilities
are whole multiples of 2^-63, so draws have exactly the law of the table, on which the proof is based.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.bounded_support import bounded_support_curve
from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import INTEGER, MESSAGE, Mechanism, Noise, Sensitivity
from dprl.privacy.mechanisms.samplers import sampler
from dprl.privacy.mechanisms.tails import moment_bound
from dprl.privacy.randomness.bits import fill_bits

WHOLE = 1 << 63
_LONGEST_TABLE = 1 << 20
_LOG_ERROR = 2e-14
"""Bound on the rounding error of a difference of logarithms of two probabilities of at least 2^-64."""
_OURS = frozenset(
    {
        *("law", "norm", "arithmetic", "places", "pure", "replaces", "least_joined_square"),
        *("cumulative", "masses", "bound", "variance", "curve", "sampler_table", "noise", "log_ratios"),
        *("envelope", "rounding", "lattice", "rounded", "sum_bound", "moment_limit", "log_moment"),
        *("__getattribute__", "__init_subclass__"),
    }
)
"""Attributes that follow from the table, which subclasses must not override."""
_MAGNITUDE = np.uint64(WHOLE - 1)
_BLOCK = 1024


class TabulatedMechanism(Mechanism):
    """Additive noise on whole numbers, symmetric and bounded, with the law given by `chances`.

    A subclass is a frozen dataclass with a `name`, a `scale` (a field or a property), `calibrated` and `chances`; the
    rest follows from the table, and overriding it raises TypeError.

    *Formal guarantee.* For a vector of integers, n of them changed by 1 between neighbours, adding independent noise to
    every coordinate is (n r, 1 - (1 - p)^n)-DP: r is the largest |ln P(z) / P(z + 1)| of two possible neighbours z, and
    p = P(Z = bound) the mass that only one of two neighbours can produce. Given uniform random bits this is exact,
    in whole numbers; the curve's two numbers are floats above them.
    """

    name: ClassVar[str]
    law: ClassVar[int] = 7
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = INTEGER
    places: ClassVar[frozenset[str]] = frozenset({MESSAGE})
    scale: float
    """Noise scale shown in tables, in units of the count."""

    def __init_subclass__(cls, **options: object) -> None:
        require_nothing_else(cls)
        super().__init_subclass__(**options)

    @classmethod
    @abstractmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Self:
        """Return the least noise of this kind that is (epsilon, delta)-DP at `sensitivity`. Raises ValueError."""

    @abstractmethod
    def chances(self) -> list[int]:
        """Return P(|Z| = j) in units of 2^-63, j = 0, 1, ..., bound: whole numbers above 0 that add up to 2^63."""

    @cached_property
    def cumulative(self) -> npt.NDArray[np.uint64]:
        """P(|Z| <= j) in units of 2^-63, uint64[bound + 1]. Raises ValueError unless `chances` is a law."""
        return _cumulative(self.chances())

    @property
    def masses(self) -> Float64Array:
        """P(Z = z) for z = 0, ..., bound, float64[bound + 1]."""
        chances = np.diff(self.cumulative, prepend=np.uint64(0)).astype(np.float64) / WHOLE
        chances[1:] /= 2.0
        return chances

    @property
    def bound(self) -> float:
        """The largest absolute value of the noise."""
        return float(self.cumulative.size - 1)

    @property
    def variance(self) -> float:
        """Sum of z^2 P(z)."""
        return float(2.0 * (np.arange(self.cumulative.size) ** 2 @ self.masses))

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the curve of the table. Raises ValueError unless n whole numbers change by 1 each."""
        if not sensitivity.integer:
            raise ValueError(f"{self.name} hides whole numbers that change by 1 only, got {sensitivity}; use laplace")
        logs = np.log(self.masses)
        ratio = float(np.abs(np.diff(logs)).max()) + _LOG_ERROR
        outside = -math.expm1(sensitivity.cells * math.log1p(-float(self.masses[-1])))
        return bounded_support_curve(
            min(1.0, outside * (1.0 + 1e-12)), float(np.nextafter(sensitivity.cells * ratio, math.inf))
        )

    def sampler_table(self) -> npt.NDArray[np.uint64]:
        """Return a copy of the sampler's table."""
        return self.cumulative.copy()

    def log_ratios(self, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        """Return ln P(y | ones) / P(y | zeros) of noisy integers y; infinite beyond the bound."""
        logs = np.append(np.log(self.masses), -math.inf)
        sizes = [np.minimum(np.abs(y - x), self.bound + 1.0).astype(np.int64) for x in (ones, zeros)]
        return np.asarray(logs[sizes[0]] - logs[sizes[1]])

    def sum_bound(self, n_items: int, failure: float) -> float:
        """Return E with P(some running sum of 1..n_items draws exceeds E) <= failure, by Doob's inequality."""
        return min(moment_bound(self.log_moment, n_items, failure, self.variance), n_items * self.bound)

    def log_moment(self, argument: float) -> float:
        """Return ln E e^(argument Z)."""
        masses = self.masses
        log_masses = np.log(masses) + np.append(0.0, np.full(masses.size - 1, math.log(2.0)))
        sizes = np.arange(masses.size, dtype=np.float64) * argument
        # ln cosh, in terms that do not overflow.
        return float(scipy.special.logsumexp(log_masses + sizes + np.log1p(np.exp(-2.0 * sizes)) - math.log(2.0)))


def require_nothing_else(mechanism: type[TabulatedMechanism]) -> None:
    """Raise TypeError if a class or one of its bases could contradict its table, and so its certificate."""
    above = mechanism.__mro__[: mechanism.__mro__.index(TabulatedMechanism)]
    # A field without a default is an annotation only, and every instance has it.
    said = {name for each in above for name in {**vars(each), **vars(each).get("__annotations__", {})}}
    if wrong := sorted(_OURS & said):
        raise TypeError(f"{mechanism.__qualname__} must leave {', '.join(wrong)} to its table; give `chances` alone")


def _cumulative(chances: list[int]) -> npt.NDArray[np.uint64]:
    """Return the sums of the chances up to each, uint64[bound + 1]. Raises ValueError unless they are a law."""
    # Sums of floats are rounded, and NumPy's integers wrap at 2^64.
    whole = all(type(chance) is int for chance in chances)
    if not (whole and 2 <= len(chances) <= _LONGEST_TABLE and min(chances) > 0 and sum(chances) == WHOLE):
        raise ValueError(
            f"chances must be 2 to 2^20 whole numbers (int) above 0 that add up to 2^63, got {len(chances)} with "
            f"sum {sum(map(int, chances))}; give what is left to P(0)"
        )
    table = np.cumsum(np.array(chances, dtype=np.uint64), dtype=np.uint64)
    table.setflags(write=False)
    return table


@sampler(TabulatedMechanism.law)
def fill_tabulated(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... of the law of `noise.table`.

    *Formal guarantee.* See TabulatedMechanism. Draw i is a function of word i of the key only.
    """
    key, table = noise.key, noise.table
    words = np.empty(min(_BLOCK, out.shape[0]), dtype=np.uint64)
    for start in range(0, out.shape[0], _BLOCK):
        part = out[start : start + _BLOCK]
        drawn = words[: part.shape[0]]
        fill_bits(drawn, key, first + np.uint64(start))
        for i in range(part.shape[0]):
            size = np.searchsorted(table, drawn[i] & _MAGNITUDE, side="right")
            part[i] = -float(size) if drawn[i] > _MAGNITUDE else float(size)
