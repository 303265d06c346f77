"""Distinguishing attacks: lower bounds on epsilon and delta from the outputs of a sampler for two neighbours.

A probe draws releases in both worlds and scores them; a larger score makes world 1 more likely. The two-world method
chooses a threshold on some runs; the frequencies with which fresh runs of both worlds reach it bound epsilon and delta
from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.closed_forms import PrivacyCurve
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof, ProbeProof, proof_of
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.streams import Streams

Key = npt.NDArray[np.uint64]

_TWO_WORLDS = "two worlds"
_CHUNK = 1 << 16
_THRESHOLDS = 400
_ALPHA = 0.05
# A plateau of the likelihood ratio is one value in real arithmetic. In float64 its last bits distinguish the worlds,
# which is a separate finding (message_probes.floating_point_event), and not one about the scale.
_DIGITS = 9


class Probe(Protocol):
    """Two neighbouring inputs of one randomized release."""

    @property
    def description(self) -> str:
        """The configuration, in a few words."""

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the evidence for world 1 of each of `runs` independent releases of world 0 or 1, float64[runs]."""


@dataclass(frozen=True)
class Attack:
    """Settings of a two-world audit.

    Args:
        runs: per world, for the bound; half as many further runs choose the threshold.
        seed: of all draws.
        alpha: one minus the joint confidence of the bounds.
    """

    runs: int = 100_000
    seed: int = 0
    alpha: float = _ALPHA

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"runs must be at least 1, got {self.runs}; ask for e.g. 100000")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie in (0, 1), got {self.alpha}; ask for e.g. 0.05")


def measure(probe: Probe, claim: Claim, proved: ProbeProof, attack: Attack) -> Measurement:
    """Return lower bounds on epsilon (at the claimed delta) and delta (at the claimed epsilon) of `probe`.

    Both hold with probability 1 - alpha: each of the two probabilities is bounded at alpha / 2, on runs that had no
    part in choosing the event. Deterministic in (probe, attack).

    Paper: Jagielski, Ullman, Oprea 2020, Theorem 1.
    """
    pilot = max(1, attack.runs // 2)
    threshold = _best_threshold(
        draw(probe, 1, pilot, attack.seed, "pilot"), draw(probe, 0, pilot, attack.seed, "pilot"), claim, attack.alpha
    )
    hits = [int((draw(probe, world, attack.runs, attack.seed, "test") >= threshold).sum()) for world in (0, 1)]
    likely = clopper_pearson_lower(hits[1], attack.runs, attack.alpha / 2)
    unlikely = clopper_pearson_upper(hits[0], attack.runs, attack.alpha / 2)
    return Measurement(
        method=_TWO_WORLDS,
        probe=probe.description,
        claim=claim,
        proved=proved,
        epsilon_lb=epsilon_lower_bound(likely, unlikely, claim.delta),
        delta_lb=delta_lower_bound(likely, unlikely, claim.epsilon),
        confidence=1.0 - attack.alpha,
        runs=attack.runs,
        largest_epsilon_lb=largest_epsilon_bound(attack.runs, attack.alpha / 2, claim.delta),
    )


def draw(probe: Probe, world: int, runs: int, seed: int, part: str) -> Float64Array:
    """Return the rounded scores of `runs` independent releases, float64[runs]; every chunk has a separate key."""
    scores = np.empty(runs)
    for start in range(0, runs, _CHUNK):
        key = Streams(seed, f"audit|{probe.description}|{part}|{world}|{start}").key("user_noise")
        stop = min(start + _CHUNK, runs)
        scores[start:stop] = probe.scores(world, stop - start, key)
    return np.round(scores, _DIGITS)


def _best_threshold(scores_1: Float64Array, scores_0: Float64Array, claim: Claim, alpha: float) -> float:
    """Return the threshold that would give the largest epsilon bound on these runs."""
    ones, zeros = np.sort(scores_1), np.sort(scores_0)
    pooled = np.concatenate([ones, zeros])
    pooled.sort()
    # Densest for rare events, which have large likelihood ratios.
    ranks = pooled.shape[0] - np.geomspace(1, pooled.shape[0], _THRESHOLDS).astype(np.int64)
    candidates = np.unique(pooled[ranks])
    best, chosen = -1.0, float(candidates[-1])
    for threshold in candidates:
        hits = [int(side.shape[0] - np.searchsorted(side, threshold, "left")) for side in (ones, zeros)]
        likely = clopper_pearson_lower(hits[0], ones.shape[0], alpha / 2)
        unlikely = clopper_pearson_upper(hits[1], zeros.shape[0], alpha / 2)
        bound = epsilon_lower_bound(likely, unlikely, claim.delta)
        if bound > best:
            best, chosen = bound, float(threshold)
    return chosen


Measure = Callable[[Attack], Measurement]


@dataclass(frozen=True)
class AuditCase:
    """Claim to be audited.

    Args:
        name: short, unique on its page.
        subject: the mechanism and its noise, in a line.
        claim: under audit.
        prove: computes the guarantee of the noise.
        measure: runs the sampler; None if sampling cannot show anything in reasonable time.
        runs: per world.
        note: further facts for a reader.
    """

    name: str
    subject: str
    claim: Claim
    prove: Callable[[], NoiseProof]
    measure: Measure | None = None
    runs: int = 100_000
    note: str = ""

    @classmethod
    def of_curve(
        cls, name: str, subject: str, claim: Claim, curve: PrivacyCurve, probe: Probe, *, exact: bool = True
    ) -> AuditCase:
        """Return the case of noise with this curve, attacked at a probe with the same curve.

        exact: whether a pair of neighbours attains the curve.
        """
        attack = partial(measure, probe, claim, ProbeProof.of(curve, claim))
        return cls(name, subject, claim, partial(proof_of, curve, claim, exact), attack)

    def audit(self, attack: Attack) -> Finding:
        """Return the finding; the case's `runs` replace those of `attack`."""
        measured = None if self.measure is None else self.measure(replace(attack, runs=self.runs))
        return Finding(self.name, self.subject, self.claim, self.prove(), measured, self.note)


def audit_page(cases: Iterable[AuditCase], seed: int = 0, alpha: float = 0.05) -> list[Finding]:
    """Return all findings; all measured bounds hold together with probability 1 - alpha."""
    page = list(cases)
    sampled = sum(case.measure is not None for case in page)
    attack = Attack(seed=seed, alpha=alpha / max(1, sampled))
    return [case.audit(attack) for case in page]


def clopper_pearson_lower(successes: int, runs: int, alpha: float) -> float:
    """Return p with P(p > true probability) <= alpha, from `successes` of `runs` independent trials.

    Paper: Clopper, Pearson 1934.
    """
    return 0.0 if successes <= 0 else float(scipy.special.betaincinv(successes, runs - successes + 1, alpha))


def clopper_pearson_upper(successes: int, runs: int, alpha: float) -> float:
    """Return p with P(p < true probability) <= alpha, from `successes` of `runs` independent trials.

    Paper: Clopper, Pearson 1934.
    """
    return 1.0 if successes >= runs else float(scipy.special.betainccinv(successes + 1, runs - successes, alpha))


def epsilon_lower_bound(likely: float, unlikely: float, delta: float) -> float:
    """Return an epsilon >= 0 below which no (epsilon, delta)-DP mechanism has an event of these probabilities.

    likely: lower bound on its probability in one world; unlikely: upper bound on its probability in the other.
    """
    return max(0.0, math.log((likely - delta) / unlikely)) if likely > delta else 0.0


def delta_lower_bound(likely: float, unlikely: float, epsilon: float) -> float:
    """Return a delta below which no (epsilon, delta)-DP mechanism has an event of these probabilities."""
    if math.log(unlikely) + epsilon >= 0.0:
        return 0.0
    return max(0.0, likely - math.exp(epsilon) * unlikely)


def largest_epsilon_bound(runs: int, alpha: float, delta: float) -> float:
    """Return the epsilon_lower_bound of an event that all of `runs` runs have in one world and none in the other.

    No larger bound can be shown by that many runs. alpha: failure probability of each probability's bound.
    """
    likely, unlikely = clopper_pearson_lower(runs, runs, alpha), clopper_pearson_upper(0, runs, alpha)
    return epsilon_lower_bound(likely, unlikely, delta)
