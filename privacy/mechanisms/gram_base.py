"""Base classes of mechanisms for Gram matrices: noise scales by stage, and no noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.privacy.accounting.closed_forms import PrivacyCurve, Unbounded
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease
from dprl.privacy.mechanisms.vectors import NO_ACCOUNT

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
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        bounds = self.release.bounds
        if len(self.scales) != len(bounds):
            raise ValueError(f"scales must have one entry per stage, {len(bounds)}, got {len(self.scales)}; add them")
        for scale, bound in zip(self.scales, bounds, strict=True):
            if not (math.isfinite(scale) and scale >= 0 and (scale > 0 or bound == 0)):
                raise ValueError(f"scales must be finite and above 0, got {scale} for {bound}")

    @abstractmethod
    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a (1-based) stage of a scale above 0."""

    @property
    @abstractmethod
    def unit(self) -> Mechanism:
        """Noise that every stage multiplies by its entry of `scales` and `off_diagonal`."""

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
                found[h] = math.sqrt(self.stage_mechanisms(h + 1)[0].variance)
        return found

    def curve(self) -> PrivacyCurve:
        """Return the curve of all messages of one episode together; unbounded if the device does not clip."""
        if not self.release.clipped:
            return Unbounded(method=_NOT_CLIPPED)
        return self._clipped_curve()

    @abstractmethod
    def explain(self) -> str:
        """Return the one line that explains the scales: their formula with the numbers, and the reason."""

    @property
    def _shares(self) -> list[float]:
        """m_h^2 / scale of every stage with data."""
        return [m * m / scale for m, scale in zip(self.release.bounds, self.scales, strict=True) if m > 0.0]

    @abstractmethod
    def _clipped_curve(self) -> PrivacyCurve:
        """Return the curve for clipped features and values."""

    @property
    def l2_squared(self) -> float:
        """Squared L2 distance of one agent's messages of two users, in units of each stage's scale."""
        total = 0.0
        for scale, bound in zip(self.scales, self.release.bounds, strict=True):
            if bound > 0:
                total += (math.sqrt(JOINT_L2_SQUARED) * bound**2 / scale) ** 2
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

    @property
    def unit(self) -> Mechanism:
        """Raise ValueError, because there is none."""
        raise ValueError("unit must be of a law with noise, got raw statistics; choose a mechanism")

    def explain(self) -> str:
        """Return that there is no noise."""
        return "no noise"

    def _clipped_curve(self) -> PrivacyCurve:
        return Unbounded()


def check_request(epsilon: float, release: GramRelease) -> None:
    """Raise ValueError unless noise can be calibrated to `epsilon` for the release."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon}; nothing else is a guarantee")
    if not release.clipped:
        raise ValueError("release must be clipped for a guarantee, got one that is not; clip it on the device")


def shape_of(release: GramRelease, stage_scales: bool) -> tuple[float, ...]:
    """Return relative noise scales of the stages: m_h^2, or 1 at every stage."""
    return tuple(m**2 if stage_scales else 1.0 for m in release.bounds)
