"""Whole-number noise that is given by a table of its probabilities: the way to a mechanism of one's own.

A draw is one 64-bit word: a sign and 63 bits U, and |Z| is the number of boundaries that U has reached. Probabilities
are whole multiples of 2^-63, so what is drawn is the law of the table, exactly, and the proof is about the same
numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.compiled import kernel
from dprl.privacy.accounting.bounded_support import bounded_support_curve
from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import INTEGER, TABULATED, Noise, Sensitivity
from dprl.privacy.randomness.bits import fill_bits

WHOLE = 1 << 63
_LONGEST_TABLE = 1 << 20
_LOG_ERROR = 2e-14
"""A difference of logarithms of two probabilities of at least 2^-64, each rounded, is off by less."""
_OURS = frozenset(
    {
        *("law", "norm", "arithmetic", "cumulative", "masses", "bound", "variance", "curve", "noise"),
        *("__getattribute__", "__init_subclass__"),
    }
)
"""What follows from the table, and a class below must not say otherwise."""
_MAGNITUDE = np.uint64(WHOLE - 1)
_BLOCK = 1024


class TabulatedMechanism(ABC):
    """Additive noise on whole numbers, symmetric and bounded, of the law that `chances` says.

    A class below it is a frozen dataclass with a `name`, a `scale` (a field or a property), `calibrated` and
    `chances`; the rest follows from the table, and defining it otherwise raises TypeError.

    *Formal guarantee.* For a vector of integers of which n change by 1 between neighbours, adding independent noise to
    every coordinate is (n r, 1 - (1 - p)^n)-DP: r is the largest |ln P(z) / P(z + 1)| of two possible neighbours z, and
    p = P(Z = bound) what only one of two neighbours can produce. Given uniform random bits this is exact, in whole
    numbers; the curve's two numbers are floats above them.
    """

    name: ClassVar[str]
    law: ClassVar[int] = TABULATED
    norm: ClassVar[str] = "l1"
    arithmetic: ClassVar[str] = INTEGER
    scale: float
    """What tables call it by, in units of the count."""

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
        """Return what the table proves. Raises ValueError unless n whole numbers change by 1 each."""
        if not sensitivity.integer:
            raise ValueError(f"{self.name} hides whole numbers that change by 1 only, got {sensitivity}; use laplace")
        logs = np.log(self.masses)
        ratio = float(np.abs(np.diff(logs)).max()) + _LOG_ERROR
        outside = -math.expm1(sensitivity.cells * math.log1p(-float(self.masses[-1])))
        return bounded_support_curve(
            min(1.0, outside * (1.0 + 1e-12)), float(np.nextafter(sensitivity.cells * ratio, math.inf))
        )

    def noise(self, key: npt.NDArray[np.uint64]) -> Noise:
        """Return what the kernels need; the table is the caller's own."""
        return Noise(self.law, self.scale, self.bound, key, self.cumulative.copy())


def require_nothing_else(mechanism: type[TabulatedMechanism]) -> None:
    """Raise TypeError if a class, or what it mixes in, says otherwise than its table: its certificate would lie."""
    above = mechanism.__mro__[: mechanism.__mro__.index(TabulatedMechanism)]
    # A field without a default is an annotation only, and every instance has it.
    said = {name for each in above for name in {**vars(each), **vars(each).get("__annotations__", {})}}
    if wrong := sorted(_OURS & said):
        raise TypeError(f"{mechanism.__qualname__} must leave {', '.join(wrong)} to its table; give `chances` alone")


def is_its_table(mechanism: TabulatedMechanism, noise: Noise) -> bool:
    """Whether a kernel draws `noise` from the table that `chances` gives now, and the instance says nothing else."""
    own = _OURS & vars(mechanism).keys() <= {"cumulative"}
    table = _cumulative(mechanism.chances())
    tables = np.array_equal(table, noise.table) and np.array_equal(table, mechanism.cumulative)
    return own and tables and noise.law == TABULATED


def _cumulative(chances: list[int]) -> npt.NDArray[np.uint64]:
    """Return the sums of the chances up to each, uint64[bound + 1]. Raises ValueError unless they are a law."""
    # Sums of floats are rounded, and NumPy's whole numbers are taken modulo 2^64.
    whole = all(type(chance) is int for chance in chances)
    if not (whole and 2 <= len(chances) <= _LONGEST_TABLE and min(chances) > 0 and sum(chances) == WHOLE):
        raise ValueError(
            f"chances must be 2 to 2^20 whole numbers (int) above 0 that add up to 2^63, got {len(chances)} with "
            f"sum {sum(map(int, chances))}; give what is left to P(0)"
        )
    table = np.cumsum(np.array(chances, dtype=np.uint64), dtype=np.uint64)
    table.setflags(write=False)
    return table


@kernel
def fill_tabulated(out: Float64Array, key: np.ndarray, first: np.uint64, table: np.ndarray) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... of the law of `table`.

    *Formal guarantee.* See TabulatedMechanism. Draw i is a function of word i of `key` only.
    """
    words = np.empty(min(_BLOCK, out.shape[0]), dtype=np.uint64)
    for start in range(0, out.shape[0], _BLOCK):
        part = out[start : start + _BLOCK]
        drawn = words[: part.shape[0]]
        fill_bits(drawn, key, first + np.uint64(start))
        for i in range(part.shape[0]):
            size = np.searchsorted(table, drawn[i] & _MAGNITUDE, side="right")
            part[i] = -float(size) if drawn[i] > _MAGNITUDE else float(size)
