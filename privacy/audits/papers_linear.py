"""The claims of [TH23] on Gram matrices, after the clips that its proofs take for granted, and certified noise.

The examples are H = 5 stages with n = 2 agents of d = 2 features and n = 10 of 5. A neighbour changes a whole message;
sampling shows what one number of it already loses.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from dprl.privacy.accounting.closed_forms import gaussian_delta, gaussian_epsilon, gaussian_mu
from dprl.privacy.audits.findings import Claim, NoiseProof, ProbeProof
from dprl.privacy.audits.page import Entry, Measure
from dprl.privacy.audits.probes_cells import NoisyCells
from dprl.privacy.audits.two_worlds import Attack, measure
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import GramRelease, attaining_pair, l1_lower, l1_upper
from dprl.privacy.mechanisms.gram_gaussian import GramGaussian
from dprl.privacy.mechanisms.gram_laplace import GramLaplace
from dprl.privacy.mechanisms.gram_printed import (
    most_agents_of_printed_gaussian,
    printed_gaussian_sigma,
    printed_laplace_scale,
    printed_uniform_bound,
)
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.uniform import Uniform
from dprl.privacy.randomness.streams import Streams

EPSILON, DELTA, HORIZON = 1.0, 1e-5, 5
_SOURCE = "[TH23]"
_SMALL_DELTA = 1e-6
FIRST_STAGE_CHANGE = 2.0 * (HORIZON - 1) ** 2
"""How much one number of phi V changes at stage 1: from m^2 to -m^2, m = H - 1."""


def example(agents: int, features: int) -> GramRelease:
    """Return what `agents` agents of `features` features each send in an episode."""
    return GramRelease.of_horizon(HORIZON, agents * features, agents)


def changed_numbers(release: GramRelease) -> Float64Array:
    """Return by how much a pair of neighbours changes each number of an episode's messages: it nearly attains L1."""
    changes = []
    rows, columns = np.triu_indices(release.dimension)
    for m in release.bounds:
        phi, other = attaining_pair(release.dimension, m)
        gram = np.outer(phi, phi) - np.outer(other, other)
        changes += [np.abs(gram[rows, columns]), np.abs(phi - other) * m]
    return np.tile(np.concatenate(changes), release.n_messages)


def mass_outside(mechanism: Mechanism, changes: Float64Array) -> float:
    """Return how likely noise of bounded support shows which neighbour it was: 1 - prod_j (1 - mass outside of j)."""
    size, count = np.unique(np.round(changes[changes > 0.0], 9), return_counts=True)
    inside = [1.0 - mechanism.curve(Sensitivity.of_cells(1, v)).delta(math.inf) for v in size.tolist()]
    return float(-np.expm1(np.sum(count * np.log(inside))))


def _gaussian_mu(release: GramRelease, claim: Claim) -> float:
    sigma = printed_gaussian_sigma(HORIZON, claim.epsilon, claim.delta)
    return GramGaussian(release, (sigma,) * HORIZON).mu


def _gaussian_note(release: GramRelease, claim: Claim) -> str:
    """Return for how many agents the printed sigma is enough, and how many times the least one it is here."""
    most = most_agents_of_printed_gaussian(HORIZON, claim.epsilon, claim.delta)
    excess = gaussian_mu(claim.epsilon, claim.delta) / _gaussian_mu(release, claim)
    sigma = "sigma = 4H^3 sqrt(2 ln(2.5H/delta))/eps"
    return f"{sigma}; holds for n <= {most}, here with {excess:.1f} times the noise it needs"


def _gaussian(release: GramRelease, claim: Claim) -> NoiseProof:
    mu = _gaussian_mu(release, claim)
    return NoiseProof(math.inf, None, gaussian_epsilon(claim.delta, mu), gaussian_delta(claim.epsilon, mu))


def _laplace(release: GramRelease, claim: Claim) -> NoiseProof:
    noise = GramLaplace(release, (printed_laplace_scale(HORIZON, release.dimension, claim.epsilon),) * HORIZON)
    approximate = noise.curve()
    attained = noise.pure_epsilon * l1_lower(release.dimension) / l1_upper(release.dimension)
    at_claim = 0.0 if noise.pure_epsilon <= claim.epsilon else approximate.delta(claim.epsilon)
    small = min(noise.pure_epsilon, approximate.epsilon(_SMALL_DELTA))
    return NoiseProof(noise.pure_epsilon, "upper", small, at_claim, attained_epsilon=attained)


def _uniform(release: GramRelease, claim: Claim) -> NoiseProof:
    noise = Uniform(printed_uniform_bound(HORIZON, claim.delta))
    l1 = release.n_messages * release.power_sum(2) * l1_upper(release.dimension)
    attained = mass_outside(noise, changed_numbers(release))
    return NoiseProof(math.inf, None, math.inf, min(1.0, l1 / (2.0 * noise.bound)), attained_delta=attained)


def _bounded(release: GramRelease, multiple: float, claim: Claim) -> NoiseProof:
    scale = printed_laplace_scale(HORIZON, release.dimension, claim.epsilon)
    noise = BoundedLaplace(scale, multiple * scale)
    l1 = release.n_messages * release.power_sum(2) * l1_upper(release.dimension)
    attained = mass_outside(noise, changed_numbers(release))
    # No delta below one is proved where the log-ratio on the common support may exceed the claim.
    whole = Sensitivity(l1, l1, l1, 1)
    upper = noise.curve(whole).delta(claim.epsilon) if l1 <= scale * claim.epsilon else 1.0
    return NoiseProof(math.inf, None, math.inf, upper, attained_delta=attained)


def one_number(mechanism: Mechanism, claim: Claim, change: float = FIRST_STAGE_CHANGE) -> Measure:
    """Return the two-world attack on one number of a message."""
    probe = NoisyCells(mechanism, (change,), (0.0,), f"one number, changed by {change:.4g}")
    return partial(measure, probe, claim, ProbeProof.of(mechanism.curve(Sensitivity.of_cells(1, change)), claim))


def _gaussian_probe(release: GramRelease, claim: Claim, sigma: float) -> Measure:
    change, noise = math.sqrt(4.5 * release.n_messages * release.power_sum(4)), Gaussian(sigma)
    proved = ProbeProof.of(noise.curve(Sensitivity.of_cells(1, change)), claim)
    return partial(
        measure, NoisyCells(noise, (change,), (0.0,), "all messages along the worst direction"), claim, proved
    )


def linear_claims() -> list[Entry]:
    """Return the claims on noise for Gram matrices."""
    small, large = example(2, 2), example(10, 5)
    gaussian, pure = Claim(EPSILON, DELTA, _SOURCE), Claim(EPSILON, 0.0, _SOURCE)
    uniform = Claim(0.0, DELTA, _SOURCE)
    sigma, scale = printed_gaussian_sigma(HORIZON, EPSILON, DELTA), printed_laplace_scale(HORIZON, 4, EPSILON)
    bound = printed_uniform_bound(HORIZON, DELTA)
    return [
        Entry(
            "M1",
            "Gaussian, n=2 d=2",
            gaussian,
            partial(_gaussian, small, gaussian),
            _gaussian_probe(small, gaussian, sigma),
            note=_gaussian_note(small, gaussian),
        ),
        Entry("M2", "Laplace, n=2 d=2", pure, partial(_laplace, small, pure), note="b = 4H^3 sqrt(nd)/eps"),
        Entry(
            "M2 n=10",
            "Laplace, n=10 d=5",
            pure,
            partial(_laplace, large, pure),
            note="grows like n sqrt(nd); lives at a delta below 1e-9, which no sampling can show",
        ),
        Entry(
            "M3",
            "uniform, n=2 d=2",
            uniform,
            partial(_uniform, small, uniform),
            one_number(Uniform(bound), uniform),
            runs=20_000,
            note="a = 4H^3 sqrt(ln(2H/delta)); delta falls with 1/a only, and is the same at every epsilon",
        ),
        Entry(
            "M4",
            "bounded Laplace, B=b, n=d=2",
            pure,
            partial(_bounded, small, 1.0, pure),
            one_number(BoundedLaplace(scale, scale), pure),
            note="outputs near an end of one neighbour's range cannot come from the other, for every finite B",
        ),
    ]


def linear_controls() -> list[Entry]:
    """Return certified noise for one number of the same message: none of it may be refuted."""
    claim = Claim(EPSILON, DELTA, "certified")
    change = Sensitivity.of_cells(1, FIRST_STAGE_CHANGE)
    noise = BoundedLaplace.calibrated(EPSILON, DELTA, change)
    proof = NoiseProof(math.inf, None, EPSILON, noise.curve(change).delta(EPSILON))
    return [
        Entry(
            "M4 ok",
            f"truncated Laplace, B = {noise.bound / noise.scale:.4g} b",
            claim,
            lambda: proof,
            one_number(noise, claim),
        )
    ]


@dataclass(frozen=True)
class NumberCheck:
    """A printed number that is no guarantee, beside what sampling says of it.

    low, high: an interval that holds the true one with the stated confidence.
    """

    name: str
    subject: str
    source: str
    printed: float
    low: float
    high: float
    confidence: float
    runs: int

    @property
    def holds(self) -> bool:
        """Whether the printed number lies in the interval."""
        return self.low <= self.printed <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON-ready data."""
        return {**asdict(self), "holds": self.holds}


def variance_check(attack: Attack) -> NumberCheck:
    """Return [TH23]'s variance of bounded Laplace noise at B = 3b, b = 1, against `attack.runs` draws (Hoeffding)."""
    noise = BoundedLaplace(1.0, 3.0)
    q = math.exp(-noise.bound)
    printed = 2.0 / (1.0 - q) - ((noise.bound + 1.0) ** 2 + 1.0) * q / (1.0 - q)
    draws = np.empty(attack.runs)
    fill_noise(draws, noise.noise(Streams(attack.seed, "audit|variance").key("user_noise")), np.uint64(0))
    half = noise.bound**2 * math.sqrt(math.log(2.0 / attack.alpha) / (2.0 * attack.runs))
    mean = float(np.mean(draws**2))
    subject = "variance of bounded Laplace, B = 3b"
    return NumberCheck("M5", subject, _SOURCE, printed, mean - half, mean + half, 1.0 - attack.alpha, attack.runs)
