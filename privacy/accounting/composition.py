"""Composition: the curve of several releases about one user, and of one release about several records.

Every bound used here holds for adaptive composition: each release may depend on the output of earlier ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, cast

import numpy as np

from dprl.privacy.accounting.amplification import SampledGaussianLoss, ShuffledLoss
from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    ChosenCurve,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    Unbounded,
    zcdp_delta,
)
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss, RoundedGaussianLoss
from dprl.privacy.accounting.losses import LaplaceLoss, SummedLosses, losses_of
from dprl.privacy.accounting.root_finding import ROUNDING, smallest

# Ratio of deltas that differ by rounding only: 100 times 1e-8 is 1e-6.
_SAME = 1.0 - 1e-12
# Steps in one standard deviation of the sum of all kinds and of the smallest kind, and points of the sum.
_STEPS, _STEPS_OF_SMALLEST, _MOST_POINTS = 300, 10, 1 << 17


@dataclass(frozen=True)
class _ComposedLoss(PrivacyCurve):
    """Successive releases of several kinds about one user.

    *Formal guarantee.* delta is `lost` and the least of two bounds: the distribution of the sum of the losses of
    dominating pairs, rounded up to a grid, and the sum of zero-concentrated losses if all have one. Both hold for
    adaptive composition. Every kind enters with the whole curve that it has alone, so the sum of epsilons at any split
    of delta (basic composition) is no smaller, up to the grid.

    curves: one for each kind of loss, sorted; each holds for neighbours in both orders.
    lost: probability that a release has no guarantee.
    Papers: Kairouz, Oh, Viswanath 2015; Bun, Steinke 2016, Proposition 1.4; Dong, Roth, Su 2022; Zhu, Dong, Wang 2022.
    """

    curves: tuple[PrivacyCurve, ...]
    lost: float = 0.0

    @cached_property
    def total(self) -> float:
        """The sum of the pure losses, but for what is lost; infinite if not all are pure."""
        return math.fsum(curve.pure_epsilon for curve in self.curves)

    @cached_property
    def rho(self) -> float:
        """The sum of the zero-concentrated losses, but for what is lost; infinite if one is unknown."""
        return math.fsum(map(rho_of, self.curves))

    @property
    def pure_epsilon(self) -> float:
        return math.inf if self.lost else self.total

    def epsilon(self, delta: float) -> float:
        if delta <= 0.0:
            return self.pure_epsilon
        if delta < self.lost * _SAME:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        if math.isfinite(self.total) and self.delta(self.total) >= delta:
            return self.total
        return math.inf if delta <= self.lost else min(smallest(self.delta, delta, 1.0), self.total)

    def delta(self, epsilon: float) -> float:
        if math.isinf(epsilon) or epsilon >= self.total:
            return self.lost
        return min(1.0, self.lost + min(_sum(self.curves).delta(epsilon), zcdp_delta(epsilon, self.rho)))

    @property
    def method(self) -> str:
        parts = [curve.method for curve in self.curves] + ([f"delta = {self.lost:.6g}"] if self.lost else [])
        return "privacy loss distribution of: " + "; ".join(parts)


@lru_cache(maxsize=32)
def _sum(curves: tuple[PrivacyCurve, ...]) -> SummedLosses:
    parts = [losses_of(curve) for curve in curves]
    variances = [part.variance for part in parts]
    # A loss with few values has a large deviation, and small ones beside it count at its largest value.
    step = min(math.sqrt(sum(variances)) / _STEPS, math.sqrt(min(variances)) / _STEPS_OF_SMALLEST)
    most = sum(float(np.ptp(part.losses)) for part in parts)
    return SummedLosses([(part, 1) for part in parts], max(step, most / _MOST_POINTS))


def compose(curves: Iterable[PrivacyCurve] | Mapping[PrivacyCurve, int]) -> PrivacyCurve:
    """Return the curve of several adaptive releases about one user together, each once or the given number of times.

    It is the simplest one: losses of one kind stay of that kind. Raises ValueError for a curve of an unknown kind.

    >>> compose([RandomizedResponses(1, 0.5), RandomizedResponses(1, 1.0)]).pure_epsilon
    1.5
    >>> round(compose([GaussianDP(1.0), RandomizedResponses(1, 0.5)]).epsilon(1e-6), 2)
    5.29
    """
    kinds: dict[Any, list[tuple[Any, int]]] = {}
    lost, split = 0.0, Counter[PrivacyCurve]()
    for curve, times in Counter(curves).items():
        if isinstance(curve, _ComposedLoss):
            lost += curve.lost * times
            split.update(dict.fromkeys(curve.curves, times))
        else:
            split[curve] += times
    for curve, times in split.items():
        kinds.setdefault(_kind(curve), []).append((curve, times))
        lost += curve.lost * times if isinstance(curve, RandomizedResponses) else 0.0
    if raw := next((curve for curve in split if isinstance(curve, Unbounded)), None):
        return raw
    if lost >= 1.0:
        return Unbounded(method="nothing is proved: the deltas add up to 1")
    added = []
    for of_kind in kinds.values():
        only, times = of_kind[0]
        alone = len(of_kind) == 1 and times == 1 and getattr(only, "lost", 0.0) == 0.0
        added.append(only if alone else _of_kind(of_kind))
    together = tuple(sorted((curve for curve in added if curve.pure_epsilon > 0.0), key=repr))
    match together:
        case ():
            return RandomizedResponses(1, 0.0, lost=lost)
        case (RandomizedResponses() as only,):
            return replace(only, lost=lost)
        case (only,) if lost == 0.0:
            return cast("PrivacyCurve", only)
    composed = _ComposedLoss(together, lost)
    if not any(isinstance(curve, ChosenCurve) and curve.chosen == "least" for curve in split):
        return composed
    # Every choice of bounds is a bound: all first ones, all last ones, and the best one at each epsilon.
    return ChosenCurve((compose(_bounds(split, 0)), composed, compose(_bounds(split, -1))))


def _bounds(curves: Mapping[PrivacyCurve, int], which: int) -> Counter[PrivacyCurve]:
    """Return one of the bounds of each curve that is the least of several, and the other curves."""
    found = Counter[PrivacyCurve]()
    for curve, times in curves.items():
        found[curve.curves[which] if isinstance(curve, ChosenCurve) and curve.chosen == "least" else curve] += times
    return found


def repeat(curve: PrivacyCurve, times: int) -> PrivacyCurve:
    """Return the curve of `times` adaptive releases with this curve each.

    >>> a_hundred = repeat(RandomizedResponses(1, 0.1), 100)
    >>> round(a_hundred.pure_epsilon, 9), round(a_hundred.epsilon(1e-6), 2)
    (10.0, 4.77)
    """
    if times < 1:
        raise ValueError(f"times must be at least 1, got {times}")
    return compose({curve: times})


def _kind(curve: PrivacyCurve) -> object:
    """Return what curves have in common that add up to one of the same kind."""
    match curve:
        case Unbounded() | GaussianDP() | ZCDP() | LaplaceLoss() | RoundedGaussianLoss():
            return type(curve)
        case RandomizedResponses(_, epsilon_0, _, informative):
            return epsilon_0, informative
        case ShuffledLoss() | SampledGaussianLoss() | DiscreteGaussianLoss():
            return replace(curve, n=1)
        case ChosenCurve():
            return curve
    rule = "curves must be of a known kind to be added up"
    raise ValueError(f"{rule}, got {type(curve).__name__}; state a RandomizedResponses or a ZCDP that it implies")


def _of_kind(curves: Sequence[tuple[Any, int]]) -> PrivacyCurve:
    """Return the curve of all (curve, number of releases) of one kind."""
    first, times = curves[0]
    match first:
        case GaussianDP():
            return GaussianDP(math.sqrt(math.fsum(n * each.mu * each.mu for each, n in curves)))
        case ZCDP():
            return ZCDP(math.fsum(n * each.rho for each, n in curves))
        case RandomizedResponses():
            cap = math.fsum(n * each.cap for each, n in curves)
            return RandomizedResponses(sum(n * each.n for each, n in curves), first.epsilon_0, cap, first.informative)
        case LaplaceLoss():
            numbers = Counter[float]()
            for each, n in curves:
                for of_a, a in each.parts:
                    numbers[a] += n * of_a
            parts = tuple((numbers[a], a) for a in sorted(numbers))
            return LaplaceLoss(parts, math.fsum(n * each.pure_epsilon for each, n in curves))
        case RoundedGaussianLoss():
            each_kind: list[RoundedGaussianLoss] = [each.repeated(n) for each, n in sorted(curves, key=repr)]
            return reduce(RoundedGaussianLoss.beside, each_kind)
        case ChosenCurve():
            return ChosenCurve(tuple(repeat(each, times) for each in first.curves), first.chosen)
    return cast("PrivacyCurve", replace(first, n=sum(n * each.n for each, n in curves)))


def rho_of(curve: PrivacyCurve) -> float:
    """Return a zero-concentrated loss; infinite if none is known."""
    match curve:
        case GaussianDP(mu):
            return mu * mu / 2.0
        case ZCDP(rho) | DiscreteGaussianLoss(rho=rho) | _ComposedLoss(rho=rho):
            return rho
        case RandomizedResponses(n, epsilon_0, cap, lost=0.0):
            return min(n * epsilon_0 * epsilon_0, cap * cap) / 2.0
        case LaplaceLoss(parts):
            return math.fsum(n * a * a for n, a in parts) / 2.0
    return math.inf


def group_epsilon(curve: PrivacyCurve, size: int, delta: float) -> float:
    """Return an epsilon at `delta` for `size` records that change together, from the curve of one, rounded up.

    *Formal guarantee.* See `_GroupCurve`. It has the same neighbour relation (replacement, or addition or removal).

    >>> group_epsilon(RandomizedResponses(1, 0.5), 3, 0.0)
    1.5
    """
    return _GroupCurve(curve, size).epsilon(delta)


@dataclass(frozen=True)
class _GroupCurve(PrivacyCurve):
    """The curve of `size` records that change together, from the curve of one, e.g. all those of one user.

    *Formal guarantee.* Let D_0, ..., D_m be data sets where successive ones differ in one record. P_i(S) <= e^t
    P_(i+1)(S) + delta(t) for every i implies P_0(S) <= e^(m t) P_m(S) + delta(t) (1 + e^t + ... + e^((m-1) t)); with
    t = epsilon / m this is the delta at epsilon. A mu-GDP release is m mu-GDP and a rho-zCDP release m^2 rho-zCDP for
    them. Every delta is the least of these. Records may depend on earlier releases: neighbouring data sets of the chain
    then differ in one round of the interaction, and the curve of one record is proved for adaptive records.

    curve: of one record. size: m, of records that change.
    Papers: Dwork, Roth 2014, Theorem 2.2; Vadhan 2017, Lemma 7.2.2; Dong, Roth, Su 2022; Bun, Steinke 2016.
    """

    curve: PrivacyCurve
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}; a group has at least one record")

    @property
    def pure_epsilon(self) -> float:
        return self.size * self.curve.pure_epsilon

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        # A delta at a smaller epsilon also holds at epsilon; e^709 overflows, and m roundings must not exceed epsilon.
        each = min(epsilon, 700.0) / self.size * (1.0 - ROUNDING)
        factor = math.expm1(self.size * each) / math.expm1(each) if each > 0.0 else float(self.size)
        general = self.curve.delta(each) * factor * (1.0 + ROUNDING)
        return min(1.0, general, *(bound.delta(epsilon) for bound in self._special))

    def epsilon(self, delta: float) -> float:
        if delta <= 0.0:
            return self.pure_epsilon
        if self.delta(0.0) <= delta:
            return 0.0
        known = min([self.pure_epsilon, *(bound.epsilon(delta) for bound in self._special)])
        # The general bound may rise with epsilon, so the root need not be the least; `smallest` checks that it holds.
        return min(known, smallest(self.delta, delta, min(known, 1.0)))

    @cached_property
    def _special(self) -> list[PrivacyCurve]:
        curve, m = self.curve, self.size
        if isinstance(curve, GaussianDP):
            return [GaussianDP(m * curve.mu)]
        if isinstance(curve, ChosenCurve):
            return [replace(curve, curves=tuple(_GroupCurve(each, m) for each in curve.curves))]
        rho = rho_of(curve) if getattr(curve, "lost", 0.0) == 0.0 else math.inf
        return [ZCDP(m * m * rho)] if math.isfinite(rho) else []
