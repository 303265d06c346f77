"""Scores of a run as in [OT20]: averages, the first success, and the final score.

Scores are raw data of agents, so only a simulator may read them, as the certificate says.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, Metric
from dprl.compiled import kernel, no_alloc_kernel

WINDOW = 10
FINAL = 5_000
SCORE = Metric(
    "score",
    "mean",
    "steps",
    definition="number of steps that the agents' episodes last, mean over the block",
    better="high",
    headline=True,
)
SCORE_LAST10 = Metric("score_last10", "last", definition="mean score of the last 10 submissions, mu of eq. (25)")
FINAL_SCORE = Metric(
    "final_score", "last", "steps", short="final", definition="mean score of the last 5,000 submissions", better="high"
)
FIRST_SUCCESS = Metric(
    "first_success",
    "last",
    "episodes",
    short="first",
    definition="submission from which the mean score of 10 meets the target, eq. (26)",
    across="median",
)
SUCCESS = Metric(
    "success",
    "last",
    short="success",
    definition="share of runs with a first success, eq. (27)",
    better="high",
    most=1.0,
)
AREA = Metric(
    "area",
    "last",
    short="area",
    definition="area under the success ratio over the submissions, of at most 1",
    better="high",
    most=1.0,
)
METRICS = (SCORE, SCORE_LAST10, FINAL_SCORE, FIRST_SUCCESS, SUCCESS, AREA)


class ScoreTracker(NamedTuple):
    """Scores of the last 5,000 submissions, and the first success.

    target: Theta, of the mean over 10. last float64[5000]: score of submission n at (n - 1) mod 5000. counts int64[2]:
    submissions so far, and the first success or 0.

    Paper: [OT20] eqs. (25), (26) and (27).
    """

    target: float
    last: Float64Array
    counts: Int64Array

    @staticmethod
    def empty(target: float) -> ScoreTracker:
        """Return an empty tracker."""
        return ScoreTracker(target, np.zeros(FINAL), np.zeros(2, dtype=np.int64))

    def __repr__(self) -> str:
        return f"ScoreTracker({int(self.counts[0])} submissions)"

    def metrics(self, submissions: int) -> dict[str, float]:
        """Return all metrics except the mean over the block, for a run of this number of submissions."""
        seen, first = (int(number) for number in self.counts)
        recent = np.arange(max(0, seen - WINDOW), seen) % FINAL
        final = self.last[: min(seen, FINAL)]
        return {
            SCORE_LAST10.name: float(self.last[recent].mean()) if seen else math.nan,
            FINAL_SCORE.name: float(final.mean()) if seen else math.nan,
            FIRST_SUCCESS.name: float(first) if first else math.inf,
            SUCCESS.name: float(first > 0),
            AREA.name: (submissions - first + 1) / submissions if first else 0.0,
        }


@no_alloc_kernel
def record(tracker: ScoreTracker, score: float) -> None:
    """Record the score of the next submission.

    The first success is the n with mean(score_n .. score_{n+9}) at or above the target, the window of eq. (25).
    """
    tracker.last[tracker.counts[0] % FINAL] = score
    tracker.counts[0] += 1
    seen = tracker.counts[0]
    if tracker.counts[1] == 0 and seen >= WINDOW:
        total = 0.0
        for n in range(seen - WINDOW, seen):
            total += tracker.last[n % FINAL]
        if total >= tracker.target * WINDOW:
            tracker.counts[1] = seen - WINDOW + 1


@kernel
def record_all(tracker: ScoreTracker, scores: Float64Array) -> None:
    """Record the scores float64[k] of the next k submissions."""
    for i in range(scores.shape[0]):
        record(tracker, scores[i])
