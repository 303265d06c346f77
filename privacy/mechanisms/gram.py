"""Symmetric Gram matrix with its right-hand side: a user's share of a linear model's statistics, and its noise.

At stage h the device of each of n agents sends (phi phi^T + W, phi V + w). It first shrinks phi to the norm m_h and
clips V to [-m_h, m_h]: m_h is H - h, or half of it for values about the centre of their range. [TH23]
cuts V from above only and assumes |phi| <= H (D7): without a lower cut no finite guarantee exists. The noise is
Gaussian, Laplace, or one of two laws of bounded support, with one scale a stage.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.accounting import closed_forms
from dprl.privacy.accounting.closed_forms import PrivacyCurve, bounded_support_curve
from dprl.privacy.base import Float64Array, Sensitivity, check_positive
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.clipping import L2, MOST, fill_clipped
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace

JOINT_L2_SQUARED = 4.5
"""Squared L2 sensitivity of one message over m^4: the maximum of (2 - 2c) + (2 - 2c^2), at cosine c = -1/2."""
_MOST_EXACT = 12
# Relative; far above rounding.
_SLACK = 1.0 + 1e-9
# Few enough that every midpoint differs from both ends in float64.
_HALVINGS = 40
ROUNDING = 1e-9
"""Relative amount by which calibrated scales are rounded up."""
_NOT_CLIPPED = (
    "no finite guarantee: values are not cut from below and features are longer than H - h (D7), so nothing bounds "
    "what one user changes"
)
# Relative difference of ratios that differ by rounding only.
_SAME = 1e-14


@lru_cache(maxsize=64)
def l1_upper(dimension: int) -> float:
    """Return c_hi: the joint L1 sensitivity of (upper triangle, right-hand side) over m^2, rounded up.

    It is exact up to D = 12 and an upper bound above. The proof takes m = 1: |phi| <= 1 and 0 <= V <= 1, since (phi, V)
    and (-phi, -V) give the same message.

    The distance F = sum_{i<=j} |phi_i phi_j - phi'_i phi'_j| + sum_i |V phi_i - V' phi'_i| is convex in (V, V'), so
    they are 0 or 1. With both 1, phi' and -phi' together give at least 2 sum |phi_i| in the second sum, so for one of
    them F is at least its value at (1, 0). So both are 1.

    Exact: let u = phi - phi' >= 0 (flip coordinates) and v = phi + phi'. Then phi_i phi_j - phi'_i phi'_j has the sign
    of v_i / u_i + v_j / u_j, that of the larger ratio. So with coordinates ordered by decreasing |v_i / u_i| and s_i
    the sign of v_i, F is the largest value of phi^T M phi - phi'^T M phi' + sum_i (phi_i - phi'_i) over the 2^D
    matrices M_ii = s_i, M_ij = s_min(i, j) / 2, and for any other signs F is at least that form. Its maximum is
    g(M) + g(-M),

        g(M) = max_{|x| <= 1} x^T M x + sum_i x_i = min_{l > 0, l > M} l + 1^T (l - M)^-1 1 / 4.

    Every l gives an upper bound, so rounding in the minimisation is harmless; -s gives the same value as s.

    In large dimensions: for u v = 0 the first sum is at most (D / sqrt(2) + 1) |u| |v| / 2, as the matrix has Frobenius
    norm |u| |v| / sqrt(2) and a diagonal with an L1 norm of at most |u| |v|; the second is at most sqrt(D) |u|. With
    |u| = 2 cos(a / 2) and |v| = 2 sin(a / 2) this is (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2). If u v is not 0,
    |u|^2 + |v|^2 + 2 |u v| <= 4 makes it smaller for |u| >= 2/3, and for less |u| it is below its value at a right
    angle a.
    """
    # D9: the matrix's part grows like D; 2 sqrt(D), as printed, bounds an induced norm, not the sum of entries.
    if dimension > _MOST_EXACT:
        return _rounded_up(_joint_bound(dimension))
    # All M with s_D = 1, float64[2^(D-1), D, D].
    places = np.arange(dimension)
    signs = 1.0 - 2.0 * (np.arange(2 ** (dimension - 1))[:, None] >> places & 1)
    matrices = np.asarray(0.5 * signs[:, np.minimum(places[:, None], places)], dtype=np.float64)
    matrices[:, places, places] *= 2.0
    return _rounded_up(float((_largest_values(matrices) + _largest_values(-matrices)).max()))


def _rounded_up(bound: float) -> float:
    """Return a bound rounded up, to bits that do not depend on the processor: they are in the identity of the noise."""
    return math.ceil(bound * _SLACK * 2.0**30) / 2.0**30


def _joint_bound(dimension: int) -> float:
    """Return the maximum of (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2) over a."""
    matrix, root = dimension / math.sqrt(2.0) + 1.0, math.sqrt(dimension)
    half = math.asin((math.sqrt(dimension + 8.0 * matrix * matrix) - root) / (4.0 * matrix))
    return matrix * math.sin(2.0 * half) + 2.0 * root * math.cos(half)


def _largest_values(matrices: Float64Array) -> Float64Array:
    """Return upper bounds of g for matrices float64[n, D, D], exact up to rounding, float64[n]."""
    values, vectors = np.linalg.eigh(matrices)
    weights: Float64Array = 0.25 * vectors.sum(axis=1) ** 2
    low: Float64Array = np.maximum(values[:, -1], 0.0)
    high: Float64Array = low + (0.5 * math.sqrt(matrices.shape[1]) + 1e-6)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = (weights / (middle[:, None] - values) ** 2).sum(axis=1) < 1.0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    bounds: Float64Array = high + (weights / (high[:, None] - values)).sum(axis=1)
    return bounds


def attaining_pair(dimension: int, bound: float) -> tuple[Float64Array, Float64Array]:
    """Return (phi, phi') of norm `bound` with Gram matrices that differ by sqrt(2) bound^2 / D in every entry, D even.

    The last coordinate of an odd dimension > 1 is 0.
    """
    half = dimension // 2
    size = bound / math.sqrt(half) if half else bound
    phi, other = np.zeros(dimension), np.zeros(dimension)
    cos, sin = math.cos(math.pi / 8.0), math.sin(math.pi / 8.0)
    phi[:half], phi[half : 2 * half] = size * cos, size * sin
    other[:half], other[half : 2 * half] = -size * sin, size * cos
    if dimension == 1:
        phi[0], other[0] = bound, -bound
    return phi, other


def gram_sensitivity(dimension: int, bound: float) -> Sensitivity:
    """Return the largest distance of two messages of one agent and stage: (upper triangle of phi phi^T, phi V).

    |phi| <= m and |V| <= m for m = `bound`; as -phi and -V give the same message, V >= 0 is no restriction. L2 is
    sqrt(4.5) m^2 in joint, also where an off-diagonal entry counts twice (the Frobenius norm); L1 is at most c_hi m^2;
    a number of phi V changes by at most 2 m^2, one of the matrix by at most m^2. All D (D + 3) / 2 numbers can change.
    """
    square = bound * bound
    cells = dimension * (dimension + 3) // 2
    return Sensitivity(l1_upper(dimension) * square, math.sqrt(JOINT_L2_SQUARED) * square, 2.0 * square, cells)


@dataclass(frozen=True)
class GramRelease:
    """Messages of one user in an episode: one per agent at every stage, each with separate noise; by itself, none.

    Args:
        dimension: D, of phi (n d in [TH23]).
        bounds: m_h >= 0 for h = 1..H, see `of_horizon`; a stage of bound 0 has no user data.
        n_messages: M per stage, all of which can change together: n, or 1 if all agents have the same V.
        clipped: whether the device clips phi to norm m_h and V to [-m_h, m_h]. [TH23] does not (D7): then nothing
            bounds the change by a user, and no noise has a finite guarantee.
    """

    dimension: int
    bounds: tuple[float, ...]
    n_messages: int
    clipped: bool = True

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.n_messages < 1:
            raise ValueError(f"dimension and n_messages must be at least 1, got {self}; pass the features' dimension")
        if not all(math.isfinite(m) and m >= 0 for m in self.bounds) or not any(self.bounds):
            raise ValueError(f"bounds must be finite, at least 0 and not all 0, got {self.bounds}; pass H - h")

    @classmethod
    def of_horizon(
        cls, horizon: int, dimension: int, n_messages: int, clipped: bool = True, centered: bool = False
    ) -> GramRelease:
        """Return the release for values in [0, H - h] after stage h: m_h = H - h, 0 at the last stage.

        centered: V minus the centre of its range is sent instead of V, and phi is of these values: m_h = (H - h) / 2.
        Probabilities sum to 1, so learners add the centre again, and noise is a quarter.
        """
        span = 0.5 if centered else 1.0
        return cls(dimension, tuple(span * (horizon - h) for h in range(1, horizon + 1)), n_messages, clipped)

    @property
    def message_length(self) -> int:
        """Numbers of one message: D (D + 3) / 2."""
        return self.dimension * (self.dimension + 3) // 2

    @property
    def n_numbers(self) -> int:
        """Numbers in all messages of an episode, without those that have no user data."""
        return self.n_messages * sum(m > 0 for m in self.bounds) * self.message_length


@dataclass(frozen=True)
class Gram(ABC):
    """Noise on all messages of an episode, with one scale per stage.

    release: the messages of an episode.
    scales: noise scale of each stage, in units of phi^2; 0 only if the bound is 0.
    """

    release: GramRelease
    scales: tuple[float, ...]
    name: ClassVar[str]
    law: ClassVar[Callable[[float], Mechanism]]
    """Noise of a number, from its scale."""
    arithmetic: ClassVar[str] = IDEALISED

    def __post_init__(self) -> None:
        bounds = self.release.bounds
        if len(self.scales) != len(bounds):
            raise ValueError(f"scales must have one entry per stage, {len(bounds)}, got {len(self.scales)}; add them")
        for scale, bound in zip(self.scales, bounds, strict=True):
            if not (math.isfinite(scale) and scale >= 0 and (scale > 0 or bound == 0)):
                raise ValueError(f"scales must be finite and above 0, got {scale} for {bound}")

    def of_scale(self, scale: float) -> Mechanism:
        """Return the noise of a number of that scale."""
        return type(self).law(scale)

    def stage_mechanisms(self, stage: int) -> tuple[Mechanism, Mechanism]:
        """Return the noise of (diagonal and right-hand side, off-diagonal) of a (1-based) stage of a scale above 0."""
        scale = self.scales[stage - 1]
        return self.of_scale(scale), self.of_scale(scale * self.off_diagonal)

    @property
    def off_diagonal(self) -> float:
        """Scale of an off-diagonal entry, in units of the stage's."""
        return 1.0

    @property
    def deviations(self) -> Float64Array:
        """Standard deviation float64[H] of the noise of a number on the diagonal, stage by stage; 0 without noise."""
        return np.array([math.sqrt(self.of_scale(scale).variance) if scale > 0 else 0.0 for scale in self.scales])

    def curve(self) -> PrivacyCurve:
        """Return the curve of all messages of one episode together; unbounded if the device does not clip."""
        return self._clipped_curve() if self.release.clipped else closed_forms.Unbounded(method=_NOT_CLIPPED)

    @abstractmethod
    def _clipped_curve(self) -> PrivacyCurve:
        """Return the curve for clipped features and values."""

    def explain(self) -> str:
        """Return the one line that explains the scales: their formula with the numbers, and the reason."""
        distance = "sqrt(4.5) m_h^2 in L2" if self.of_scale(1.0).norm == "l2" else "c m_h^2 in L1"
        changes = f"two users' messages of stage h differ by at most {distance}"
        return f"{self._formula()}: {changes}, and each of n agents gets one"

    def _formula(self) -> str:
        """Return the formula of the loss with its numbers; here that of Laplace laws."""
        return f"epsilon_0 = n c S = {self._l1_numbers()} = {self.l1_loss:.6g}, S = sum_h m_h^2 / b_h"

    def _l1_numbers(self) -> str:
        n, c = self.release.n_messages, l1_upper(self.release.dimension)
        return f"{n} * {c:.6g} * {self.l1_loss / (n * c):.6g}"

    @property
    def l1_loss(self) -> float:
        """Upper bound of the total log-ratio of Laplace noise: L1 distance of two users' messages over the scales."""
        total = 0.0
        for scale, bound in zip(self.scales, self.release.bounds, strict=True):
            if bound > 0:
                total += l1_upper(self.release.dimension) * bound**2 / scale
        return self.release.n_messages * total

    @property
    def l2_squared(self) -> float:
        """Squared L2 distance of one agent's messages of two users, in units of each stage's scale."""
        total = 0.0
        for scale, bound in zip(self.scales, self.release.bounds, strict=True):
            if bound > 0:
                total += (math.sqrt(JOINT_L2_SQUARED) * bound**2 / scale) ** 2
        return total

    @property
    def mass_outside(self) -> float:
        """For bounded support: upper bound on the mass outside that of two neighbours, message by message."""
        inside = 0.0
        for stage, bound in enumerate(self.release.bounds, 1):
            if bound > 0:
                # At an infinite epsilon the curve is the mass.
                apart = gram_sensitivity(self.release.dimension, bound)
                outside = self.stage_mechanisms(stage)[0].curve(apart).delta(math.inf)
                inside += math.log1p(-outside) if outside < 1.0 else -math.inf
        return -math.expm1(self.release.n_messages * inside)


def _check_request(epsilon: float, release: GramRelease) -> None:
    check_positive("epsilon", epsilon, "nothing else is a guarantee")
    if not release.clipped:
        raise ValueError("release must be clipped for a guarantee, got one that is not; clip it on the device")


def shape_of(release: GramRelease, stage_scales: bool) -> tuple[float, ...]:
    """Return relative noise scales of the stages: m_h^2 (equal losses) or, without `stage_scales`, the same at all."""
    return tuple(m**2 if stage_scales else 1.0 for m in release.bounds)


@dataclass(frozen=True)
class GramGaussian(Gram):
    """Gaussian noise of standard deviation sigma_h on phi V and on the upper triangle of phi phi^T.

    If `isotropic` it is sigma_h / sqrt(2) off the diagonal.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    mu-GDP with mu^2 = 4.5 n sum_h m_h^4 / sigma_h^2, in real arithmetic: one user's messages are one vector, so no
    composition is needed. The Frobenius norm counts an off-diagonal entry twice and its sensitivity is the same sqrt(2)
    m^2, so `isotropic` halves that variance at no cost; the noise is then the same in every basis. The worst pair has
    the cosine -1/2 and V = m; [TH23]'s features attain it for D >= 4.

    isotropic: whether off-diagonal entries have the scale divided by sqrt(2).
    Paper: Balle, Wang 2018, Theorem 8; Peikert 2010, Theorem 3.1; the statistics are those of [TH23] Algorithm 1.
    """

    isotropic: bool = False
    name: ClassVar[str] = "gram_gaussian"
    law: ClassVar[Callable[[float], Mechanism]] = Gaussian
    NAMED: ClassVar[dict[str, object]] = {"exact": False}

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True) -> GramGaussian:
        """Return the least isotropic noise that makes an episode's messages (epsilon, delta)-LDP, see `shape_of`."""
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}; use gram_laplace for 0")
        _check_request(epsilon, release)
        return cls.from_gdp(closed_forms.gaussian_mu(epsilon, delta), release, stage_scales)

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
        return math.sqrt(0.5) if self.isotropic else 1.0

    def _formula(self) -> str:
        n, square = self.release.n_messages, self.l2_squared / JOINT_L2_SQUARED
        return f"mu = sqrt(4.5 n S) = sqrt(4.5 * {n} * {square:.6g}) = {self.mu:.6g}, S = sum_h (m_h^2 / sigma_h)^2"

    def _clipped_curve(self) -> PrivacyCurve:
        return closed_forms.GaussianDP(self.mu)


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
    law: ClassVar[Callable[[float], Mechanism]] = Laplace
    NAMED: ClassVar[dict[str, object]] = {"exact": False, "isotropic": False}

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, release: GramRelease, stage_scales: bool = True) -> GramLaplace:
        """Return the least noise that is (epsilon, delta)-LDP by the pure or, for delta > 0, the zCDP bound."""
        _check_request(epsilon, release)
        shape = shape_of(release, stage_scales)
        unit = cls(release, shape)
        needed = unit.l1_loss / epsilon
        if delta > 0.0:
            needed = min(needed, math.sqrt(unit.rho / closed_forms.zcdp_rho(epsilon, delta)))
        return cls(release, tuple(s * needed * (1.0 + ROUNDING) for s in shape))

    @property
    def rho(self) -> float:
        """The zCDP bound of the same noise."""
        return self.release.n_messages * self.l2_squared / 2.0

    def _clipped_curve(self) -> PrivacyCurve:
        pure, concentrated = closed_forms.RandomizedResponses(1, self.l1_loss), closed_forms.ZCDP(self.rho)
        return closed_forms.ChosenCurve((pure, concentrated))


@dataclass(frozen=True)
class GramUniform(Gram):
    """Uniform noise on [-a_h, a_h], a_h = scales[h - 1], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (0, delta)-DP with delta <= sum_h n c_hi m_h^2 / (2 a_h), the same at every epsilon, in real arithmetic; the curve
    uses the slightly smaller product over messages of Lemma E. No epsilon is finite at a smaller delta.
    Paper: [TH23] sec. 6.1.
    """

    name: ClassVar[str] = "gram_uniform"
    law: ClassVar[Callable[[float], Mechanism]] = Uniform

    def _formula(self) -> str:
        return f"delta <= n c S / 2 = {self._l1_numbers()} / 2 = {self.l1_loss / 2.0:.6g}, S = sum_h m_h^2 / a_h"

    def _clipped_curve(self) -> PrivacyCurve:
        return bounded_support_curve(self.mass_outside, 0.0)


@dataclass(frozen=True)
class GramBoundedLaplace(Gram):
    """Laplace(b_h) noise given that it lies in [-B_h, B_h], on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (sum_h n c_hi m_h^2 / b_h, delta)-DP, where delta is the mass outside the common support (Lemma E, message by
    message), in real arithmetic; an upper bound. No finite bound has a pure epsilon.

    limits: B_h of each stage, in units of phi^2: the same multiple of b_h, `scales`, at all stages.
    Paper: [TH23] sec. 6.2; Geng, Ding, Guo, Kumar 2020, Theorem 1.
    """

    limits: tuple[float, ...] = ()
    name: ClassVar[str] = "gram_bounded_laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.limits) != len(self.scales) or not 0.0 < max(self._ratios) <= min(self._ratios) * (1.0 + _SAME):
            raise ValueError(f"limits must be the same multiple of all scales, got {self.limits}; take bound_ratio")

    def of_scale(self, scale: float) -> Mechanism:
        return BoundedLaplace(scale, scale * min(self._ratios))

    @property
    def _ratios(self) -> list[float]:
        """B_h / b_h of all stages with noise."""
        return [limit / scale for limit, scale in zip(self.limits, self.scales, strict=True) if scale > 0]

    def _formula(self) -> str:
        outside = f"outside of B_h = {min(self._ratios):.6g} b_h, delta = {self.mass_outside:.6g}"
        return f"{super()._formula()}; {outside}"

    def _clipped_curve(self) -> PrivacyCurve:
        return bounded_support_curve(self.mass_outside, self.l1_loss)


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


def printed_uniform_bound(horizon: int, delta: float) -> float:
    """Return a = 4 H^3 sqrt(ln(2 H / delta)), claimed to be (0, delta)-LDP.

    Paper: [TH23] Theorem 5; appendix D.3 has it without the root.
    """
    # D10: it would have to grow with 1 / delta, with or without the root.
    return 4.0 * horizon**3 * math.sqrt(math.log(2.0 * horizon / delta))


@no_alloc_kernel
def clip_features(out: Float64Array, phi: Float64Array, bound: float, clips: bool) -> None:
    """Fill `out` float64[D] with phi, shrunk to the norm `bound` if it `clips`; non-finite numbers count as 0."""
    total = 0.0
    for i in range(out.shape[0]):
        x = phi[i] if bound > 0.0 and abs(phi[i]) < math.inf else 0.0
        out[i] = x
        total += x * x
    if clips and total > bound * bound:
        size = math.sqrt(total)
        if size < MOST:
            factor = bound / size
            for i in range(out.shape[0]):
                out[i] *= factor
        else:
            fill_clipped(out, phi, bound, L2)


@kernel
def clip_value(value: float, bound: float, clips: bool) -> float:
    """Return V, clipped to [-bound, bound] if it `clips`; 0 if V is not finite or the bound is 0."""
    if not abs(value) < math.inf or bound <= 0.0:
        return 0.0
    # D7
    return min(max(value, -bound), bound) if clips else value


@no_alloc_kernel
def finish_gram(numbers: Float64Array, feature: Float64Array, target: float, ends: float, off_diagonal: float) -> None:
    """Turn draws `numbers` float64[D (D + 3) / 2] into the noisy message of feature float64[D] and target.

    numbers: the diagonal, the right-hand side, the upper triangle row by row. ends, off_diagonal: the factors of draws,
    on the diagonal and the right-hand side, and off the diagonal.

    *Formal guarantee.* None by itself; see the mechanism of the noise, on the features and target that it clips.
    """
    d, place = feature.shape[0], 2 * feature.shape[0]
    for i in range(d):
        x = feature[i]
        numbers[i] = x * x + ends * numbers[i]
        numbers[d + i] = x * target + ends * numbers[d + i]
        for j in range(i + 1, d):
            numbers[place] = x * feature[j] + off_diagonal * numbers[place]
            place += 1


@no_alloc_kernel
def add_gram(matrix: Float64Array, vector: Float64Array, numbers: Float64Array) -> None:
    """Add a message float64[D (D + 3) / 2] to the upper triangle of matrix float64[D, D] and to vector float64[D]."""
    d = vector.shape[0]
    place = 2 * d
    for i in range(d):
        matrix[i, i] += numbers[i]
        vector[i] += numbers[d + i]
        for j in range(i + 1, d):
            matrix[i, j] += numbers[place]
            place += 1
