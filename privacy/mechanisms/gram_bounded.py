"""Noise of bounded support for Gram matrices with their right-hand sides: no pure epsilon, whatever the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from dprl.privacy.accounting.bounded_support import bounded_support_curve
from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gram import GramRelease, gram_sensitivity, l1_upper
from dprl.privacy.mechanisms.gram_base import ROUNDING, Gram, check_request, shape_of
from dprl.privacy.mechanisms.uniform import Uniform


@dataclass(frozen=True)
class _Bounded(Gram):
    """What the two share: the mass outside of the common support, message by message."""

    @property
    def mass_outside(self) -> float:
        """How likely an episode's messages show which neighbour they are of, for the worst pair; an upper bound."""
        inside = 0.0
        for stage, bound in enumerate(self.release.bounds, 1):
            if bound > 0:
                # Epsilon infinite: what is left of the curve is the mass.
                apart = gram_sensitivity(self.release.dimension, bound)
                outside = self.stage_mechanisms(stage)[0].curve(apart).delta(math.inf)
                inside += math.log1p(-outside) if outside < 1.0 else -math.inf
        return -math.expm1(self.release.n_messages * inside)


@dataclass(frozen=True)
class GramUniform(_Bounded):
    """Uniform noise on [-a_h, a_h], a_h = scales[h - 1], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (0, delta)-DP with delta <= sum_h n c_hi m_h^2 / (2 a_h), the same at every epsilon, in real arithmetic; the curve
    has the product over messages of Lemma E, which is a little less. No epsilon is finite at a smaller delta.

    Paper: [TH23] sec. 6.1.
    """

    name: ClassVar[str] = "gram_uniform"

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True, exact: bool = False
    ) -> NoReturn:
        """Raise ValueError: noise that meets a usual delta is hundreds of thousands of times what it hides."""
        del stage_scales, exact
        check_request(epsilon, release)
        # D10
        raise ValueError(
            f"mechanism must not be gram_uniform for certified noise, got delta {delta}: its bound would be "
            "sum_h n c m_h^2 / (2 delta), in which nothing can be learned; use gram_laplace or gram_gaussian"
        )

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        noise = Uniform(self.scales[stage - 1])
        return noise, noise

    @property
    def unit(self) -> Mechanism | None:
        """Uniform noise on [-1, 1]."""
        return Uniform(1.0)

    def _clipped_curve(self) -> PrivacyCurve:
        return bounded_support_curve(self.mass_outside, 0.0)


@dataclass(frozen=True)
class GramBoundedLaplace(_Bounded):
    """Laplace(b_h) noise given that it lies in [-B_h, B_h], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (sum_h n c_hi m_h^2 / b_h, delta)-DP, delta the mass outside of the common support (Lemma E, message by message), in
    real arithmetic; an upper bound. No finite bound has a pure epsilon.

    Args:
        release: what is sent.
        scales: b_h of each stage, in units of phi^2; 0 only where the bound m_h is 0.
        limits: B_h of each stage, in the same units.

    Paper: [TH23] sec. 6.2; Geng, Ding, Guo, Kumar 2020, Theorem 1.
    """

    limits: tuple[float, ...] = ()
    name: ClassVar[str] = "gram_bounded_laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.limits) != len(self.scales):
            raise ValueError(
                f"limits must have one entry per stage, {len(self.scales)}, got {len(self.limits)}; add them"
            )
        for limit, scale in zip(self.limits, self.scales, strict=True):
            if not (math.isfinite(limit) and limit >= 0 and (limit > 0) == (scale > 0)):
                raise ValueError(f"limits must be finite and above 0 where there is noise, got {limit} for {scale}")

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True, exact: bool = False
    ) -> GramBoundedLaplace:
        """Return truncated Laplace noise that is (epsilon, delta)-LDP: B_h = b_h ln(1 + (e^epsilon - 1) / (2 delta)).

        With `stage_scales` b_h is proportional to m_h^2 (every stage loses the same), else the same at all stages. With
        sum_j |v_j| / b_j <= epsilon the masses outside add up to at most delta, as e^x - 1 is superadditive. Raises
        ValueError for delta = 0, which no bound meets, and on a grid, for which there is no sampler.
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for bounded Laplace noise, got {delta}; use gram_laplace for 0")
        if exact:
            raise ValueError("exact must be False for bounded Laplace noise, got True; use gram_laplace")
        check_request(epsilon, release)
        shape = shape_of(release, stage_scales)
        c_hi = l1_upper(release.dimension)
        lost = math.fsum(c_hi * m**2 / s for m, s in zip(release.bounds, shape, strict=True) if m > 0)
        unit = release.n_messages * lost / epsilon * (1.0 + ROUNDING)
        # D11: in logarithms, as e^epsilon may overflow.
        log_ratio = epsilon + math.log(-math.expm1(-epsilon)) - math.log(2.0 * delta)
        ratio = float(np.logaddexp(0.0, log_ratio)) * (1.0 + ROUNDING)
        return cls(release, tuple(s * unit for s in shape), tuple(s * unit * ratio for s in shape))

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        noise = BoundedLaplace(self.scales[stage - 1], self.limits[stage - 1])
        return noise, noise

    @property
    def unit(self) -> Mechanism | None:
        """Noise of scale 1; None if the bounds are not all the same multiple of the scales."""
        ratios = [limit / scale for limit, scale in zip(self.limits, self.scales, strict=True) if scale > 0]
        if max(ratios) > min(ratios) * (1.0 + _SAME):
            return None
        return BoundedLaplace(1.0, min(ratios))

    def _clipped_curve(self) -> PrivacyCurve:
        c_hi = l1_upper(self.release.dimension)
        pairs = zip(self.release.bounds, self.scales, strict=True)
        ratio = self.release.n_messages * math.fsum(c_hi * m**2 / b for m, b in pairs if m > 0)
        return bounded_support_curve(self.mass_outside, ratio)


# Relative: ratios that differ by rounding only.
_SAME = 1e-14
