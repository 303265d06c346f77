"""Distinguishing attacks: lower bounds on epsilon and delta from the outputs of a sampler for two neighbours.

A probe draws releases in both worlds and scores them; a larger score makes world 1 more likely. The two-world method
chooses a threshold on some runs; the frequencies with which fresh runs of both worlds reach it bound epsilon and delta
from below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprl.privacy.audits.bounds import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    delta_lower_bound,
    epsilon_lower_bound,
    largest_epsilon_bound,
)
from dprl.privacy.audits.findings import Claim, Measurement, ProbeProof
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
