"""Laws of noise for Gram matrices with their right-hand sides: Gaussian, Laplace, and two of bounded support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self

import numpy as np

from dprl.privacy.accounting.bounded_support import bounded_support_curve
from dprl.privacy.accounting.closed_forms import gaussian_mu, zcdp_rho
from dprl.privacy.accounting.curves import ZCDP, GaussianDP, MinimumCurve, PrivacyCurve, PureDP
from dprl.privacy.accounting.discrete_gaussians import RoundedGaussianLoss
from dprl.privacy.accounting.root_finding import inside, largest
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gradients import ClippedGaussian
from dprl.privacy.mechanisms.gram import JOINT_L2_SQUARED, GramRelease, gram_sensitivity, l1_upper
from dprl.privacy.mechanisms.gram_base import MOST_FOR_ROUNDING, ROUNDING, Gram, GriddedGram, check_request, shape_of
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.uniform import Uniform

# Relative difference of ratios that differ by rounding only.
_SAME = 1e-14
LEAST_UNITS = 2.0**ClippedGaussian.grid_bits
"""Least scale of Gaussian noise in units of its grid: that for clipped vectors; Gram matrices have larger ones."""


@dataclass(frozen=True)
class GramGaussian(GriddedGram):
    """Gaussian noise of standard deviation sigma_h on phi V and on the upper triangle of phi phi^T.

    If `isotropic` it is sigma_h / sqrt(2) off the diagonal.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    mu-GDP with mu^2 = 4.5 n sum_h m_h^4 / sigma_h^2, in real arithmetic: one user's messages are one vector, so no
    composition is needed. The Frobenius norm counts an off-diagonal entry twice and its sensitivity is the same sqrt(2)
    m^2, so `isotropic` halves that variance at no cost; the noise is then the same in every basis. The worst pair has
    the cosine -1/2 and V = m; [TH23]'s features attain it for D >= 4. With `exact`, numbers are rounded to a grid, so
    that each difference grows by at most one unit, and the noise is discrete Gaussian: see `RoundedGaussianLoss`.

    Paper: Balle, Wang 2018, Theorem 8; Peikert 2010, Theorem 3.1; the statistics are those of [TH23] Algorithm 1.
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

        With `stage_scales`, sigma_h is proportional to m_h^2 (equal losses), otherwise it is the same at all stages.
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use gram_laplace for 0")
        check_request(epsilon, release)
        mu = budget_mu(epsilon, delta, release.n_numbers if exact else 0)
        return cls.from_gdp(mu, release, stage_scales, exact, epsilon)

    @classmethod
    def from_gdp(cls, mu: float, release: GramRelease, stage_scales: bool, exact: bool, epsilon: float) -> Self:
        """Return the least isotropic noise with this mu: mu-GDP, up to rounding if `exact`.

        epsilon: of that budget, for the message of the ValueError if rounding costs more.
        """
        shape = shape_of(release, stage_scales)
        needed = cls(release, shape, isotropic=True).mu / mu * (1.0 + ROUNDING)
        found = cls(release, tuple(s * needed for s in shape), isotropic=True, exact=exact)
        most = MOST_FOR_ROUNDING * max(found.scales)
        while found.mu > mu:
            # Rounding to the grid, a power of two, is proportional to the scale except for its jumps.
            found = found._with_more_noise(found.mu / mu * (1.0 + ROUNDING), most, epsilon)
        return found

    @property
    def mu(self) -> float:
        """L2 distance of two users' messages in units of the noise."""
        d = self.release.dimension
        weight = math.sqrt(d * (d + 1) if self.isotropic else d * (d + 3) / 2)
        # D8: n agents send n messages of the same user.
        return math.sqrt(self.release.n_messages * self._l2_squared(weight))

    @property
    def attained(self) -> bool:
        """Whether features of some two users attain the curve."""
        return not self.exact and self.release.dimension >= 4

    def _clipped_curve(self) -> PrivacyCurve:
        if not self.exact:
            return GaussianDP(self.mu)
        stages = (stage for stage, bound in enumerate(self.release.bounds, 1) if bound > 0)
        units = min(noise.scale for stage in stages for noise in self.stage_mechanisms(stage))
        return _integer_curve(self.mu, units, self.release.n_numbers)


def _integer_curve(mu: float, units: float, numbers: int) -> MinimumCurve:
    """Return the curve of discrete Gaussian noise on integers.

    Args:
        mu: L2 norm of their change, each in units of its noise. units: the least scale. numbers: maximum of changes.
    """
    return MinimumCurve((ZCDP(mu * mu / 2.0), RoundedGaussianLoss(mu * units, units, numbers)))


def budget_mu(epsilon: float, delta: float, integers: int) -> float:
    """Return the total mu of Gaussian noise that (epsilon, delta) allows, rounded down.

    integers: number of integers with noise, each of scale LEAST_UNITS or more; 0 for noise on real numbers.
    """
    if integers == 0:
        return gaussian_mu(epsilon, delta)
    start = gaussian_mu(epsilon, delta)
    epsilon, delta = inside(epsilon, delta)
    return largest(lambda mu: _integer_curve(mu, LEAST_UNITS, integers).delta(epsilon), delta, start)


@dataclass(frozen=True)
class GramLaplace(GriddedGram):
    """Laplace(b_h) noise on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (n sum_h c_hi m_h^2 / b_h, 0)-DP: c_hi m^2 is the L1 sensitivity of a message, an upper bound above D = 12. The same
    noise is rho-zCDP with rho = 4.5 n sum_h m_h^4 / (2 b_h^2) (epsilon_j-DP of a coordinate is epsilon_j^2/2-zCDP),
    which is a stronger bound at delta > 0. This is in real arithmetic; with `exact`, numbers are rounded to a grid, so
    that each difference grows by at most one unit, and the noise is discrete Laplace.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; the statistics are those of [TH23] Algorithm 1.
    """

    name: ClassVar[str] = "gram_laplace"
    # The scale is 2^n to 2^(n+1) units of the grid, n from the first to the second: samplers' tables end at 2^40. Grids
    # finer than with the first n are for large noise, for which rounding would otherwise cost too much.
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

        With `stage_scales`, b_h is proportional to m_h^2 (equal losses), otherwise it is the same at all stages.
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
        """Return the factor by which the scales are too small for one of the bounds, up to rounding; no zCDP for 0."""
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
        return self.release.n_messages * self._l2_squared(math.sqrt(self.release.message_length)) / 2.0

    def _clipped_curve(self) -> PrivacyCurve:
        """Return the least of the L1 bound and of the L2 bound."""
        return MinimumCurve((PureDP(self.pure_epsilon), ZCDP(self.rho)))


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
    unit: ClassVar[Mechanism | None] = Uniform(1.0)

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True, exact: bool = False
    ) -> NoReturn:
        """Raise ValueError: noise that meets a usual delta is hundreds of thousands of times the hidden numbers."""
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

        With `stage_scales`, b_h is proportional to m_h^2 (equal losses), otherwise it is the same at all stages. If
        sum_j |v_j| / b_j <= epsilon, the masses outside add up to at most delta, because e^x - 1 is superadditive.
        Raises ValueError for delta = 0, which no bound meets, and with `exact`, for which there is no sampler.
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
