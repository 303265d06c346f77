"""What the papers print and what is wrong with it, kept to be audited: no privatizer can be configured with any of it.

Each is the printed formula, and an entry with the claim that comes with it, what it really gives, and a probe or a
recording that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dprl.privacy.audits.findings import NOTHING_PROVED, Claim, Measurement, NoiseProof, ProbeProof, proof_of
from dprl.privacy.audits.page import Entry
from dprl.privacy.audits.probes_cells import NoisyCells
from dprl.privacy.audits.side_channels import Message, Recorder, measure_channels
from dprl.privacy.audits.two_worlds import Attack, Key, measure
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
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


def printed_bounded_laplace_distribution(x: Float64Array, scale: float, bound: float) -> Float64Array:
    """Return P(X <= x) of what `printed_bounded_laplace` draws: (2 - q - e^(-x/b)) / (2 (1 - q)), q = e^(-B/b).

    Paper: [TH23] eq. (74).
    """
    q = math.exp(-bound / scale)
    inside = np.clip(x, -scale * math.log(2.0 - q), bound)
    return np.asarray((2.0 - q - np.exp(-inside / scale)) / (2.0 * (1.0 - q)))


def printed_bounded_laplace_delta(change: float, scale: float, bound: float) -> float:
    """Return the exact delta, the same for every epsilon >= 0, of one number that changes by `change`.

    The outputs below the shifted left end have mass (2 - q) (1 - e^(-v/b)) / (2 (1 - q)); elsewhere that neighbour is
    the less likely one. `change` is at most the length of the support.
    """
    q = math.exp(-bound / scale)
    return (2.0 - q) * -math.expm1(-change / scale) / (2.0 * (1.0 - q))


@dataclass(frozen=True)
class PrintedBoundedLaplace:
    """One number with noise by `printed_bounded_laplace`: 0 in world 1, `change` in world 0."""

    scale: float
    bound: float
    change: float

    @property
    def description(self) -> str:
        """The configuration."""
        return f"one number that changes by {self.change:g}, b={self.scale:g}, B={self.bound:g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]; +-inf where only one world can print the number."""
        u = np.empty(runs)
        fill_uniform(u, key, np.uint64(0))
        y = printed_bounded_laplace(u, self.scale, self.bound) + (0.0 if world else self.change)
        left = -self.scale * math.log(2.0 - math.exp(-self.bound / self.scale))
        common = np.full(runs, -self.change / self.scale)
        return np.where(y < left + self.change, math.inf, np.where(y > self.bound, -math.inf, common))


@dataclass(frozen=True)
class PrintedRandomSign:
    """Projected random sign with the printed probability of +C, between projections that are +C and -C everywhere.

    P(+C) = 1 / (e^(epsilon/k) + 1) + (u + C) / (2C) (e^(epsilon/d) - 1) / (e^(epsilon/d) + 1), u clipped to [-C, C].
    The k is not defined; the mechanism is as private as claimed for k = d, the projected dimension, only.

    Args:
        epsilon: as claimed for the whole vector.
        dimension: d, bits a message.
        k: 1 <= k <= d.

    Paper: [OT20] eq. (24).
    """

    epsilon: float
    dimension: int
    k: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.dimension:
            raise ValueError(f"k must lie in 1..dimension, got {self.k}; beyond it there is no probability")

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
        """The exact loss of a message whose matrix is public."""
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
    def description(self) -> str:
        """The configuration."""
        return f"opposite projections, epsilon={self.epsilon:g}, d={self.dimension}, k={self.k}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios, float64[runs]."""
        u = np.empty((runs, self.dimension))
        fill_uniform(u.reshape(-1), key, np.uint64(0))
        plus = (u < self.probabilities[world]).sum(axis=1)
        gain, loss = self.losses
        return np.asarray(plus * gain + (self.dimension - plus) * loss)


def raw_weights(weights: Float64Array, surprise: float, features: Float64Array, step: float) -> Float64Array:
    """Return w + gamma (r - rbar) psi(s, a), float64[d]: what agents pass on, with no noise anywhere.

    Args:
        weights: w, float64[d].
        surprise: r - rbar, the reward less its estimate.
        features: psi(s, a), float64[d], of the visited state and the action taken.
        step: gamma.

    *Formal guarantee.* None: epsilon is infinite and delta is 1.

    Paper: [TH23] Algorithm 1.
    """
    # D6
    return np.asarray(weights + step * surprise * features)


def raw_score(ticks: int) -> float:
    """Return how long the pole stood, as the device reports it: a function of a private trajectory.

    *Formal guarantee.* None: epsilon is infinite and delta is 1. The paper assumes that scores are not private.

    Paper: [OT20] sec. 4.
    """
    # D5
    return float(ticks)


def _weights_of_two_users(world: int) -> Sequence[Message]:
    """One user after the other visits one of two states."""
    return [Message.of("weights", raw_weights(np.zeros(2), 1.0, np.eye(2)[world], 0.1))]


def _scores_of_two_users(world: int) -> Sequence[Message]:
    """One device balances the pole to the end of the episode, the other does not."""
    return [Message.of("score", raw_score((12, 200)[world]))]


def _bounded_laplace_sampler() -> Entry:
    probe = PrintedBoundedLaplace(scale=1.0, bound=30.0, change=0.1)
    delta = printed_bounded_laplace_delta(probe.change, probe.scale, probe.bound)
    claim, proof = Claim(0.1, source="[TH23]"), NoiseProof(math.inf, None, math.inf, delta)
    return Entry(
        "M4'",
        "bounded Laplace, eq. (78)",
        claim,
        lambda: proof,
        partial(measure, probe, claim, ProbeProof(math.inf, delta)),
        runs=10_000,
        note="inverts a distribution function that is wrong for x < 0: one-sided, whatever B is",
    )


def _bounded_laplace() -> Entry:
    claim, noise = Claim(0.1, source="[TH23]"), BoundedLaplace(1.0, 5.0)
    curve = noise.curve(Sensitivity.of_cells(1, 0.1))
    return Entry(
        "M4 B=5b",
        "bounded Laplace, B=5b",
        claim,
        partial(proof_of, curve, claim, exact=True),
        partial(measure, NoisyCells(noise, (0.1,), (0.0,), "one number, B=5b"), claim, ProbeProof.of(curve, claim)),
        runs=400_000,
        note="the neighbours' supports differ, so there is no pure epsilon",
    )


def _random_sign() -> Entry:
    probe, claim = PrintedRandomSign(epsilon=5.0, dimension=2, k=1), Claim(5.0, source="[OT20]")
    pure, delta = probe.pure_epsilon, probe.delta(5.0)
    proof = NoiseProof(pure, "exact", pure, delta)
    return Entry(
        "A2 k=1",
        "random sign, e^(eps/k), k=1",
        claim,
        lambda: proof,
        partial(measure, probe, claim, ProbeProof(pure, delta)),
        runs=400_000,
        note="k is not defined; only k = d is private as claimed",
    )


def _raw(name: str, printed: str, claim: Claim, recorder: Recorder, note: str) -> Entry:
    everything = NoiseProof(math.inf, None, math.inf, 1.0, raw=True)

    def played(_: Attack) -> Measurement:
        return measure_channels(recorder, claim, NOTHING_PROVED, printed)

    return Entry(name, printed, claim, lambda: everything, played, runs=1, note=note)


def specimens() -> list[Entry]:
    """Return the claims on what is here, in the order of the papers."""
    weights, nothing = "w + gamma (r - rbar) psi", Claim(math.inf, source="[OT20]")
    return [
        _random_sign(),
        _raw("A4", "raw score", nothing, _scores_of_two_users, "not private, says the paper; its loop uses it"),
        _raw("M0", weights, Claim(1.0, source="[TH23]"), _weights_of_two_users, "passed on without noise"),
        _bounded_laplace(),
        _bounded_laplace_sampler(),
    ]
