"""Laplace noise for Gram matrices with their right-hand sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from dprl.privacy.accounting.curves import ConcentratedLoss, LeastOf, PrivacyCurve, PureLoss
from dprl.privacy.accounting.zcdp import zcdp_rho
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease, l1_upper
from dprl.privacy.mechanisms.gram_base import MOST_FOR_ROUNDING, ROUNDING, GriddedGram, check_request, shape_of
from dprl.privacy.mechanisms.laplace import Laplace


@dataclass(frozen=True)
class GramLaplace(GriddedGram):
    """Laplace(b_h) noise on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (n sum_h c_hi m_h^2 / b_h, 0)-DP, an upper bound: the L1 sensitivity of a message lies in [c_lo, c_hi] m^2. The same
    noise is rho-zCDP with rho = 4.5 n sum_h m_h^4 / (2 b_h^2) (epsilon_j-DP of a coordinate is epsilon_j^2/2-zCDP),
    which says more at delta > 0. In real arithmetic; on a grid (`exact`) numbers are rounded to it, which adds at most
    one unit to each difference, and the noise is discrete Laplace.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; the statistics are those of [TH23] Algorithm 1.
    """

    name: ClassVar[str] = "gram_laplace"
    # The scale is 2^n to 2^(n+1) units of the grid, n from the first to the second: samplers' tables end at 2^40. A
    # finer grid than by the first is for noise so large that rounding to it would cost too much.
    grid_bits: ClassVar[tuple[int, int]] = (20, 39)
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Laplace
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteLaplace

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.isotropic:
            raise ValueError("isotropic must be False for Laplace noise, got True; its guarantee counts entries once")

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True, exact: bool = False
    ) -> Self:
        """Return the least noise that is (epsilon, delta)-LDP by the pure bound or, for delta > 0, by the zCDP bound.

        With `stage_scales` b_h is proportional to m_h^2 (every stage loses the same), else the same at all stages.
        """
        check_request(epsilon, release)
        shape = shape_of(release, stage_scales)
        unit = cls(release, shape)
        rho = zcdp_rho(epsilon, delta) if delta > 0.0 else 0.0
        needed = unit._excess(epsilon, rho)
        found = cls(release, tuple(s * needed * (1.0 + ROUNDING) for s in shape), exact=exact)
        most = MOST_FOR_ROUNDING * max(found.scales)
        while (excess := found._excess(epsilon, rho)) > 1.0:
            found = found._with_more_noise(excess * (1.0 + ROUNDING), most, epsilon)
        return found

    def _excess(self, epsilon: float, rho: float) -> float:
        """Return how many times too small the scales are, but for rounding, for one of the bounds; no zCDP for 0."""
        pure = self.pure_epsilon / epsilon
        return min(pure, math.sqrt(self.rho / rho)) if rho > 0.0 else pure

    @property
    def pure_epsilon(self) -> float:
        """The upper bound of the total loss."""
        total, length = 0.0, self.release.message_length
        for stage, (scale, bound) in enumerate(zip(self.scales, self.release.bounds, strict=True), 1):
            if bound > 0:
                total += (l1_upper(self.release.dimension) * bound**2 + self._rounded_apart(stage, length)) / scale
        return self.release.n_messages * total

    @property
    def rho(self) -> float:
        """The zCDP bound of the same noise."""
        total, weight = 0.0, math.sqrt(self.release.message_length)
        for stage, (scale, bound) in enumerate(zip(self.scales, self.release.bounds, strict=True), 1):
            if bound > 0:
                l2 = math.sqrt(JOINT_L2_SQUARED) * bound**2 + self._rounded_apart(stage, weight)
                total += (l2 / scale) ** 2
        return self.release.n_messages * total / 2.0

    def _clipped_curve(self) -> PrivacyCurve:
        """Return the least of the L1 bound and of the L2 bound."""
        return LeastOf((PureLoss(self.pure_epsilon), ConcentratedLoss(self.rho)))
