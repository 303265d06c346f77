"""What the papers print and what is wrong with it, kept to be audited: no privatizer can be configured with any of it.

Each specimen is the printed formula, the claim that comes with it, what it really gives, and a probe or a recording
that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dprl.privacy.audits.findings import Claim, Measurement, Proof
from dprl.privacy.audits.page import Entry
from dprl.privacy.audits.probes_cells import NoisyCells
from dprl.privacy.audits.side_channels import Message, Recorder, measure_channels
from dprl.privacy.audits.two_worlds import Attack, Key, Probe, measure
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.uniform import Uniform
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


def inverted_tree_scale(horizon: int, episodes: int, epsilon: float) -> float:
    """Return epsilon / (3 H log K): the noise Lap(1/epsilon') with epsilon' = 3 H log K / epsilon, as printed.

    Paper: [CZ22] Lemma 3.
    """
    # D1
    return epsilon / (3.0 * horizon * math.log(episodes))


def inverted_report_scale(horizon: int, epsilon: float) -> float:
    """Return epsilon / (3 H): the noise Lap(1/epsilon') with epsilon' = 3 H / epsilon, as printed.

    Paper: [CZ22] Lemma 4.
    """
    # D2
    return epsilon / (3.0 * horizon)


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


@dataclass(frozen=True)
class Specimen:
    """A printed formula to be audited.

    Args:
        name: short; the row of the papers' table.
        printed: the formula, in a line.
        claim: what the paper says it gives, at the probe.
        proof: what it gives, at the probe.
        source: a probe whose releases are scored, or a recording of what leaves the user's side.
        runs: per world, that show it; a recording is played once, whatever they are.
        note: what is wrong.
    """

    name: str
    printed: str
    claim: Claim
    proof: Proof
    source: Probe | Recorder
    runs: int
    note: str

    def measure(self, attack: Attack) -> Measurement:
        """Return what an audit finds."""
        if callable(self.source):
            return measure_channels(self.source, self.claim, self.printed)
        return measure(self.source, self.claim, self.proof.epsilon, attack)

    def entry(self) -> Entry:
        """Return the specimen as a line of an audited page."""
        prove = partial(_itself, self.proof)
        return Entry(self.name, self.printed, self.claim, prove, self.measure, self.runs, self.note)


def _itself(proof: Proof) -> Proof:
    return proof


def _bounded_laplace_sampler() -> Specimen:
    probe = PrintedBoundedLaplace(scale=1.0, bound=30.0, change=0.1)
    delta = printed_bounded_laplace_delta(probe.change, probe.scale, probe.bound)
    return Specimen(
        "M4'",
        "-b ln(2 - e^(-B/b) - 2u(1 - e^(-B/b)))",
        Claim(0.1, source="[TH23]"),
        Proof(math.inf, "exact", math.inf, delta),
        probe,
        10_000,
        "inverts a distribution function that is wrong for x < 0: one-sided, whatever B is",
    )


def _bounded_laplace(bound: float, runs: int) -> Specimen:
    noise, one = BoundedLaplace(1.0, bound), Sensitivity.of_cells(1, 0.1)
    return Specimen(
        f"M4 B={bound:g}b",
        "bounded Laplace noise, b = L1/eps, any B",
        Claim(0.1, source="[TH23]"),
        Proof(math.inf, "exact", math.inf, noise.curve(one).delta(0.1)),
        NoisyCells(noise, (0.1,), (0.0,), f"one number, B={bound:g}b"),
        runs,
        "the neighbours' supports differ, so there is no pure epsilon",
    )


def _uniform() -> Specimen:
    horizon, delta = 5, 1e-5
    noise = Uniform(4.0 * horizon**3 * math.sqrt(math.log(2.0 * horizon / delta)))
    # u of stage 1 is phi V with norms up to H - 1: one coordinate changes by 2 (H - 1)^2.
    change = 2.0 * (horizon - 1) ** 2
    return Specimen(
        "M3",
        "uniform noise, a = 4H^3 sqrt(ln(2H/delta))",
        Claim(0.0, delta, "[TH23]"),
        Proof(math.inf, "exact", math.inf, noise.curve(Sensitivity.of_cells(1, change)).delta(0.0)),
        NoisyCells(noise, (change,), (0.0,), f"H={horizon}, one coordinate of stage 1"),
        20_000,
        "delta is l1/(2a): the bound has to grow with 1/delta",
    )


def _inverted(name: str, printed: str, scale: float) -> Specimen:
    noise, claim = Laplace(scale), Claim(1.0, source="[CZ22]")
    curve = noise.curve(Sensitivity.of_cells(1))
    return Specimen(
        name,
        printed,
        claim,
        Proof(curve.pure_epsilon, "exact", curve.epsilon(0.0), curve.delta(claim.epsilon)),
        NoisyCells(noise, (1.0,), (0.0,), "one cell, H=5, K=1000"),
        10_000,
        "the scale is printed upside down; one cell of many",
    )


def _random_sign() -> Specimen:
    probe = PrintedRandomSign(epsilon=5.0, dimension=2, k=1)
    return Specimen(
        "A2 k=1",
        "random sign with e^(eps/k), k = 1",
        Claim(5.0, source="[OT20]"),
        Proof(probe.pure_epsilon, "exact", probe.pure_epsilon, probe.delta(5.0)),
        probe,
        400_000,
        "k is not defined; only k = d is private as claimed",
    )


def _raw(name: str, printed: str, source: str, recorder: Recorder, note: str) -> Specimen:
    everything = Proof(math.inf, "exact", math.inf, 1.0)
    return Specimen(name, printed, Claim(1.0, source=source), everything, recorder, 2, note)


def specimens() -> tuple[Specimen, ...]:
    """Return all of them, in the order of the papers."""
    return (
        _inverted("C2'", "Lap(eps/(3H log K))", inverted_tree_scale(5, 1000, 1.0)),
        _inverted("L2'", "Lap(eps/(3H))", inverted_report_scale(5, 1.0)),
        _random_sign(),
        _raw(
            "A4", "raw score", "[OT20]", _scores_of_two_users, "excluded from the paper's claim, and used by its loop"
        ),
        _raw("M0", "w + gamma (r - rbar) psi", "[TH23]", _weights_of_two_users, "passed on without noise"),
        _uniform(),
        _bounded_laplace(1.0, 100_000),
        _bounded_laplace(5.0, 400_000),
        _bounded_laplace_sampler(),
    )
