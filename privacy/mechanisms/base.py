"""Additive mechanisms: the contract of a law of noise, and its form for kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.mechanisms.sampling import Noise, noise_of
from dprl.privacy.mechanisms.tails import Lattice

IDEALISED = "float64-idealised"
INTEGER = "integer"
NODE, ROW, GRID_ROW = "node", "row", "grid row"
"""Uses of a law: nodes of a tree and users' messages, rows of a factorisation (real or whole numbers)."""


class Mechanism(ABC):
    """Independent noise of one law, added to every number: its privacy curve, density and tails.

    A law is a frozen dataclass, a subclass of this one entered in `ADDITIVE`, with its sampler below it.
    """

    name: ClassVar[str]
    law: ClassVar[int]
    """Code of its sampler, stored in checkpoints: never reuse one."""
    norm: ClassVar[str]
    """Norm of the sensitivity that determines the scale: 'l1', 'l2' or 'cells'."""
    arithmetic: ClassVar[str]
    places: ClassVar[frozenset[str]] = frozenset()
    """Places for it in a config: NODE, ROW, GRID_ROW."""
    pure: ClassVar[bool] = False
    """Whether some scale proves a guarantee with delta = 0."""
    replaces: ClassVar[str] = ""
    """Name of the continuous law that it replaces in exact arithmetic."""
    draws_sums: ClassVar[bool] = False
    """Whether the sum of many draws can be drawn at once, see `sum_of_draws`."""
    least_joined_square: ClassVar[float] = 0.0
    """Least scale^2, per draw, for which the sum of several draws may be accounted as one draw of the same law."""

    if TYPE_CHECKING:  # a field, a class variable or a property

        @property
        def scale(self) -> float:
            """Noise scale, in units of the number."""

        @property
        def bound(self) -> float:
            """Largest absolute value of the noise; 0 if it is unbounded."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise of one number."""

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> Self:  # noqa: ARG003
        """Return the least noise that is (epsilon, delta)-DP at `sensitivity`; ValueError for a law without one."""
        raise ValueError(f"law must be one that can be calibrated, got {cls.name}; use laplace or gaussian")

    @abstractmethod
    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        """Return the privacy curve of noise of this scale."""

    def explain(self, sensitivity: Sensitivity) -> str:
        """Return the one line that explains the scale: its formula with the numbers, and the reason."""
        l1, l2, scale, changes = sensitivity.l1, sensitivity.l2, self.scale, sensitivity.changes
        if self.norm == "l2":
            formula = f"sigma = l2 / mu = {l2:.6g} / {l2 / scale:.6g} = {scale:.6g}"
            return f"{formula}, mu the shift in standard deviations: {changes}"
        return f"b = l1 / epsilon_0 = {l1:.6g} / {l1 / scale:.6g} = {scale:.6g}, epsilon_0 the pure loss: {changes}"

    def sampler_table(self) -> npt.NDArray[np.uint64]:
        """Return a copy of the table of an exact sampler, uint64[n]; empty for other samplers."""
        return np.zeros(0, dtype=np.uint64)

    def noise(self, key: npt.NDArray[np.uint64]) -> Noise:
        """Return the kernels' form of the law, drawn from the stream `key`."""
        return noise_of(self.law, self.scale, self.bound, key, self.sampler_table())

    def log_ratios(self, y: Float64Array, ones: Float64Array, zeros: Float64Array) -> Float64Array:
        """Return ln P(y | ones) / P(y | zeros) of noisy numbers y; +-inf if y is possible for one of the two only.

        It is that of (discrete) Gaussian noise for the L2 norm, of (discrete) Laplace noise for the L1 norm.
        """
        if self.norm == "l2":
            return (ones - zeros) * (y - (ones + zeros) / 2.0) / self.scale**2
        return (np.abs(y - zeros) - np.abs(y - ones)) / self.scale

    @property
    def envelope(self) -> Mechanism:
        """Continuous law (Laplace or Gaussian) with sums that leave any interval around 0 at least as often.

        This holds up to `rounding`. Raises ValueError if no such law, and so no error bound, is known.
        """
        raise ValueError(f"law must be one with a known error bound, got {self.name}; use laplace or gaussian")

    def rounding(self, draws: int) -> float:  # noqa: ARG002 - 0 for continuous laws
        """Return the largest distance between a sum of `draws` draws and one of the envelope's."""
        return 0.0

    def lattice(self, summands: int) -> Lattice | None:  # noqa: ARG002 - none of a continuous law
        """Return the exact law of a sum of `summands` draws, if it is on integers and has few enough values."""
        return None

    def rounded(self, step: float, summands: int) -> Lattice:
        """Return the law of a sum of draws, rounded to multiples of `step`; for envelopes."""
        raise NotImplementedError

    def sum_bound(self, n_items: int, failure: float) -> float:
        """Return E with P(some running sum of 1..n_items draws exceeds E) <= failure, by Levy's inequality.

        P(max_k |S_k| > x) <= 2 P(|S_n| > x), with the factor of 2 of a Wiener process; meant for many draws.
        """
        return self.envelope.sum_bound(n_items, failure)

    def sum_of_draws(self, number: int, size: int, generator: np.random.Generator) -> Float64Array:
        """Return `size` sums of `number` draws each, float64[size], from their exact law, if the law `draws_sums`."""
        raise NotImplementedError

    @property
    def moment_limit(self) -> float:
        """Least argument without a moment generating function."""
        return math.inf

    def log_moment(self, argument: float) -> float:  # noqa: ARG002 - as where one is known
        """Return an upper bound of ln E e^(argument Z) and of ln E e^(w argument Z), |w| <= 1, below moment_limit."""
        raise ValueError(f"law must be one with a known moment generating function, got {self.name}; use whole numbers")
