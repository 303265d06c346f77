"""Refuted formulas of the papers, kept to be audited: no privatizer can be configured with any of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprl.privacy.audits.distinguishing_attack import Key, Probe
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.bits import fill_uniform


def printed_bounded_laplace(u: Float64Array, scale: float, bound: float) -> Float64Array:
    """Return x = -b ln(2 - e^(-B/b) - 2u (1 - e^(-B/b))), float64 as `u` in [0, 1): "bounded Laplace" as printed.

    It inverts a distribution function that holds for x >= 0 only. The argument of the logarithm is uniform on
    [e^(-B/b), 2 - e^(-B/b)], so x is an exponential law cut to [-b ln(2 - e^(-B/b)), B]: not symmetric, not centred,
    and with a jump of its density at the left end however large B is.

    *Formal guarantee.* None at any epsilon with a delta below 1 - e^(-v/b) for one number that changes by v.

    Paper: [TH23] eq. (78).
    """
    q = math.exp(-bound / scale)
    # D12
    return np.asarray(-scale * np.log(2.0 - q - 2.0 * u * (1.0 - q)))


def printed_bounded_laplace_delta(change: float, scale: float, bound: float) -> float:
    """Return the exact delta, the same for every epsilon >= 0, of one number that changes by `change`.

    The outputs below the shifted left end have mass (2 - q) (1 - e^(-v/b)) / (2 (1 - q)); elsewhere that neighbour is
    the less likely one. `change` is at most the length of the support.
    """
    q = math.exp(-bound / scale)
    return (2.0 - q) * -math.expm1(-change / scale) / (2.0 * (1.0 - q))


def printed_bounded_laplace_probe(scale: float, bound: float, change: float) -> Probe:
    """Return the attack on one number with noise by `printed_bounded_laplace`: 0 in world 1, `change` in world 0.

    Its scores are log likelihood ratios, float64[runs]; +-inf where only one world can print the number.
    """

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        u = np.empty(runs)
        fill_uniform(u, key, np.uint64(0))
        y = printed_bounded_laplace(u, scale, bound) + (0.0 if world else change)
        left = -scale * math.log(2.0 - math.exp(-bound / scale))
        common = np.full(runs, -change / scale)
        return np.where(y < left + change, math.inf, np.where(y > bound, -math.inf, common))

    return Probe(f"one number that changes by {change:g}, b={scale:g}, B={bound:g}", scores)


@dataclass(frozen=True)
class PrintedRandomSign:
    """Projected random sign with the printed probability of +C, between projections that are +C and -C everywhere.

    P(+C) = 1 / (e^(epsilon/k) + 1) + (u + C) / (2C) (e^(epsilon/d) - 1) / (e^(epsilon/d) + 1), u clipped to [-C, C].
    The k is not defined; the mechanism is as private as claimed for k = d, the projected dimension, only.

    Args:
        epsilon: as claimed for the whole vector.
        dimension: d, bits a message.
        k: 1 <= k <= d; beyond it there is no probability.

    Paper: [OT20] eq. (24).
    """

    epsilon: float
    dimension: int
    k: int

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(+C) at u = -C and at u = C."""
        # D4
        base = 1.0 / (math.exp(self.epsilon / self.k) + 1.0)
        return base, base + math.tanh(self.epsilon / self.dimension / 2.0)

    @property
    def losses(self) -> tuple[float, float]:
        """The log likelihood ratio of a bit +C, and of a bit -C."""
        low, high = self.probabilities
        return math.log(high / low), math.log((1.0 - high) / (1.0 - low))

    @property
    def pure_epsilon(self) -> float:
        """The exact loss of a message with a public matrix."""
        return self.dimension * max(abs(loss) for loss in self.losses)

    def delta(self, epsilon: float) -> float:
        """Return the exact delta between the two projections, the larger of both directions."""
        low, high = self.probabilities
        plus = np.arange(self.dimension + 1)
        ways = np.array([math.comb(self.dimension, i) for i in plus], dtype=np.float64)
        of = [ways * p**plus * (1.0 - p) ** (self.dimension - plus) for p in (low, high)]
        gaps = (of[1] - math.exp(epsilon) * of[0], of[0] - math.exp(epsilon) * of[1])
        return max(float(np.maximum(gap, 0.0).sum()) for gap in gaps)

    @property
    def probe(self) -> Probe:
        """The attack on it."""
        return Probe(f"opposite projections, epsilon={self.epsilon:g}, d={self.dimension}, k={self.k}", self._scores)

    def _scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]."""
        u = np.empty((runs, self.dimension))
        fill_uniform(u.reshape(-1), key, np.uint64(0))
        plus = (u < self.probabilities[world]).sum(axis=1)
        gain, loss = self.losses
        return np.asarray(plus * gain + (self.dimension - plus) * loss)
