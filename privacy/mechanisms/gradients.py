"""Mechanisms that clip a vector on the user's side and add noise.

The clip bounds the distance of any two vectors, so a message has a privacy curve without a further sensitivity. It
covers everything that affects the vector: environment, trajectory, its length. It does not cover whether and when a
message is sent: send one per round, with the zero vector if there is no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism, Sensitivity
from dprl.privacy.mechanisms.clipping import L1, L2
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.vectors import CLIPPED, GRIDDED, VectorMechanism, VectorNoise, check_ball

__all__ = ["GRID", "ClippedGaussian", "ClippedLaplace", "VectorMechanism"]

GRID = "grid"
"""Integers times a power of two: every sum is exact in float64."""
_LARGEST_UNITS = 2.0**31


@dataclass(frozen=True)
class _Clipped(VectorMechanism):
    """Base of the two clipped additive mechanisms below.

    Args:
        dimension: d, of the vector.
        clip: C > 0; vectors are shrunk into the ball of radius C / 2, so that two of them differ by at most C.
        additive: the noise of one coordinate, in units of the grid if there is one.
        grid: 0, or the power of two that divides all numbers of the message.
    """

    dimension: int
    clip: float
    additive: Mechanism
    grid: float = 0.0
    norm: ClassVar[str]
    continuous: ClassVar[type[Laplace] | type[Gaussian]]
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]]
    grid_bits: ClassVar[int]
    """The noise scale is 2^n to 2^(n+1) units of the grid: a millionth of the noise, within the sampler's table."""

    def __post_init__(self) -> None:
        check_ball(self.dimension, self.clip)
        if self.grid and (math.frexp(self.grid)[0] != 0.5 or not 1 <= self.radius_units <= _LARGEST_UNITS):
            raise ValueError(f"grid must be a power of two from clip/2^32 to clip/2, got {self.grid} for {self.clip}")
        if (self.additive.arithmetic == IDEALISED) != (self.grid == 0.0):
            raise ValueError(f"grid must be 0 for continuous noise and above 0 for integer noise, got {self}")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, dimension: int, clip: float, exact: bool = False) -> Self:
        """Return the least noise that makes one message (epsilon, delta)-LDP; raise ValueError if none does."""
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon must be finite and above 0, got {epsilon}; nothing else is a guarantee")
        check_ball(dimension, clip)
        if cls.norm == "l2" and not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use clipped_laplace for 0")
        whole = cls.continuous.calibrated(epsilon, delta, _of_ball(clip, cls.norm, dimension))
        if not exact:
            return cls(dimension, clip, whole)
        grid = _grid(whole.scale, cls.grid_bits)
        of_units = _of_ball(2.0 * math.floor(clip / 2.0 / grid), cls.norm, dimension)
        return cls(dimension, clip, cls.discrete.calibrated(epsilon, delta, of_units), grid)

    @property
    def radius_units(self) -> int:
        """The radius of the ball in units of the grid, rounded down."""
        return math.floor(self.clip / 2.0 / self.grid)

    @property
    def sensitivity(self) -> Sensitivity:
        """Largest distance of two clipped vectors: the diameter in `norm`, in units of the grid if there is one."""
        return _of_ball(2.0 * self.radius_units if self.grid else self.clip, self.norm, self.dimension)

    @property
    def largest_norm(self) -> float:
        """Radius of the ball into which vectors are shrunk."""
        return self.clip / 2.0

    @property
    def arithmetic(self) -> str:
        """Assumption of the guarantee on numbers."""
        return GRID if self.grid else IDEALISED

    @property
    def scale(self) -> float:
        """The noise scale of a coordinate, in units of the vector."""
        return self.additive.scale * (self.grid or 1.0)

    @property
    def noise_norm(self) -> float:
        """sqrt(d * variance), with up to d * grid^2 more under the root for rounding; exact for an unclipped input."""
        unit = self.grid or 1.0
        return math.sqrt(self.dimension * (self.additive.variance * unit**2 + self.grid**2))

    def curve(self) -> PrivacyCurve:
        """Return the curve of one message between any two inputs."""
        return self.additive.curve(self.sensitivity)

    def explain(self) -> str:
        """Return the line that explains the scale, in units of the grid if there is one."""
        grid = f", in units of the grid {self.grid:.6g}" if self.grid else ""
        ball = f"two vectors in the {self.norm.upper()} ball of radius C / 2 differ by at most C = {self.clip:.6g}"
        return f"{self.additive.explain(self.sensitivity)}{grid}; {ball}"

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        """Return the kernels' form."""
        kind, radius = (GRIDDED, self.radius_units * self.grid) if self.grid else (CLIPPED, self.clip / 2.0)
        sizes, norm = (self.dimension, self.dimension if self.grid else 0), L2 if self.norm == "l2" else L1
        noise = self._for_kernels(kind, radius, self.additive.noise(key), sizes)
        return noise._replace(norm=norm, grid=self.grid)


@dataclass(frozen=True)
class ClippedLaplace(_Clipped):
    """g / max(1, |g|_1 / (C/2)) + Laplace(C/epsilon) on every coordinate.

    *Formal guarantee.* Any two clipped vectors differ by at most C in L1, so one message is (C/scale, 0)-LDP for any
    two vectors; g = (C/2) e_1 and -(C/2) e_1 attain this. Without a grid this is in real arithmetic. With a grid the
    clipped vector is rounded towards 0 to integers with an L1 norm of at most the ball's radius in units (checked in
    integers, so that float64 rounding cannot exceed it), and the noise is discrete Laplace: nothing is idealised.

    Paper: [OT20] eqs. (19), (20) and (21), Algorithm 2.
    """

    name: ClassVar[str] = "clipped_laplace"
    norm: ClassVar[str] = "l1"
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Laplace
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteLaplace
    grid_bits: ClassVar[int] = 20


@dataclass(frozen=True)
class ClippedGaussian(_Clipped):
    """g / max(1, |g|_2 / (C/2)) + Normal(0, sigma^2) on every coordinate.

    *Formal guarantee.* The ball has radius C/2, so the L2 sensitivity is its diameter C (not the radius): one message
    is exactly mu-GDP with mu = C/sigma for any two vectors, in real arithmetic. With a grid the vector is
    rounded towards 0 to integers of L2 norm at most the radius in units (checked in integers), and the noise is
    discrete Gaussian with the curve of `additive`: nothing is idealised.

    Paper: Balle, Wang 2018, Theorem 8; Canonne, Kamath, Steinke 2020, Theorem 4.
    """

    name: ClassVar[str] = "clipped_gaussian"
    norm: ClassVar[str] = "l2"
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Gaussian
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteGaussian
    grid_bits: ClassVar[int] = 13

    @classmethod
    def with_scale(cls, scale: float, dimension: int, clip: float, exact: bool = False) -> Self:
        """Return noise of a given standard deviation: one message is mu-GDP with mu = clip / scale.

        If `exact` it is (mu^2 / 2)-zCDP. Raises ValueError for a scale for which no grid is fine enough.
        """
        check_ball(dimension, clip)
        if not exact:
            return cls(dimension, clip, Gaussian(scale))
        grid = _grid(scale, cls.grid_bits)
        return cls(dimension, clip, DiscreteGaussian(scale / grid), grid)


def _of_ball(diameter: float, norm: str, dimension: int) -> Sensitivity:
    """Return the largest distance of two vectors in a ball of the L1 or the L2 norm."""
    l1 = diameter if norm == "l1" else diameter * math.sqrt(dimension)
    return Sensitivity(l1, diameter, diameter, dimension)


def _grid(scale: float, bits: int) -> float:
    """Return the power of two that makes the scale 2^bits to 2^(bits + 1) units."""
    return 2.0 ** (math.frexp(scale)[1] - 1 - bits)
