"""Base classes of mechanisms for Gram matrices: noise scales by stage, and no noise."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.curves import PrivacyCurve, Unbounded
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gradients import GRID
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease, l1_upper
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.vectors import NO_ACCOUNT
from dprl.privacy.randomness.bits import SPLITMIX64, splitmix64_increment

# Rounding to a grid that can be as fine as needed adds less than 2^-6 to the L1 sensitivity; otherwise rounding is
# covered by up to 1024 times the noise of real arithmetic.
_ROUNDING_BITS, MOST_FOR_ROUNDING = 6, 1024.0
# Growth of the distance of two neighbours' numbers by rounding, in units of the grid: 1, plus float64 rounding.
_ROUNDING_APART = 1.001
ROUNDING = 1e-9
"""Relative amount by which calibrated scales are rounded up."""
_NOT_CLIPPED = (
    "no finite guarantee: values are not cut from below and features are longer than H - h (D7), so nothing bounds "
    "what one user changes"
)


@dataclass(frozen=True)
class Gram(ABC):
    """Noise on all messages of an episode, with one scale per stage.

    Args:
        release: the messages of an episode.
        scales: noise scale of each stage, in units of phi^2; 0 only if the bound is 0.
    """

    release: GramRelease
    scales: tuple[float, ...]
    name: ClassVar[str]

    def __post_init__(self) -> None:
        bounds = self.release.bounds
        if len(self.scales) != len(bounds):
            raise ValueError(f"scales must have one entry per stage, {len(bounds)}, got {len(self.scales)}; add them")
        for scale, bound in zip(self.scales, bounds, strict=True):
            least = self._least_scale(bound)
            if not (math.isfinite(scale) and scale >= least and (scale > 0 or bound == 0)):
                raise ValueError(
                    f"scales must be finite and above 0 (bound^2 / 2^15 on a grid), got {scale} for {bound}"
                )

    def _least_scale(self, bound: float) -> float:  # noqa: ARG002 - on a grid it has one
        return 0.0

    @property
    def arithmetic(self) -> str:
        """Assumption of the guarantee on numbers."""
        return IDEALISED

    def grid(self, stage: int) -> float:  # noqa: ARG002 - as every Gram mechanism
        """Return the power of two to which a (1-based) stage's numbers are rounded; 0 for none."""
        return 0.0

    @abstractmethod
    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage, in units of its grid.

        For stages of a scale above 0.
        """

    @property
    def unit(self) -> Mechanism | None:
        """Noise that every stage multiplies by its entry of `scales` and `off_diagonal`; None if there is none."""
        return None

    @property
    def off_diagonal(self) -> float:
        """Scale of an off-diagonal entry, in units of the stage's."""
        return 1.0

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of the noise of a number on the diagonal, stage by stage; 0 without noise."""
        found = np.zeros(len(self.release.bounds))
        for h, scale in enumerate(self.scales):
            if scale > 0:
                found[h] = (self.grid(h + 1) or 1.0) * math.sqrt(self.stage_mechanisms(h + 1)[0].variance)
        return found

    def curve(self) -> PrivacyCurve:
        """Return the curve of all messages of one episode together; unbounded if the device does not clip."""
        if not self.release.clipped:
            return Unbounded(method=_NOT_CLIPPED)
        return self._clipped_curve()

    @abstractmethod
    def _clipped_curve(self) -> PrivacyCurve:
        """Return the curve for clipped features and values."""


def stage_key(key: npt.NDArray[np.uint64], stage: int) -> npt.NDArray[np.uint64]:
    """Return the key uint64[5] of a stage: a hash of the device's key, for the same generator.

    It is for exact noise: the words used by a draw depend on its scale, so in one stream two stages would share words.
    """
    digest = hashlib.blake2b(f"stage {stage}".encode(), key=key[1:].astype("<u8").tobytes(), digest_size=32).digest()
    own = np.concatenate([key[:1], np.frombuffer(digest, dtype="<u8").astype(np.uint64)])
    if own[0] == SPLITMIX64:
        own[2] = splitmix64_increment(int(own[2]))
    return own


@dataclass(frozen=True)
class GriddedGram(Gram):
    """Base of Gaussian and Laplace noise, on real numbers or on a grid.

    Args:
        release: the messages of an episode.
        scales: noise scale of each stage, in units of phi^2; 0 only if the bound is 0.
        isotropic: whether off-diagonal entries have the scale divided by sqrt(2) (Gaussian noise only).
        exact: whether numbers are rounded to a grid and the noise is an integer number of grid units.
    """

    isotropic: bool = False
    exact: bool = False
    grid_bits: ClassVar[tuple[int, int]]
    continuous: ClassVar[type[Laplace] | type[Gaussian]]
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]]

    def _least_scale(self, bound: float) -> float:
        return bound**2 * 2.0**-15 if self.exact else 0.0

    @property
    def arithmetic(self) -> str:
        """Assumption of the guarantee on numbers."""
        return GRID if self.exact else IDEALISED

    def grid(self, stage: int) -> float:
        """Return the power of two to which a (1-based) stage's numbers are rounded; 0 for none."""
        scale, bound = self.scales[stage - 1], self.release.bounds[stage - 1]
        if not self.exact or scale == 0:
            return 0.0
        leading, (fewest, most) = _leading(scale), self.grid_bits
        exponent = leading - fewest
        if bound > 0:
            each = l1_upper(self.release.dimension) * bound**2 / self.release.message_length
            exponent = max(min(exponent, _leading(each) - _ROUNDING_BITS), leading - most)
        return 2.0**exponent

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage, in units of its grid."""
        scale = self.scales[stage - 1] / (self.grid(stage) or 1.0)
        kind = self.discrete if self.exact else self.continuous
        return kind(scale), kind(scale / math.sqrt(2.0) if self.isotropic else scale)

    @property
    def unit(self) -> Mechanism | None:
        """Noise of scale 1; None on a grid, where every scale has a separate sampler."""
        return None if self.exact else self.continuous(1.0)

    @property
    def off_diagonal(self) -> float:
        """Scale of an off-diagonal entry, in units of the stage's."""
        return math.sqrt(0.5) if self.isotropic else 1.0

    def _with_more_noise(self, factor: float, most: float, epsilon: float) -> Self:
        """Return the same noise with scales times `factor`; raise ValueError if the largest is then above `most`."""
        scales = tuple(scale * factor for scale in self.scales)
        if max(scales) > most:
            raise ValueError(
                f"epsilon must be above what rounding to a grid costs, got {epsilon} for {self.name} in dimension "
                f"{self.release.dimension} with {self.release.n_messages} messages a stage; raise it, or set "
                "exact to False"
            )
        return replace(self, scales=scales)

    def _rounded_apart(self, stage: int, weight: float) -> float:
        """Return the growth by rounding of a norm that is `weight` for a vector of ones."""
        return _ROUNDING_APART * self.grid(stage) * weight

    def _l2_squared(self, weight: float) -> float:
        """Return the squared L2 distance of one agent's messages of two users, in units of each stage's scale.

        weight: norm of a message of ones.
        """
        total = 0.0
        for stage, (scale, bound) in enumerate(zip(self.scales, self.release.bounds, strict=True), 1):
            if bound > 0:
                l2 = math.sqrt(JOINT_L2_SQUARED) * bound**2 + self._rounded_apart(stage, weight)
                total += (l2 / scale) ** 2
        return total


@dataclass(frozen=True)
class RawGram(Gram):
    """The statistics without noise, for runs without privacy. No ledger accounts for it.

    Args:
        release: the messages of an episode.
        scales: left out.
    """

    scales: tuple[float, ...] = ()
    name: ClassVar[str] = "raw"
    arithmetic: ClassVar[str] = NO_ACCOUNT

    def __post_init__(self) -> None:
        if any(self.scales):
            raise ValueError(f"scales must be left out without noise, got {self.scales}; choose a mechanism")

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Raise ValueError, because there are none."""
        raise ValueError(f"stage must be one with noise, got {stage} of raw statistics; choose a mechanism")

    def _clipped_curve(self) -> PrivacyCurve:
        return Unbounded()


def _leading(number: float) -> int:
    """Return the exponent of the largest power of two up to `number` > 0."""
    return math.frexp(number)[1] - 1


def check_request(epsilon: float, release: GramRelease) -> None:
    """Raise ValueError unless noise can be calibrated to `epsilon` for the release."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon}; nothing else is a guarantee")
    if not release.clipped:
        raise ValueError("release must be clipped for a guarantee, got one that is not; clip it on the device")


def shape_of(release: GramRelease, stage_scales: bool) -> tuple[float, ...]:
    """Return relative noise scales of the stages: m_h^2, or 1 at every stage."""
    return tuple(m**2 if stage_scales else 1.0 for m in release.bounds)
