"""Noise for a symmetric Gram matrix with its right-hand side: what a user's device adds to a linear model's statistics.

At stage h the device of each of n agents sends (phi phi^T + W, phi V + w). It first shrinks phi to the norm m_h and
clips V to [0, m_h], with m_h = H - h. [TH23] cuts V from above only and assumes |phi| <= H (D7): without a lower cut no
finite guarantee exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.accounting.curves import ConcentratedLoss, GaussianLoss, LeastOf, PureLoss
from dprl.privacy.accounting.zcdp import zcdp_rho
from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import kernel
from dprl.privacy.mechanisms.base import IDEALISED, Mechanism, Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gradients import GRID, checked_vector, clipped
from dprl.privacy.mechanisms.gram_keys import stage_key
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise

JOINT_L2_SQUARED = 4.5
"""Of one message, in units of m^4: the largest (2 - 2c) + (2 - 2c^2), at the cosine c = -1/2 of phi and phi'."""
# The noise scale is 2^n to 2^(n+1) units of the grid, with n from the first to the second number: samplers' tables end
# at 2^15 and 2^40. A finer grid than by the first is for noise so large that rounding to it would cost too much.
_GAUSSIAN_GRID_BITS, _LAPLACE_GRID_BITS = (14, 14), (20, 39)
# Rounding to a grid that can be as fine as needed adds less than 2^-6 to the L1 sensitivity; where it cannot, up to
# 1024 times the noise of real arithmetic is added to pay for rounding.
_ROUNDING_BITS, _MOST_FOR_ROUNDING = 6, 1024.0
# How far rounding moves two neighbours' numbers apart, in units of the grid: 1, and a trace for float64 products.
_ROUNDING_APART = 1.001
# Relative; calibrated scales are rounded up by it.
_ROUNDING = 1e-9
_MOST_DRAWS = 2**53


def l1_upper(dimension: int) -> float:
    """Return c_hi: a bound of the joint L1 sensitivity of (upper triangle, right-hand side) in units of m^2."""
    d = dimension
    # D9: the matrix's part grows like D; 2 sqrt(D), as printed, bounds an induced norm, not the sum of entries.
    return 2.0 * math.sqrt(d) + min(d / math.sqrt(2.0) + 1.0, math.sqrt(d * (d + 3) / 2.0))


def l1_lower(dimension: int) -> float:
    """Return c_lo: the L1 distance, in units of m^2, of the pair that `attaining_pair` returns, V = m."""
    if dimension == 1:
        return 2.0
    d = dimension - dimension % 2
    return (d + 1) / math.sqrt(2.0) + math.sqrt(2.0 * d) * math.cos(math.pi / 8.0)


def attaining_pair(dimension: int, bound: float) -> tuple[Float64Array, Float64Array]:
    """Return (phi, phi') of norm `bound` whose Gram matrices differ by sqrt(2) bound^2 / D in every entry, D even.

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
    """Return how far apart two messages of one agent and stage are: (upper triangle of phi phi^T, phi V).

    |phi| <= m and 0 <= V <= m for m = `bound`. L2 is sqrt(4.5) m^2 in joint, also where an off-diagonal entry counts
    twice (the Frobenius norm); L1 is at most c_hi m^2; a number of phi V changes by at most 2 m^2, one of the matrix by
    at most m^2. All D (D + 3) / 2 numbers can change.
    """
    square = bound * bound
    cells = dimension * (dimension + 3) // 2
    return Sensitivity(l1_upper(dimension) * square, math.sqrt(JOINT_L2_SQUARED) * square, 2.0 * square, cells)


@dataclass(frozen=True)
class GramRelease:
    """What one user sends in an episode: at every stage one message of each agent, all with noise of their own.

    Args:
        dimension: D, of phi (n d in [TH23]).
        bounds: m_h >= 0 for h = 1..H; a stage of bound 0 has nothing of the user in it.
        n_agents: n; all of their messages can change together.
    """

    dimension: int
    bounds: tuple[float, ...]
    n_agents: int

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.n_agents < 1:
            raise ValueError(f"dimension and n_agents must be at least 1, got {self}; pass the features' dimension")
        if not all(math.isfinite(m) and m >= 0 for m in self.bounds) or not any(self.bounds):
            raise ValueError(f"bounds must be finite, at least 0 and not all 0, got {self.bounds}; pass H - h")

    @classmethod
    def of_horizon(cls, horizon: int, dimension: int, n_agents: int) -> GramRelease:
        """Return that of values in [0, H - h] at the state after stage h: m_h = H - h, 0 at the last stage."""
        return cls(dimension, tuple(float(horizon - h) for h in range(1, horizon + 1)), n_agents)

    def power_sum(self, power: int) -> float:
        """Return the sum of m_h^power over the stages: S2 and S4 for 2 and 4."""
        return math.fsum(m**power for m in self.bounds if m > 0)

    @property
    def message_length(self) -> int:
        """Numbers of one message: D (D + 3) / 2."""
        return self.dimension * (self.dimension + 3) // 2


@dataclass(frozen=True)
class _Gram:
    """What the two mechanisms share.

    Args:
        release: what is sent.
        scales: noise scale of each stage, in units of phi^2; 0 only where the bound is 0.
        isotropic: whether off-diagonal entries have the scale divided by sqrt(2) (Gaussian noise only).
        exact: whether numbers are rounded to a grid and the noise is an integer number of grid units.
    """

    release: GramRelease
    scales: tuple[float, ...]
    isotropic: bool = False
    exact: bool = False
    name: ClassVar[str]
    grid_bits: ClassVar[tuple[int, int]]
    continuous: ClassVar[type[Laplace] | type[Gaussian]]
    discrete: ClassVar[type[DiscreteLaplace] | type[DiscreteGaussian]]

    def __post_init__(self) -> None:
        bounds = self.release.bounds
        if len(self.scales) != len(bounds):
            raise ValueError(f"scales must have one entry per stage, {len(bounds)}, got {len(self.scales)}; add them")
        for scale, bound in zip(self.scales, bounds, strict=True):
            least = bound**2 * 2.0**-15 if self.exact else 0.0
            if not (math.isfinite(scale) and scale >= least and (scale > 0 or bound == 0)):
                raise ValueError(
                    f"scales must be finite and above 0 (bound^2 / 2^15 on a grid), got {scale} for {bound}"
                )

    @property
    def arithmetic(self) -> str:
        """What the guarantee assumes of the numbers."""
        return GRID if self.exact else IDEALISED

    def grid(self, stage: int) -> float:
        """Return the power of two that stage's (1-based) numbers are rounded to; 0 for none."""
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

    def randomize(
        self, phi: Float64Array, value: float, stage: int, key: npt.NDArray[np.uint64], number: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return message `number` of the stream `key`: (float64[D, D] symmetric, float64[D]) at `stage` in 1..H.

        `number` has to differ between agents, stages and episodes. Numbers that are not finite count as 0; phi is
        shrunk to the stage's bound m and `value` clipped to [0, m] here, on the device.

        *Formal guarantee.* See the class.
        """
        if not 1 <= stage <= len(self.scales):
            raise ValueError(f"stage must lie in 1..{len(self.scales)}, got {stage}; count from 1")
        length = self.release.message_length
        if not 0 <= number < _MOST_DRAWS // length:
            raise ValueError(f"number must lie in [0, 2^53 / {length}), got {number}; start a new stream")
        given = checked_vector(phi, self.release.dimension)
        noise = np.zeros(length)
        if self.scales[stage - 1] > 0:
            first, wide = number * length, 2 * self.release.dimension
            ends, off_diagonal = self.stage_mechanisms(stage)
            key = stage_key(key, stage) if self.exact else key
            fill_noise(noise[:wide], ends.noise(key), np.uint64(first))
            fill_noise(noise[wide:], off_diagonal.noise(key), np.uint64(first + wide))
        out = np.empty((given.shape[0] + 1, given.shape[0]))
        fill_gram(out, given, float(value), self.release.bounds[stage - 1], noise, self.grid(stage))
        return out[:-1], out[-1]

    def _with_more_noise(self, factor: float, most: float, epsilon: float) -> Self:
        """Return the same with scales times `factor`; a ValueError if the largest of them is then above `most`."""
        scales = tuple(scale * factor for scale in self.scales)
        if max(scales) > most:
            raise ValueError(
                f"epsilon must be above what rounding to a grid costs, got {epsilon} for {self.name} in dimension "
                f"{self.release.dimension} with {self.release.n_agents} agents; raise it, or set exact to False"
            )
        return replace(self, scales=scales)

    def _rounded_apart(self, stage: int, weight: float) -> float:
        """Return how much rounding adds to a norm that is `weight` for a vector of ones."""
        return _ROUNDING_APART * self.grid(stage) * weight


@dataclass(frozen=True)
class GramGaussian(_Gram):
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
    grid_bits: ClassVar[tuple[int, int]] = _GAUSSIAN_GRID_BITS
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
        _check_epsilon(epsilon)
        mu = math.sqrt(2.0 * zcdp_rho(epsilon, delta)) if exact else gaussian_mu(epsilon, delta)
        shape = _shape(release, stage_scales)
        needed = cls(release, shape, isotropic=True).mu / mu * (1.0 + _ROUNDING)
        found = cls(release, tuple(s * needed for s in shape), isotropic=True, exact=exact)
        most = _MOST_FOR_ROUNDING * max(found.scales)
        while found.mu > mu:
            # Rounding to the grid, which is a power of two, is in proportion to the scale but for its jumps.
            found = found._with_more_noise(found.mu / mu * (1.0 + _ROUNDING), most, epsilon)
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
        return math.sqrt(self.release.n_agents * total)

    def curve(self) -> GaussianLoss | ConcentratedLoss:
        """Return what all messages of one episode prove together."""
        if self.exact:
            return ConcentratedLoss(self.mu**2 / 2.0)
        return GaussianLoss(self.mu, exact=self.release.dimension >= 4)


@dataclass(frozen=True)
class GramLaplace(_Gram):
    """Laplace(b_h) noise on phi V and on the upper triangle of phi phi^T.

    *Formal guarantee.* Between any two inputs of a user, all messages of an episode together, to all n agents, are
    (n sum_h c_hi m_h^2 / b_h, 0)-DP, an upper bound: the L1 sensitivity of a message lies in [c_lo, c_hi] m^2. The same
    noise is rho-zCDP with rho = 4.5 n sum_h m_h^4 / (2 b_h^2) (epsilon_j-DP of a coordinate is epsilon_j^2/2-zCDP),
    which says more at delta > 0. In real arithmetic; on a grid (`exact`) numbers are rounded to it, which adds at most
    one unit to each difference, and the noise is discrete Laplace.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; the statistics are those of [TH23] Algorithm 1.
    """

    name: ClassVar[str] = "gram_laplace"
    grid_bits: ClassVar[tuple[int, int]] = _LAPLACE_GRID_BITS
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
        _check_epsilon(epsilon)
        shape = _shape(release, stage_scales)
        unit = cls(release, shape)
        rho = zcdp_rho(epsilon, delta) if delta > 0.0 else 0.0
        needed = unit._excess(epsilon, rho)
        found = cls(release, tuple(s * needed * (1.0 + _ROUNDING) for s in shape), exact=exact)
        most = _MOST_FOR_ROUNDING * max(found.scales)
        while (excess := found._excess(epsilon, rho)) > 1.0:
            found = found._with_more_noise(excess * (1.0 + _ROUNDING), most, epsilon)
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
        return self.release.n_agents * total

    @property
    def rho(self) -> float:
        """The zCDP bound of the same noise."""
        total, weight = 0.0, math.sqrt(self.release.message_length)
        for stage, (scale, bound) in enumerate(zip(self.scales, self.release.bounds, strict=True), 1):
            if bound > 0:
                l2 = math.sqrt(JOINT_L2_SQUARED) * bound**2 + self._rounded_apart(stage, weight)
                total += (l2 / scale) ** 2
        return self.release.n_agents * total / 2.0

    def curve(self) -> LeastOf:
        """Return what all messages of one episode prove together, by the L1 bound and by the L2 bound."""
        return LeastOf((PureLoss(self.pure_epsilon), ConcentratedLoss(self.rho)))


def _leading(number: float) -> int:
    """Return the exponent of the largest power of two up to `number` > 0."""
    return math.frexp(number)[1] - 1


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon}; nothing else is a guarantee")


def _shape(release: GramRelease, stage_scales: bool) -> tuple[float, ...]:
    """Return relative noise scales of the stages: m_h^2, or 1 at every stage."""
    return tuple(m**2 if stage_scales else 1.0 for m in release.bounds)


@kernel
def fill_gram(out: np.ndarray, phi: np.ndarray, value: float, bound: float, noise: np.ndarray, grid: float) -> None:
    """Fill `out` float64[D + 1, D] with the clipped statistics and their noise: the matrix, then the right-hand side.

    noise: float64[D (D + 3) / 2], that of the diagonal, of the right-hand side, of the upper triangle row by row; in
    units of the grid if that is above 0.

    *Formal guarantee.* None by itself; see GramGaussian and GramLaplace.
    """
    d = phi.shape[0]
    feature = clipped(phi, bound, True) if bound > 0.0 else np.zeros(d)
    # D7
    target = min(max(value, 0.0), bound) if abs(value) < math.inf else 0.0
    unit = grid if grid > 0.0 else 1.0
    place = 2 * d
    for i in range(d):
        number = feature[i] * target / unit
        out[d, i] = unit * ((np.rint(number) if grid > 0.0 else number) + noise[d + i])
        for j in range(i, d):
            number = feature[i] * feature[j] / unit
            if grid > 0.0:
                number = np.rint(number)
            if i == j:
                number += noise[i]
            else:
                number += noise[place]
                place += 1
            out[i, j] = unit * number
            out[j, i] = out[i, j]
