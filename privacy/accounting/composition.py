"""Composition: the curve of several releases about one user.

Every bound used here holds for adaptive composition: each release may depend on the output of earlier ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

from dprl.privacy.accounting.closed_forms import zcdp_delta
from dprl.privacy.accounting.curves import (
    ZCDP,
    ApproximateLoss,
    GaussianDP,
    MaximumCurve,
    MinimumCurve,
    OneHotResponses,
    PrivacyCurve,
    PureDP,
    RandomizedResponses,
    Unbounded,
)
from dprl.privacy.accounting.discrete_gaussians import (
    SMALLEST_SIGMA,
    WIDEST,
    DiscreteGaussianLoss,
    RoundedGaussianLoss,
)
from dprl.privacy.accounting.laplace_losses import LaplaceLoss
from dprl.privacy.accounting.pld import (
    DISCRETE_GAUSSIAN,
    LAPLACE,
    MOST_KINDS,
    RESPONSES,
    Kind,
    Losses,
    losses_of,
    of_curve,
)
from dprl.privacy.accounting.poisson_sampling import SampledGaussianLoss
from dprl.privacy.accounting.root_finding import smallest
from dprl.privacy.accounting.shuffling import ShuffledLoss

# Ratio of deltas that differ by rounding only: 100 times 1e-8 is 1e-6.
_SAME = 1.0 - 1e-12
# More Laplace losses of one kind are summed by FFT, and enter other sums with the resulting curve.
_MOST_LAPLACE = 2000


@dataclass(frozen=True)
class _ComposedLoss:
    """Successive releases of several kinds about one user.

    *Formal guarantee.* delta is the least of four bounds, plus `lost`: the sum of pure losses with zCDP of the rest, or
    with the curve of one kind if all others are pure; zCDP of everything; and the distribution of the loss of the
    dominating pairs, where every sum over a grid is an upper bound. All hold for adaptive composition.

    Every kind enters with the whole curve that it has alone, so the sum of epsilons at any split of delta (basic
    composition) is no smaller, up to the grid: if a pair has the delta d_i at epsilon_i, the loss of all exceeds the
    sum of the epsilon_i by no more than the sum of the d_i allows.

    Args:
        kinds: every kind of loss with a known distribution, sorted.
        pure: the largest sum of the pure losses among them.
        mu: of all Gaussian releases together.
        rho: of all releases with only a zero-concentrated loss known.
        lost: probability that a release has no guarantee.
        curves: of all other releases, for neighbours in both orders; see `of_curve`.

    Papers: Kairouz, Oh, Viswanath 2015; Bun, Steinke 2016, Proposition 1.4; Dong, Roth, Su 2022; Zhu, Dong, Wang 2022.
    """

    kinds: tuple[Kind, ...] = ()
    pure: float = 0.0
    mu: float = 0.0
    rho: float = 0.0
    lost: float = 0.0
    curves: tuple[PrivacyCurve, ...] = ()

    @cached_property
    def pure_epsilon(self) -> float:
        """The sum of the pure losses; infinite if not all are."""
        if self.lost or self.rho or self.mu or any(kind.law == DISCRETE_GAUSSIAN for kind in self.kinds):
            return math.inf
        return math.fsum([self.pure, *(curve.pure_epsilon for curve in self.curves)])

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that one of the bounds proves; infinite at deltas up to `lost`."""
        if delta <= 0.0 or self.pure_epsilon == 0.0:
            return self.pure_epsilon
        if delta < self.lost * _SAME:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        largest = replace(self, lost=0.0).pure_epsilon  # but for what is lost
        if math.isfinite(largest) and self.delta(largest) >= delta:
            return largest
        if delta <= self.lost:
            return math.inf
        start = 1.0 if self.curves else self.pure + self.total_rho + math.sqrt(self.total_rho)
        return min(smallest(self.delta, delta, start), largest)

    def delta(self, epsilon: float) -> float:
        """Return the least delta that one of the bounds proves at `epsilon`."""
        return min(1.0, self.lost + self._delta(epsilon))

    def _delta(self, epsilon: float) -> float:
        if math.isinf(epsilon) or epsilon >= replace(self, lost=0.0).pure_epsilon:
            return 0.0
        bounds = [self._losses.delta(epsilon, self.rho), zcdp_delta(epsilon, self.total_rho)]
        if epsilon >= self.pure:
            bounds.append(zcdp_delta(epsilon - self.pure, self._rest_rho))
        bounds += [curve.delta(epsilon - pure) for curve, pure in self._beside_pure if epsilon >= pure]
        return min(bounds)

    @cached_property
    def _beside_pure(self) -> list[tuple[PrivacyCurve, float]]:
        """The curve of each kind for which all other losses are pure, with the sum of those."""
        parts = [
            _ComposedLoss((kind,), 0.0 if kind.law == DISCRETE_GAUSSIAN else kind.n * kind.scale) for kind in self.kinds
        ]
        parts += [_ComposedLoss(mu=self.mu)] if self.mu > 0.0 else []
        parts += [_ComposedLoss(rho=self.rho)] if self.rho > 0.0 else []
        parts += [_ComposedLoss(curves=(curve,)) for curve in self.curves]
        found = []
        for part in parts:
            others = [other for other in parts if other is not part]
            if all(other.pure > 0.0 for other in others):
                found.append((_simplified([part]), math.fsum(other.pure for other in others)))
        return found

    @property
    def _losses(self) -> Losses:
        return _losses(self.kinds, self.mu, self.rho, self.curves)

    @property
    def _rest_rho(self) -> float:
        """A zero-concentrated loss of all that is not pure."""
        return self._rho_of(kind for kind in self.kinds if kind.law == DISCRETE_GAUSSIAN)

    @property
    def total_rho(self) -> float:
        """A zero-concentrated loss of all but `lost`; infinite if none is known."""
        return self._rho_of(self.kinds)

    def _rho_of(self, kinds: Iterable[Kind]) -> float:
        return math.inf if self.curves else self.rho + self.mu * self.mu / 2.0 + sum(kind.rho for kind in kinds)

    @property
    def method(self) -> str:
        """Method of computation."""
        noisy = sum(kind.n for kind in self.kinds if kind.law == DISCRETE_GAUSSIAN)
        laplace = sum(kind.n for kind in self.kinds if kind.law == LAPLACE)
        responses = sum(kind.n for kind in self.kinds) - noisy - laplace
        parts = {
            f"{responses} randomized responses": responses,
            f"{laplace} Laplace losses": laplace,
            f"{noisy} discrete Gaussians": noisy,
            f"mu = {self.mu:.6g}": self.mu,
            f"rho = {self.rho:.6g}": self.rho,
            f"delta = {self.lost:.6g}": self.lost,
        } | {curve.method: 1 for curve in self.curves}
        return "privacy loss distribution of " + ", ".join(text for text, value in parts.items() if value)


def compose(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the curve of several adaptive releases about one user together.

    It is the simplest such curve: losses of one kind stay of that kind. Raises ValueError for a curve of an unknown
    kind.

    >>> compose([PureDP(0.5), PureDP(1.0)]).pure_epsilon
    1.5
    >>> round(compose([GaussianDP(1.0), PureDP(0.5)]).epsilon(1e-6), 2)
    5.29
    """
    parts = [parts_of(curve) for curve in curves]
    for curve in curves:
        if isinstance(curve, Unbounded):
            return curve
    kept = [(curve, part) for curve, part in zip(curves, parts, strict=True) if part != _ComposedLoss()]
    if len(kept) == 1:
        return kept[0][0]
    together = _simplified([part for _, part in kept])
    if any(isinstance(curve, MinimumCurve) for curve in curves):
        # Every choice of bounds is a bound: all first ones, all last ones, and the best one at each epsilon.
        first, last = (compose([bound_of(curve, which) for curve in curves]) for which in (0, -1))
        return MinimumCurve((first, together, last) if isinstance(together, _ComposedLoss) else (first, last))
    return together


def repeat(curve: PrivacyCurve, times: int) -> PrivacyCurve:
    """Return the curve of `times` adaptive releases with this curve each.

    >>> a_hundred = repeat(PureDP(0.1), 100)
    >>> round(a_hundred.pure_epsilon, 9), round(a_hundred.epsilon(1e-6), 2)
    (10.0, 4.77)
    """
    if times < 1:
        raise ValueError(f"times must be at least 1, got {times}")
    if isinstance(curve, MinimumCurve | MaximumCurve):
        return type(curve)(tuple(repeat(each, times) for each in curve.curves))
    if isinstance(curve, ShuffledLoss | SampledGaussianLoss):
        return replace(curve, n=curve.n * times)
    if isinstance(curve, RoundedGaussianLoss):
        return curve.repeated(times)
    part = parts_of(curve)
    if times == 1 or isinstance(curve, Unbounded):
        return curve
    every = _ComposedLoss(
        tuple(kind._replace(n=kind.n * times) for kind in part.kinds),
        part.pure * times,
        part.mu * math.sqrt(times),
        part.rho * times,
        min(1.0, part.lost * times),
        tuple(repeat(each, times) for each in part.curves),
    )
    return _simplified([every])


def bound_of(curve: PrivacyCurve, which: int) -> PrivacyCurve:
    """Return one of the bounds of a `MinimumCurve`, any other curve itself."""
    return curve.curves[which] if isinstance(curve, MinimumCurve) else curve


def parts_of(curve: PrivacyCurve) -> _ComposedLoss:
    """Return a curve split into its kinds of loss."""
    match curve:
        case _ComposedLoss():
            return curve
        case Unbounded():
            return _ComposedLoss(lost=1.0)
        case GaussianDP(mu):
            return _ComposedLoss(mu=mu)
        case ZCDP(rho):
            return _ComposedLoss(rho=rho)
        case ShuffledLoss() | SampledGaussianLoss() | RoundedGaussianLoss() | MinimumCurve() | MaximumCurve():
            return _ComposedLoss(curves=(curve,))
        case DiscreteGaussianLoss(n, sigma):
            return _ComposedLoss((Kind(DISCRETE_GAUSSIAN, sigma, n),))
    pure = _pure_parts(curve)
    if pure is None:
        raise ValueError(
            f"curves must be of a known kind to be added up, got {type(curve).__name__}; state an ApproximateLoss, "
            "a ZCDP or a PureDP that it implies"
        )
    return pure


def _pure_parts(curve: PrivacyCurve) -> _ComposedLoss | None:
    """Return a curve of pure losses split into its kinds; None for any other."""
    match curve:
        case PureDP(epsilon_0):
            return _responses(1, epsilon_0, epsilon_0, 0.0)
        case RandomizedResponses(n, epsilon_0):
            return _responses(n, epsilon_0, curve.pure_epsilon, 0.0)
        case ApproximateLoss(epsilon_0, delta_0):
            return _responses(1, epsilon_0, epsilon_0, delta_0)
        case LaplaceLoss(parts, pure):
            return _ComposedLoss(tuple(Kind(LAPLACE, a, n) for n, a in parts), pure)
        case OneHotResponses(n, epsilon_0, informative):
            kinds = (Kind(RESPONSES, epsilon_0, n, informative),) if epsilon_0 > 0.0 else ()
            return _ComposedLoss(kinds, n * epsilon_0)
    return None


def _responses(n: int, epsilon_0: float, pure: float, lost: float) -> _ComposedLoss:
    """Return n losses of epsilon_0 or, if its mean divergence is smaller, one loss of their total."""
    if pure * math.tanh(pure / 2.0) < n * epsilon_0 * math.tanh(epsilon_0 / 2.0):
        n, epsilon_0 = 1, pure
    return _ComposedLoss((Kind(RESPONSES, epsilon_0, n),) if epsilon_0 > 0.0 else (), pure, lost=lost)


def _simplified(parts: Sequence[_ComposedLoss]) -> PrivacyCurve:
    """Return the sum of parts, as a curve of one kind if possible."""
    counts: dict[tuple[int, float, float], int] = {}
    for part in parts:
        for law, scale, n, informative in part.kinds:
            counts[law, scale, informative] = counts.get((law, scale, informative), 0) + n
    kinds = tuple(sorted(Kind(law, scale, n, informative) for (law, scale, informative), n in counts.items()))
    # fsum gives the same sum in every order.
    pure = math.fsum(part.pure for part in parts)
    mu = math.sqrt(math.fsum(part.mu * part.mu for part in parts))
    rho = math.fsum(part.rho for part in parts)
    lost = min(1.0, math.fsum(part.lost for part in parts))
    if lost >= 1.0:
        return Unbounded(method="nothing is proved: the deltas add up to 1")
    # The zCDP bound of coarse discrete Gaussians, and the curve of wide ones, is all that is known of them.
    coarse = [kind for kind in kinds if kind.law == DISCRETE_GAUSSIAN and kind.n > 1 and kind.scale < SMALLEST_SIGMA]
    wide = [kind for kind in kinds if kind.law == DISCRETE_GAUSSIAN and math.sqrt(kind.n) * kind.scale > WIDEST]
    curves = _merged([curve for part in parts for curve in part.curves])
    match [len(kinds), mu > 0.0, rho > 0.0, lost > 0.0, len(curves)]:
        case [0, False, False, False, 0]:
            return PureDP(0.0)
        case [0, True, False, False, 0]:
            return GaussianDP(mu)
        case [0, False, True, False, 0]:
            return ZCDP(rho)
        case [0, False, False, False, 1]:
            return curves[0]
        case [_, False, False, False, 0] if all(kind.law == LAPLACE for kind in kinds):
            return LaplaceLoss(tuple((kind.n, kind.scale) for kind in kinds), pure)
        case [1, False, False, False, 0]:
            return _of_one_kind(kinds[0], pure)
    rho += math.fsum(kind.rho for kind in coarse)
    curves += tuple(DiscreteGaussianLoss(kind.n, kind.scale) for kind in wide)
    return _ComposedLoss(tuple(kind for kind in kinds if kind not in [*coarse, *wide]), pure, mu, rho, lost, curves)


def _merged(curves: Sequence[PrivacyCurve]) -> tuple[PrivacyCurve, ...]:
    """Return curves with those of one kind as one, in an order that depends only on them."""
    found: dict[Any, Any] = {}
    for curve, times in Counter(curves).items():
        key: Any = curve
        together: Any = repeat(curve, times)
        if isinstance(curve, ShuffledLoss | SampledGaussianLoss):
            key = replace(curve, n=1)
            together = replace(together, n=together.n + found[key].n) if key in found else together
        elif isinstance(curve, RoundedGaussianLoss):
            key = RoundedGaussianLoss
            together = together.beside(found[key]) if key in found else together
        found[key] = together
    return tuple(sorted(found.values(), key=repr))


@lru_cache(maxsize=32)
def _losses(kinds: tuple[Kind, ...], mu: float, rho: float, curves: tuple[PrivacyCurve, ...]) -> Losses:
    """Return the distribution of the finite losses; see `losses_of`."""
    many = [kind for kind in kinds if kind.law == LAPLACE and (kind.n > _MOST_LAPLACE or len(kinds) > MOST_KINDS)]
    if many:
        pooled = LaplaceLoss(tuple((n, a) for _, a, n, _ in many), math.fsum(n * a for _, a, n, _ in many))
        kinds, curves = tuple(kind for kind in kinds if kind not in many), (pooled, *curves)
    return losses_of(kinds, mu, rho, [_of_curve(cast("Hashable", curve)) for curve in curves])


@lru_cache(maxsize=32)
def _of_curve(described: Hashable) -> Losses:
    curve = cast("PrivacyCurve", described)
    return of_curve(curve.delta, curve.epsilon)


def _of_one_kind(kind: Kind, pure: float) -> PrivacyCurve:
    law, scale, n, informative = kind
    if informative < 1.0:
        return OneHotResponses(n, scale, informative)
    if law == DISCRETE_GAUSSIAN:
        return DiscreteGaussianLoss(n, scale)
    return RandomizedResponses(n, scale, pure)
