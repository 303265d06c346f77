"""Laws of noise for Gram matrices with their right-hand sides: Gaussian, Laplace, and two of bounded support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    ChosenCurve,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    bounded_support_curve,
    gaussian_mu,
    zcdp_rho,
)
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease, gram_sensitivity, l1_upper
from dprl.privacy.mechanisms.gram_base import ROUNDING, Gram, check_request, shape_of
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.uniform import Uniform

# Relative difference of ratios that differ by rounding only.
_SAME = 1e-14


@dataclass(frozen=True)
class GramGaussian(Gram):
    """Gaussian noise of standard deviation sigma_h on phi V and on the upper triangle of phi phi^T.

    If `isotropic` it is sigma_h / sqrt(2) off the diagonal.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    mu-GDP with mu^2 = 4.5 n sum_h m_h^4 / sigma_h^2, in real arithmetic: one user's messages are one vector, so no
    composition is needed. The Frobenius norm counts an off-diagonal entry twice and its sensitivity is the same sqrt(2)
    m^2, so `isotropic` halves that variance at no cost; the noise is then the same in every basis. The worst pair has
    the cosine -1/2 and V = m; [TH23]'s features attain it for D >= 4.

    Args:
        release: the messages of an episode.
        scales: sigma_h of each stage, in units of phi^2; 0 only if the bound is 0.
        isotropic: whether off-diagonal entries have the scale divided by sqrt(2).

    Paper: Balle, Wang 2018, Theorem 8; Peikert 2010, Theorem 3.1; the statistics are those of [TH23] Algorithm 1.
    """

    isotropic: bool = False
    name: ClassVar[str] = "gram_gaussian"
    unit: ClassVar[Mechanism] = Gaussian(1.0)
    NAMED: ClassVar[dict[str, object]] = {"exact": False}

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True) -> GramGaussian:
        """Return the least isotropic noise that makes an episode's messages (epsilon, delta)-LDP.

        With `stage_scales`, sigma_h is proportional to m_h^2 (equal losses), otherwise it is the same at all stages.
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use gram_laplace for 0")
        check_request(epsilon, release)
        return cls.from_gdp(gaussian_mu(epsilon, delta), release, stage_scales)

    @classmethod
    def from_gdp(cls, mu: float, release: GramRelease, stage_scales: bool) -> GramGaussian:
        """Return the least isotropic noise that is mu-GDP."""
        shape = shape_of(release, stage_scales)
        needed = cls(release, shape, isotropic=True).mu / mu * (1.0 + ROUNDING)
        return cls(release, tuple(s * needed for s in shape), isotropic=True)

    @property
    def mu(self) -> float:
        """L2 distance of two users' messages in units of the noise."""
        # D8: n agents send n messages of the same user.
        return math.sqrt(self.release.n_messages * self.l2_squared)

    @property
    def off_diagonal(self) -> float:
        """Scale of an off-diagonal entry, in units of the stage's."""
        return math.sqrt(0.5) if self.isotropic else 1.0

    @property
    def attained(self) -> bool:
        """Whether features of some two users attain the curve."""
        return self.release.dimension >= 4

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        scale = self.scales[stage - 1]
        return Gaussian(scale), Gaussian(scale / math.sqrt(2.0) if self.isotropic else scale)

    def explain(self) -> str:
        """Return the line that explains the scales."""
        n, squares = self.release.n_messages, math.fsum(share * share for share in self._shares)
        return (
            f"mu = sqrt(4.5 n S) = sqrt(4.5 * {n} * {squares:.6g}) = {self.mu:.6g}, S = sum_h (m_h^2 / sigma_h)^2: "
            "two users' messages of stage h differ by at most sqrt(4.5) m_h^2 in L2, and each of n agents gets one"
        )

    def _clipped_curve(self) -> PrivacyCurve:
        return GaussianDP(self.mu)


@dataclass(frozen=True)
class GramLaplace(Gram):
    """Laplace(b_h) noise on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (n sum_h c_hi m_h^2 / b_h, 0)-DP: c_hi m^2 is the L1 sensitivity of a message, an upper bound above D = 12. The same
    noise is rho-zCDP with rho = 4.5 n sum_h m_h^4 / (2 b_h^2) (epsilon_j-DP of a coordinate is epsilon_j^2/2-zCDP),
    which is a stronger bound at delta > 0. This is in real arithmetic.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; the statistics are those of [TH23] Algorithm 1.
    """

    name: ClassVar[str] = "gram_laplace"
    unit: ClassVar[Mechanism] = Laplace(1.0)
    NAMED: ClassVar[dict[str, object]] = {"exact": False, "isotropic": False}

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True) -> GramLaplace:
        """Return the least noise that is (epsilon, delta)-LDP by the pure bound or, for delta > 0, by the zCDP bound.

        With `stage_scales`, b_h is proportional to m_h^2 (equal losses), otherwise it is the same at all stages.
        """
        check_request(epsilon, release)
        shape = shape_of(release, stage_scales)
        unit = cls(release, shape)
        needed = unit.pure_epsilon / epsilon
        if delta > 0.0:
            needed = min(needed, math.sqrt(unit.rho / zcdp_rho(epsilon, delta)))
        return cls(release, tuple(s * needed * (1.0 + ROUNDING) for s in shape))

    @property
    def pure_epsilon(self) -> float:
        """The upper bound of the total loss."""
        total = 0.0
        for scale, bound in zip(self.scales, self.release.bounds, strict=True):
            if bound > 0:
                total += l1_upper(self.release.dimension) * bound**2 / scale
        return self.release.n_messages * total

    @property
    def rho(self) -> float:
        """The zCDP bound of the same noise."""
        return self.release.n_messages * self.l2_squared / 2.0

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        noise = Laplace(self.scales[stage - 1])
        return noise, noise

    def explain(self) -> str:
        """Return the line that explains the scales."""
        n, c, total = self.release.n_messages, l1_upper(self.release.dimension), math.fsum(self._shares)
        return (
            f"epsilon_0 = n c S = {n} * {c:.6g} * {total:.6g} = {self.pure_epsilon:.6g}, S = sum_h m_h^2 / b_h: "
            "two users' messages of stage h differ by at most c m_h^2 in L1, and each of n agents gets one"
        )

    def _clipped_curve(self) -> PrivacyCurve:
        """Return the least of the L1 bound and of the L2 bound."""
        return ChosenCurve((RandomizedResponses(1, self.pure_epsilon), ZCDP(self.rho)))


@dataclass(frozen=True)
class _Bounded(Gram):
    """Base of the two bounded laws: the mass outside the common support, message by message."""

    @property
    def mass_outside(self) -> float:
        """Upper bound on the probability that an episode's messages identify one of the worst two neighbours."""
        inside = 0.0
        for stage, bound in enumerate(self.release.bounds, 1):
            if bound > 0:
                # At an infinite epsilon the curve is the mass.
                apart = gram_sensitivity(self.release.dimension, bound)
                outside = self.stage_mechanisms(stage)[0].curve(apart).delta(math.inf)
                inside += math.log1p(-outside) if outside < 1.0 else -math.inf
        return -math.expm1(self.release.n_messages * inside)


@dataclass(frozen=True)
class GramUniform(_Bounded):
    """Uniform noise on [-a_h, a_h], a_h = scales[h - 1], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (0, delta)-DP with delta <= sum_h n c_hi m_h^2 / (2 a_h), the same at every epsilon, in real arithmetic; the curve
    uses the slightly smaller product over messages of Lemma E. No epsilon is finite at a smaller delta.

    Paper: [TH23] sec. 6.1.
    """

    name: ClassVar[str] = "gram_uniform"
    unit: ClassVar[Mechanism] = Uniform(1.0)

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        noise = Uniform(self.scales[stage - 1])
        return noise, noise

    def explain(self) -> str:
        """Return the line that explains the scales."""
        n, c, total = self.release.n_messages, l1_upper(self.release.dimension), math.fsum(self._shares)
        return (
            f"delta <= n c S / 2 = {n} * {c:.6g} * {total:.6g} / 2 = {n * c * total / 2.0:.6g}, S = sum_h m_h^2 / a_h: "
            "two users' messages of stage h differ by at most c m_h^2 in L1, and each of n agents gets one"
        )

    def _clipped_curve(self) -> PrivacyCurve:
        return bounded_support_curve(self.mass_outside, 0.0)


@dataclass(frozen=True)
class GramBoundedLaplace(_Bounded):
    """Laplace(b_h) noise given that it lies in [-B_h, B_h], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (sum_h n c_hi m_h^2 / b_h, delta)-DP, where delta is the mass outside the common support (Lemma E, message by
    message), in real arithmetic; an upper bound. No finite bound has a pure epsilon.

    Args:
        release: the messages of an episode.
        scales: b_h of each stage, in units of phi^2; 0 only if the bound m_h is 0.
        limits: B_h of each stage, in the same units: the same multiple of b_h at all stages.

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
        if max(self._ratios) > min(self._ratios) * (1.0 + _SAME):
            raise ValueError(f"limits must be the same multiple of all scales, got {self.limits}; take bound_ratio")

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a stage."""
        noise = BoundedLaplace(self.scales[stage - 1], self.limits[stage - 1])
        return noise, noise

    @property
    def unit(self) -> Mechanism:
        """Noise of scale 1."""
        return BoundedLaplace(1.0, min(self._ratios))

    @property
    def _ratios(self) -> list[float]:
        """B_h / b_h of all stages with noise."""
        return [limit / scale for limit, scale in zip(self.limits, self.scales, strict=True) if scale > 0]

    def explain(self) -> str:
        """Return the line that explains the scales."""
        n, c, total = self.release.n_messages, l1_upper(self.release.dimension), math.fsum(self._shares)
        return (
            f"epsilon_0 = n c S = {n} * {c:.6g} * {total:.6g} = {n * c * total:.6g}, S = sum_h m_h^2 / b_h; outside of "
            f"B_h = {min(self._ratios):.6g} b_h, delta = {self.mass_outside:.6g}: two users' messages of stage h "
            "differ by at most c m_h^2 in L1, and each of n agents gets one"
        )

    def _clipped_curve(self) -> PrivacyCurve:
        c_hi = l1_upper(self.release.dimension)
        pairs = zip(self.release.bounds, self.scales, strict=True)
        ratio = self.release.n_messages * math.fsum(c_hi * m**2 / b for m, b in pairs if m > 0)
        return bounded_support_curve(self.mass_outside, ratio)


# The scales that [TH23] prints, to be run and certified. None holds as claimed for all numbers of agents; GramGaussian
# and GramLaplace state the real guarantees, after the clips that the paper leaves out.


def printed_gaussian_sigma(horizon: int, epsilon: float, delta: float) -> float:
    """Return sigma = 4 H^3 sqrt(2 ln(2.5 H / delta)) / epsilon, claimed to be (epsilon, delta)-LDP for any n.

    Paper: [TH23] Theorem 1.
    """
    # D8: for n agents the proof needs n times this; it has no n.
    return 4.0 * horizon**3 * math.sqrt(2.0 * math.log(2.5 * horizon / delta)) / epsilon


def printed_laplace_scale(horizon: int, dimension: int, epsilon: float) -> float:
    """Return b = 4 H^3 sqrt(n d) / epsilon for dimension = n d, claimed to be (epsilon, 0)-LDP.

    The bounded Laplace law has the same b and any bound.

    Paper: [TH23] Theorems 3 and 7.
    """
    # D8 and D9: no factor n, and sqrt(n d) where the matrix needs n d.
    return 4.0 * horizon**3 * math.sqrt(dimension) / epsilon


def printed_uniform_bound(horizon: int, delta: float, appendix: bool = False) -> float:
    """Return a = 4 H^3 sqrt(ln(2 H / delta)), claimed to be (0, delta)-LDP; without the root as the appendix has it.

    Paper: [TH23] Theorem 5; appendix D.3.
    """
    # D10: it would have to grow with 1 / delta, with or without the root.
    logarithm = math.log(2.0 * horizon / delta)
    return 4.0 * horizon**3 * (logarithm if appendix else math.sqrt(logarithm))


def most_agents_of_printed_gaussian(horizon: int, epsilon: float, delta: float) -> int:
    """Return the largest n for which the printed sigma is (epsilon, delta)-LDP, m_h = H - h; [TH23] has no limit."""
    per_agent = JOINT_L2_SQUARED * GramRelease.of_horizon(horizon, 1, 1).power_sum(4)
    largest = gaussian_mu(epsilon, delta) * printed_gaussian_sigma(horizon, epsilon, delta)
    return math.floor(largest**2 / per_agent)
