"""Group privacy: the curve of several records that change together, e.g. those of one user who takes part again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from dprl.privacy.accounting.composition import parts_of
from dprl.privacy.accounting.curves import ZCDP, GaussianDP, MaximumCurve, MinimumCurve, PrivacyCurve
from dprl.privacy.accounting.root_finding import ROUNDING, smallest


@dataclass(frozen=True)
class _GroupCurve:
    """The curve of `size` records that change together, from the curve of one.

    *Formal guarantee.* Let D_0, ..., D_m be data sets where successive ones differ in one record. P_i(S) <= e^t
    P_(i+1)(S) + delta(t) for every i implies P_0(S) <= e^(m t) P_m(S) + delta(t) (1 + e^t + ... + e^((m-1) t)); with
    t = epsilon / m this is the delta at epsilon. A mu-GDP release is m mu-GDP and a rho-zCDP release m^2 rho-zCDP for
    them. Every delta is the least of these. Records may depend on earlier releases: neighbouring data sets of the chain
    then differ in one round of the interaction, and the curve of one record is proved for adaptive records.

    Args:
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
        """The pure epsilon of one record, times m."""
        return self.size * self.curve.pure_epsilon

    def delta(self, epsilon: float) -> float:
        """Return the least delta that one of the bounds proves at `epsilon`."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        # A delta at a smaller epsilon also holds at epsilon; e^709 overflows, and m roundings must not exceed epsilon.
        each = min(epsilon, 700.0) / self.size * (1.0 - ROUNDING)
        factor = math.expm1(self.size * each) / math.expm1(each) if each > 0.0 else float(self.size)
        general = self.curve.delta(each) * factor * (1.0 + ROUNDING)
        return min(1.0, general, *(bound.delta(epsilon) for bound in self._special))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon with `delta`, rounded up; infinite if none is known."""
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
        if isinstance(curve, MinimumCurve | MaximumCurve):
            return [type(curve)(tuple(_GroupCurve(each, m) for each in curve.curves))]
        parts = parts_of(curve)
        return [ZCDP(m * m * parts.total_rho)] if parts.lost == 0.0 and not parts.curves else []

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"group privacy of {self.size} records: {self.curve.method}"


def group_epsilon(curve: PrivacyCurve, size: int, delta: float) -> float:
    """Return an epsilon at `delta` for `size` records that change together, from the curve of one, rounded up.

    *Formal guarantee.* See `_GroupCurve`. It has the same neighbour relation (replacement, or addition or removal).

    >>> from dprl.privacy.accounting.curves import PureDP
    >>> group_epsilon(PureDP(0.5), 3, 0.0)
    1.5
    """
    return _GroupCurve(curve, size).epsilon(delta)
