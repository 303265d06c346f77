"""What a mechanism is: it randomises numbers, and its scale proves a privacy curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, NoReturn, Protocol, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.curves import PrivacyCurve

# What a kernel does for a mechanism; see mechanisms.sampling.
NO_NOISE, LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN, UNIFORM, BOUNDED_LAPLACE, TABULATED = range(8)

IDEALISED = "float64-idealised"
INTEGER = "integer"


@dataclass(frozen=True)
class Sensitivity:
    """How far apart the vectors of two neighbours can be.

    >>> two_steps = Sensitivity.of_cells(4)
    >>> two_steps.repeated(4)
    Sensitivity(l1=16.0, l2=4.0, linf=1.0, cells=16)

    Args:
        l1, l2, linf: bounds on the norms of their difference.
        cells: how many numbers can differ.
    """

    l1: float
    l2: float
    linf: float
    cells: int

    def __post_init__(self) -> None:
        if self.cells < 1 or not all(math.isfinite(x) and x > 0 for x in (self.l1, self.l2, self.linf)):
            raise ValueError(f"a sensitivity is finite and above 0 in every norm, got {self}; bound what is released")

    @staticmethod
    def of_cells(n: int, change: float = 1.0) -> Sensitivity:
        """Return the sensitivity of n numbers that change by at most `change` each."""
        return Sensitivity(n * change, math.sqrt(n) * change, change, n)

    def repeated(self, times: int) -> Sensitivity:
        """Return the sensitivity of `times` copies, each with noise of its own."""
        return Sensitivity(self.l1 * times, self.l2 * math.sqrt(times), self.linf, self.cells * times)

    def joined(self, times: int) -> Sensitivity:
        """Return the sensitivity of `times` copies, those of one number taken as one release of it.

        For copies whose noises are not independent of each other when the number is chosen.
        """
        return Sensitivity(self.l1 * times, self.l2 * math.sqrt(times), self.linf * times, self.cells)

    def beside(self, other: Sensitivity) -> Sensitivity:
        """Return the sensitivity of both together, of different numbers."""
        l2 = math.hypot(self.l2, other.l2)
        return Sensitivity(self.l1 + other.l1, l2, max(self.linf, other.linf), self.cells + other.cells)

    def within(self, other: Sensitivity) -> bool:
        """Whether it is at most `other` in everything."""
        norms = self.l1 <= other.l1 and self.l2 <= other.l2 and self.linf <= other.linf
        return norms and self.cells <= other.cells

    @property
    def integer(self) -> bool:
        """Whether it is that of `cells` numbers that can change by 1 each."""
        unit_changes = self.l1 == self.cells and self.linf == 1.0
        return unit_changes and math.isclose(self.l2, math.sqrt(self.cells), rel_tol=1e-12)


class Noise(NamedTuple):
    """Additive noise as the kernels see it.

    law: one of the codes above; scale: in units of the number; bound: of a bounded law, else 0; key uint64[5];
    table uint64[n]: what an exact sampler of this scale needs, empty for the others.
    """

    law: int
    scale: float
    bound: float
    key: npt.NDArray[np.uint64]
    table: npt.NDArray[np.uint64]

    def __repr__(self) -> str:
        # The key is the noise.
        return f"Noise(law={self.law}, scale={self.scale})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


class Mechanism(Protocol):
    """Adds independent noise of one law to every number; knows what its scale proves."""

    name: ClassVar[str]
    law: ClassVar[int]
    norm: ClassVar[str]
    """The norm of the sensitivity that decides the scale: 'l1', 'l2' or 'cells'."""
    arithmetic: ClassVar[str]

    @property
    def scale(self) -> float:
        """The noise scale, in units of the number."""

    @property
    def bound(self) -> float:
        """The largest absolute value of the noise; 0 where there is none."""

    @property
    def variance(self) -> float:
        """Variance of the noise of one number."""

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Self:
        """Return the least noise that is (epsilon, delta)-DP at `sensitivity`."""

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return what noise of this scale proves."""

    def noise(self, key: npt.NDArray[np.uint64]) -> Noise:
        """Return what the kernels need to draw from this law with the stream `key`."""
