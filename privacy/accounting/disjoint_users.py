"""Parallel composition: the curve of several runs with disjoint users, each user in one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dprl.privacy.accounting.curves import PrivacyCurve


@dataclass(frozen=True)
class MaximumCurve:
    """Curves of runs with disjoint users, of which the worst one counts at every epsilon and at every delta.

    *Formal guarantee.* Two neighbours differ in one user, who is in one run; all other runs have the same input in both
    worlds and independent noise, so they change no probability ratio. All runs together are (epsilon, delta)-DP if each
    run is.

    Paper: McSherry 2009, Theorem 4.
    """

    runs: tuple[PrivacyCurve, ...]
    exact: bool = False

    @property
    def pure_epsilon(self) -> float:
        """The largest."""
        return max(run.pure_epsilon for run in self.runs)

    def epsilon(self, delta: float) -> float:
        """Return the largest epsilon."""
        return max(run.epsilon(delta) for run in self.runs)

    def delta(self, epsilon: float) -> float:
        """Return the largest delta."""
        return max(run.delta(epsilon) for run in self.runs)

    @property
    def method(self) -> str:
        """Method of computation."""
        return "the largest of: " + "; ".join(dict.fromkeys(run.method for run in self.runs))


def maximum(runs: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the curve of runs with disjoint users.

    >>> from dprl.privacy.accounting.curves import PureDP
    >>> maximum([PureDP(1.0), PureDP(0.5), PureDP(1.0)]).pure_epsilon
    1.0
    """
    distinct = tuple(dict.fromkeys(runs))
    return distinct[0] if len(distinct) == 1 else MaximumCurve(distinct)
