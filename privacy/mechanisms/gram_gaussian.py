"""Gaussian noise for Gram matrices with their right-hand sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.accounting.curves import ConcentratedLoss, GaussianLoss, PrivacyCurve
from dprl.privacy.accounting.zcdp import zcdp_rho
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease
from dprl.privacy.mechanisms.gram_base import MOST_FOR_ROUNDING, ROUNDING, GriddedGram, check_request, shape_of
from dprl.privacy.mechanisms.laplace import Laplace


@dataclass(frozen=True)
class GramGaussian(GriddedGram):
    """Gaussian noise of standard deviation sigma_h on phi V and on the upper triangle of phi phi^T.

    If `isotropic` it is sigma_h / sqrt(2) off the diagonal.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    mu-GDP with mu^2 = 4.5 n sum_h m_h^4 / sigma_h^2, in real arithmetic: one user's messages are one vector, so no
    composition is needed. The Frobenius norm counts an off-diagonal entry twice and its sensitivity is the same
    sqrt(2) m^2, so `isotropic` halves that variance for nothing; then the noise is the same in every basis. The worst
    pair has the cosine -1/2 and V = m; [TH23]'s features realise it for D >= 4. On a grid (`exact`) numbers are rounded
    to it, which adds at most one unit to each difference, the noise is discrete Gaussian and the curve is zCDP's.

    Paper: Balle, Wang 2018, Theorem 8; the statistics are those of [TH23] Algorithm 1.
    """

    name: ClassVar[str] = "gram_gaussian"
    # The scale is 2^n to 2^(n+1) units of the grid, n from the first to the second: samplers' tables end at 2^15.
    grid_bits: ClassVar[tuple[int, int]] = (14, 14)
    continuous: ClassVar[type[Laplace] | type[Gaussian]] = Gaussian
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]] = DiscreteGaussian

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True, exact: bool = False
    ) -> Self:
        """Return the least isotropic noise that makes an episode's messages (epsilon, delta)-LDP.

        With `stage_scales` sigma_h is proportional to m_h^2 (every stage loses the same), else the same at all stages.
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use gram_laplace for 0")
        check_request(epsilon, release)
        return cls.with_mu(budget_mu(epsilon, delta, exact), release, stage_scales, exact, epsilon)

    @classmethod
    def with_mu(cls, mu: float, release: GramRelease, stage_scales: bool, exact: bool, epsilon: float) -> Self:
        """Return the least isotropic noise that is mu-GDP or, if `exact`, (mu^2 / 2)-zCDP.

        epsilon: whose budget it is, for the message of the ValueError where rounding costs more.
        """
        shape = shape_of(release, stage_scales)
        needed = cls(release, shape, isotropic=True).mu / mu * (1.0 + ROUNDING)
        found = cls(release, tuple(s * needed for s in shape), isotropic=True, exact=exact)
        most = MOST_FOR_ROUNDING * max(found.scales)
        while found.mu > mu:
            # Rounding to the grid, which is a power of two, is in proportion to the scale but for its jumps.
            found = found._with_more_noise(found.mu / mu * (1.0 + ROUNDING), most, epsilon)
        return found

    @property
    def mu(self) -> float:
        """L2 distance of two users' messages in units of the noise."""
        d = self.release.dimension
        weight = math.sqrt(d * (d + 1) if self.isotropic else d * (d + 3) / 2)
        total = 0.0
        for stage, (scale, bound) in enumerate(zip(self.scales, self.release.bounds, strict=True), 1):
            if bound > 0:
                l2 = math.sqrt(JOINT_L2_SQUARED) * bound**2 + self._rounded_apart(stage, weight)
                total += (l2 / scale) ** 2
        # D8: n agents send n messages of the same user.
        return math.sqrt(self.release.n_messages * total)

    def _clipped_curve(self) -> PrivacyCurve:
        if self.exact:
            return ConcentratedLoss(self.mu**2 / 2.0)
        return GaussianLoss(self.mu, exact=self.release.dimension >= 4)


def budget_mu(epsilon: float, delta: float, exact: bool) -> float:
    """Return the mu of all Gaussian noise that (epsilon, delta) allows; on a grid that whose mu^2 / 2 is its zCDP."""
    return math.sqrt(2.0 * zcdp_rho(epsilon, delta)) if exact else gaussian_mu(epsilon, delta)
