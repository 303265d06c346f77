"""Privacy curves: what a release proves at every (epsilon, delta), and what several prove together.

A curve is a frozen description, so a ledger can hold it, compare it and print it. Numbers are upper bounds, rounded up;
`exact` says whether a pair of neighbours attains the whole curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from dprl.privacy.accounting.closed_forms import composed_delta, composed_epsilon, gaussian_delta, gaussian_epsilon


class PrivacyCurve(Protocol):
    """What is proved about one user."""

    @property
    def exact(self) -> bool:
        """Whether some pair of neighbours attains it at every epsilon."""

    @property
    def pure_epsilon(self) -> float:
        """The epsilon at delta = 0; infinite if there is none."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`; infinite if none is known."""

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 if none is known."""

    @property
    def method(self) -> str:
        """How the numbers come about, for the certificate."""


@dataclass(frozen=True)
class Unbounded:
    """Something leaves as it is: no finite epsilon, delta 1."""

    exact: bool = True
    pure_epsilon: float = math.inf
    method: str = "a release without noise has no finite epsilon"

    def epsilon(self, delta: float) -> float:  # noqa: ARG002 - as every curve
        """Return infinity."""
        return math.inf

    def delta(self, epsilon: float) -> float:  # noqa: ARG002 - as every curve
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class RandomizedResponses:
    """n losses of at most epsilon_0 each that together lose at most `cap` (Lemma D; n * epsilon_0 if cap is left out).

    *Exact* for n integers that change by 1 each under discrete Laplace(1/epsilon_0) noise, and for n binary randomised
    responses; an upper bound for continuous Laplace noise, smaller changes and adaptive composition.
    """

    n: int
    epsilon_0: float
    cap: float = math.inf
    exact: bool = False

    @property
    def pure_epsilon(self) -> float:
        """The total loss."""
        return min(self.cap, self.n * self.epsilon_0)

    def epsilon(self, delta: float) -> float:
        """Return the smaller of the composition's epsilon and that of a single loss of all."""
        if delta <= 0.0:
            return self.pure_epsilon
        return min(composed_epsilon(delta, self.n, self.epsilon_0), composed_epsilon(delta, 1, self.pure_epsilon))

    def delta(self, epsilon: float) -> float:
        """Return the smaller of the composition's delta and that of a single loss of all."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        return min(composed_delta(epsilon, self.n, self.epsilon_0), composed_delta(epsilon, 1, self.pure_epsilon))

    @property
    def method(self) -> str:
        """How the numbers come about."""
        return f"composition of {self.n} randomised responses with epsilon_0 = {self.epsilon_0:.6g}"


@dataclass(frozen=True)
class GaussianLoss:
    """mu-GDP: the loss of a Gaussian release with mu = L2 sensitivity / sigma (Balle, Wang 2018), also adaptively."""

    mu: float
    exact: bool = False

    @property
    def pure_epsilon(self) -> float:
        """Infinite."""
        return math.inf

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of the Gaussian curve."""
        return math.inf if delta <= 0.0 else gaussian_epsilon(delta, self.mu)

    def delta(self, epsilon: float) -> float:
        """Return the exact delta of the Gaussian curve."""
        return gaussian_delta(epsilon, self.mu)

    @property
    def method(self) -> str:
        """How the numbers come about."""
        return f"Gaussian curve with mu = {self.mu:.6g}"
