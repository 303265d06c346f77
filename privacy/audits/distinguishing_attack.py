"""Distinguishing attacks: lower bounds on epsilon and delta from the outputs of a sampler for two neighbours.

A probe draws releases in both worlds and scores them; a larger score makes world 1 more likely. The two-world method
chooses a threshold on some runs; the frequencies at which fresh runs reach it bound epsilon and delta from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.streams import Streams

Key = npt.NDArray[np.uint64]

ALPHA = 1e-6
"""Probability that a bound of an audit is wrong: far below 5 %, which could refute one tight mechanism in twenty."""
_CHUNK = 1 << 16
_THRESHOLDS = 400
# A plateau of the likelihood ratio is one value in real arithmetic. In float64 its last bits distinguish the worlds,
# which is a separate finding (message_probes.floating_point_event), and not one about the scale.
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Probe:
    """Two neighbouring inputs of one randomized release.

    Args:
        description: the configuration, in a few words.
        scores: returns the evidence for world 1 of each of `runs` independent releases of world 0 or 1, float64[runs],
            for (world, runs, key).
    """

    description: str
    scores: Callable[[int, int, Key], Float64Array]

    def together(self, messages: int) -> Probe:
        """Return the probe of `messages` messages of one user with the same input; a score is the sum of theirs."""
        if messages == 1:
            return self

        def scores(world: int, runs: int, key: Key) -> Float64Array:
            return np.asarray(self.scores(world, runs * messages, key).reshape(runs, messages).sum(axis=1))

        return Probe(f"{messages} submissions of {self.description}", scores)


def measure(
    probe: Probe, claim: Claim, proof: NoiseProof, *, runs: int = 100_000, seed: int = 0, alpha: float = ALPHA
) -> Measurement:
    """Return lower bounds on epsilon (at the claimed delta) and delta (at the claimed epsilon) of `probe`.

    Both hold with probability 1 - alpha: each of the two probabilities is bounded at alpha / 2, on runs that had no
    part in choosing the event. Deterministic in its arguments.

    Args:
        probe: the attack. claim: under audit. proof: of the noise at the probe.
        runs: per world, for the bound; half as many further runs choose the threshold.
        seed: of all draws. alpha: one minus the joint confidence of the bounds.

    Paper: Jagielski, Ullman, Oprea 2020, Theorem 1.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, got {runs}; ask for e.g. 100000")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie in (0, 1), got {alpha}; ask for e.g. 1e-6")
    pilots = [draw(probe, world, max(1, runs // 2), seed, "pilot") for world in (1, 0)]
    threshold = _best_threshold(pilots[0], pilots[1], claim, alpha)
    hits = [int((draw(probe, world, runs, seed, "test") >= threshold).sum()) for world in (0, 1)]
    likely = clopper_pearson_lower(hits[1], runs, alpha / 2)
    unlikely = clopper_pearson_upper(hits[0], runs, alpha / 2)
    return Measurement(
        method="two worlds",
        probe=probe.description,
        claim=claim,
        proof=proof,
        epsilon_lb=epsilon_lower_bound(likely, unlikely, claim.delta),
        delta_lb=delta_lower_bound(likely, unlikely, claim.epsilon),
        confidence=1.0 - alpha,
        runs=runs,
        largest_epsilon_lb=largest_epsilon_bound(runs, alpha / 2, claim.delta),
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


def audit_page(findings: Iterable[Finding], seed: int = 0, alpha: float = ALPHA) -> list[Finding]:
    """Return all findings with their measurements; all measured bounds hold together with probability 1 - alpha."""
    page = list(findings)
    sampled = sum(finding.attack is not None for finding in page)
    return [finding.audit(seed, alpha / max(1, sampled)) for finding in page]


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
