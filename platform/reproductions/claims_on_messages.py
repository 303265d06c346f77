"""Claims of [OT20] on gradients and of [TH23] on Gram matrices as data, with refuted formulas and certified noise.

[OT20]: a message of 8 numbers. [TH23]: H = 5 stages, after the clips that its proofs take for granted, with n = 2
agents of d = 2 features and n = 10 of 5. A neighbour changes a whole message; sampling shows the loss of one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from dprl.platform.reports.audits import NumberCheck
from dprl.platform.reproductions.refuted_formulas import (
    PrintedBoundedLaplace,
    PrintedRandomSign,
    printed_bounded_laplace_delta,
    raw_score,
    raw_weights,
)
from dprl.privacy import StatisticsLayout, StatisticsPrivacy
from dprl.privacy.accounting.closed_forms import RandomizedResponses, gaussian_mu
from dprl.privacy.audits.distinguishing_attack import attacked, measure
from dprl.privacy.audits.findings import (
    NOTHING_PROVED,
    Attack,
    Claim,
    Finding,
    Measurement,
    NoiseProof,
    proof_of,
)
from dprl.privacy.audits.message_probes import clipped_gradients, noisy_cells, privunit_gradients, sign_gradients
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import (
    JOINT_L2_SQUARED,
    Gram,
    GramBoundedLaplace,
    GramGaussian,
    GramLaplace,
    GramRelease,
    GramUniform,
    attaining_pair,
    l1_upper,
    printed_gaussian_sigma,
)
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import ClippedLaplace
from dprl.privacy.randomness.streams import Streams

EPSILON, DELTA, HORIZON = 1.0, 1e-5, 5
_CLIP, _NUMBERS, _SUBMISSIONS = 0.01, 8, 10
_REWARD_FEATURES = 3
_BOUNDED = GramBoundedLaplace.name
_FIRST_STAGE_CHANGE = 2.0 * (HORIZON - 1) ** 2
"""Change of one number of phi V at stage 1: from m^2 to -m^2, m = H - 1."""


def gradient_claims() -> list[Finding]:
    """Return the claims on messages of PGC-A3C."""
    claim, large, nothing = (Claim(epsilon, source="[OT20]") for epsilon in (EPSILON, 5.0, math.inf))
    laplace = ClippedLaplace.calibrated(EPSILON, 0.0, _NUMBERS, _CLIP)
    signs = ProjectedRandomSign.calibrated(large.epsilon, 0.0, _NUMBERS, _CLIP)
    each = Laplace(_CLIP * _SUBMISSIONS / EPSILON)
    ones, zeros = (_CLIP / 2,) * _SUBMISSIONS, (-_CLIP / 2,) * _SUBMISSIONS
    submissions = noisy_cells(each, ones, zeros, f"{_SUBMISSIONS} submissions of +-C/2 e_1")
    composed = RandomizedResponses(_SUBMISSIONS, _CLIP / each.scale)
    printed = PrintedRandomSign(epsilon=5.0, dimension=2, k=1)
    literal = NoiseProof(printed.pure_epsilon, "exact", printed.pure_epsilon, printed.delta(5.0))
    case = attacked
    told = f"{_SUBMISSIONS} submissions at eps/{_SUBMISSIONS}"
    return [
        replace(
            case("A1", "clip C/2, Lap(C/eps)", claim, laplace.curve(), clipped_gradients(laplace)),
            note="for the message's content; not for scores, timing and order",
        ),
        case("A2", "random sign, eps/d_hat each", large, signs.curve(), sign_gradients(signs)),
        replace(case("A3", told, claim, composed, submissions), note="if T is a fixed cap that the ledger enforces"),
        Finding(
            "A2 k=1",
            "random sign, e^(eps/k), k=1",
            large,
            literal,
            attack=partial(measure, printed.probe, large, literal),
            runs=400_000,
            note="k is not defined; only k = d is private as claimed",
        ),
        _raw(
            "A4",
            "raw score",
            nothing,
            # One device balances the pole to the end of the episode, the other does not.
            "score",
            lambda world: raw_score((12, 200)[world]),
            "not private, says the paper; its loop uses it",
        ),
    ]


def _raw(name: str, printed: str, claim: Claim, content: str, sent: Callable[[int], ArrayLike], note: str) -> Finding:
    """Return the claim on a message without noise, which differs between two worlds with certainty."""

    def compared(**_: object) -> Measurement:
        differ = not np.array_equal(sent(0), sent(1))
        told = f"{printed}: {content}: {'not ' * differ}the same"
        bounds = (math.inf, 1.0) if differ else (0.0, 0.0)
        return Measurement("same seeds", told, claim, NOTHING_PROVED, *bounds, confidence=1.0, runs=1)

    everything = NoiseProof(math.inf, None, math.inf, 1.0, raw=True)
    return Finding(name, printed, claim, everything, attack=compared, runs=1, note=note)


def gram_claims() -> list[Finding]:
    """Return the claims on noise for Gram matrices."""
    gaussian, pure, uniform = (Claim(*claim, "[TH23]") for claim in ((EPSILON, DELTA), (EPSILON, 0.0), (0.0, DELTA)))
    flat = gram_noise(GramUniform.name, 2, 2)
    normal = cast(GramGaussian, gram_noise(GramGaussian.name, 2, 2))
    # In each world the user visits another one of two states.
    states, claim = np.eye(2), Claim(1.0, source="[TH23]")
    return [
        _raw(
            "M0",
            "w + gamma (r - rbar) psi",
            claim,
            "weights",
            lambda world: raw_weights(np.zeros(2), 1.0, states[world], 0.1),
            "passed on without noise",
        ),
        Finding(
            "M1",
            "Gaussian, n=2 d=2",
            gaussian,
            gram_proof(normal, gaussian),
            attack=_gaussian_attack(normal, gaussian),
            note=_gaussian_note(normal, gaussian),
        ),
        Finding(
            "M2",
            "Laplace, n=2 d=2",
            pure,
            gram_proof(gram_noise(GramLaplace.name, 2, 2), pure),
            note="b = 4H^3 sqrt(nd)/eps",
        ),
        Finding(
            "M2 n=10",
            "Laplace, n=10 d=5",
            pure,
            gram_proof(gram_noise(GramLaplace.name, 10, 5), pure),
            note="grows like n sqrt(nd); lives at a delta below 1e-9, which no sampling can show",
        ),
        Finding(
            "M3",
            "uniform, n=2 d=2",
            uniform,
            gram_proof(flat, uniform),
            attack=_one_number(flat.stage_mechanisms(1)[0], uniform),
            runs=20_000,
            note="a = 4H^3 sqrt(ln(2H/delta)); delta falls with 1/a only, and is the same at every epsilon",
        ),
        *_bounded_claims(pure),
    ]


def _bounded_claims(pure: Claim) -> list[Finding]:
    """Return the claims on bounded Laplace noise."""
    tenth, bounded, narrow = Claim(0.1, source="[TH23]"), BoundedLaplace(1.0, 5.0), gram_noise(_BOUNDED, 2, 2)
    printed = PrintedBoundedLaplace(scale=1.0, bound=30.0, change=0.1)
    outside = printed_bounded_laplace_delta(printed.change, printed.scale, printed.bound)
    proof = NoiseProof(math.inf, None, math.inf, outside)
    five = "one number, B=5b"
    return [
        Finding(
            "M4",
            "bounded Laplace, B=b, n=d=2",
            pure,
            gram_proof(narrow, pure),
            attack=_one_number(narrow.stage_mechanisms(1)[0], pure),
            note="outputs near an end of one neighbour's range cannot come from the other, for every finite B",
        ),
        replace(
            attacked(
                "M4 B=5b",
                "bounded Laplace, B=5b",
                tenth,
                bounded.curve(Sensitivity.of_cells(1, 0.1)),
                noisy_cells(bounded, (0.1,), (0.0,), five),
            ),
            runs=400_000,
            note="the neighbours' supports differ, so there is no pure epsilon",
        ),
        Finding(
            "M4'",
            "bounded Laplace, eq. (78)",
            tenth,
            proof,
            attack=partial(measure, printed.probe, tenth, proof),
            runs=10_000,
            note="inverts a distribution function that is wrong for x < 0: one-sided, whatever B is",
        ),
    ]


def changed_numbers(release: GramRelease) -> Float64Array:
    """Return the changes between two neighbours of all numbers of an episode's messages; they nearly attain L1."""
    changes = []
    rows, columns = np.triu_indices(release.dimension)
    for m in release.bounds:
        phi, other = attaining_pair(release.dimension, m)
        gram = np.outer(phi, phi) - np.outer(other, other)
        changes += [np.abs(gram[rows, columns]), np.abs(phi - other) * m]
    return np.tile(np.concatenate(changes), release.n_messages)


def mass_outside(mechanism: Mechanism, changes: Float64Array) -> float:
    """Return the probability that bounded noise identifies the neighbour: 1 - prod_j (1 - mass outside of j)."""
    size, count = np.unique(np.round(changes[changes > 0.0], 9), return_counts=True)
    inside = [1.0 - mechanism.curve(Sensitivity.of_cells(1, v)).delta(math.inf) for v in size.tolist()]
    return float(-np.expm1(np.sum(count * np.log(inside))))


def gram_noise(mechanism: str, agents: int, features: int, epsilon: float = EPSILON, ratio: float = 1.0) -> Gram:
    """Return noise of the printed scale after the clips, for agents with `features` features each and known rewards.

    ratio: B / b of bounded Laplace noise.
    """
    layout = StatisticsLayout(HORIZON, agents * features, agents, agents, _REWARD_FEATURES)
    delta = DELTA if mechanism in (GramGaussian.name, GramUniform.name) else 0.0
    settings = {"calibration": "printed", "clipping": "device", "rewards": "public", "bound_ratio": ratio}
    config = StatisticsPrivacy("ldp", epsilon, delta, mechanism=mechanism, **settings)  # type: ignore[arg-type]
    return cast(Gram, config.build(layout, 1, Streams(0, "printed noise")).query.law)


def l1_lower(dimension: int) -> float:
    """Return c_lo: the L1 distance, in units of m^2, of the pair that `attaining_pair` returns, V = m."""
    if dimension == 1:
        return 2.0
    d = dimension - dimension % 2
    return (d + 1) / math.sqrt(2.0) + math.sqrt(2.0 * d) * math.cos(math.pi / 8.0)


def most_agents_of_printed_gaussian(horizon: int, epsilon: float, delta: float) -> int:
    """Return the largest n for which the printed sigma is (epsilon, delta)-LDP, m_h = H - h; [TH23] has no limit."""
    per_agent = JOINT_L2_SQUARED * math.fsum(m**4 for m in range(1, horizon))
    largest = gaussian_mu(epsilon, delta) * printed_gaussian_sigma(horizon, epsilon, delta)
    return math.floor(largest**2 / per_agent)


def gram_proof(noise: Gram, claim: Claim) -> NoiseProof:
    """Return the guarantee of noise, and that attained by a pair of neighbours with nearly the largest L1 distance."""
    found, d = proof_of(noise.curve(), claim, exact=False), noise.release.dimension
    if isinstance(noise, GramLaplace):
        return replace(found, attained_epsilon=found.pure_epsilon * l1_lower(d) / l1_upper(d))
    if isinstance(noise, GramUniform | GramBoundedLaplace):
        attained = mass_outside(noise.stage_mechanisms(1)[0], changed_numbers(noise.release))
        return replace(found, attained_delta=attained)
    return found


def _gaussian_note(noise: GramGaussian, claim: Claim) -> str:
    """Return the number of agents for which the printed sigma suffices, and its ratio to the required one here."""
    most = most_agents_of_printed_gaussian(HORIZON, claim.epsilon, claim.delta)
    excess = gaussian_mu(claim.epsilon, claim.delta) / noise.mu
    sigma = "sigma = 4H^3 sqrt(2 ln(2.5H/delta))/eps"
    return f"{sigma}; holds for n <= {most}, here with {excess:.1f} times the noise it needs"


def _one_number(mechanism: Mechanism, claim: Claim) -> Attack:
    """Return the attack on one number of a message at stage 1."""
    return _attack(mechanism, _FIRST_STAGE_CHANGE, claim, f"one number, changed by {_FIRST_STAGE_CHANGE:.4g}")


def _attack(mechanism: Mechanism, change: float, claim: Claim, label: str) -> Attack:
    probe = noisy_cells(mechanism, (change,), (0.0,), label)
    return partial(measure, probe, claim, proof_of(mechanism.curve(Sensitivity.of_cells(1, change)), claim))


def _gaussian_attack(noise: GramGaussian, claim: Claim) -> Attack:
    sigma = noise.scales[0]
    return _attack(Gaussian(sigma), noise.mu * sigma, claim, "all messages along the worst direction")


def message_controls() -> list[Finding]:
    """Return certified noise for the same messages: none of it may be refuted."""
    pure, claim = Claim(EPSILON, source="certified"), Claim(EPSILON, DELTA, "certified")
    unit, change = PrivUnit.calibrated(EPSILON, 0.0, _NUMBERS), Sensitivity.of_cells(1, _FIRST_STAGE_CHANGE)
    scale = change.l1 / EPSILON
    noise = BoundedLaplace(scale, scale * math.log1p(math.expm1(EPSILON) / (2.0 * DELTA)))
    proof = NoiseProof(math.inf, None, EPSILON, noise.curve(change).delta(EPSILON))
    subject = f"truncated Laplace, B = {noise.bound / noise.scale:.4g} b"
    return [
        attacked("A2 ok", "gradient, PrivUnit", pure, unit.curve(), privunit_gradients(unit)),
        Finding("M4 ok", subject, claim, proof, attack=_one_number(noise, claim)),
    ]


def variance_check(runs: int, seed: int, alpha: float) -> NumberCheck:
    """Return [TH23]'s variance of bounded Laplace noise at B = 3b, b = 1, against `runs` draws (Hoeffding)."""
    noise = BoundedLaplace(1.0, 3.0)
    q = math.exp(-noise.bound)
    printed = 2.0 / (1.0 - q) - ((noise.bound + 1.0) ** 2 + 1.0) * q / (1.0 - q)
    draws = np.empty(runs)
    fill_noise(draws, noise.noise(Streams(seed, "audit|variance").key("user_noise")), np.uint64(0))
    half = noise.bound**2 * math.sqrt(math.log(2.0 / alpha) / (2.0 * runs))
    mean, subject = float(np.mean(draws**2)), "variance of bounded Laplace, B = 3b"
    return NumberCheck("M5", subject, "[TH23]", printed, mean - half, mean + half, 1.0 - alpha, runs)
