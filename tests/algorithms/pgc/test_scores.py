"""Average scores and the first success, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.algorithms.pgc.scores import FINAL, METRICS, WINDOW, ScoreTracker, record


def kept(scores: np.ndarray, target: float = 195.0) -> ScoreTracker:
    tracker = ScoreTracker.empty(target)
    for score in scores:
        record(tracker, float(score))
    return tracker


def first_success(scores: np.ndarray, target: float) -> float:
    """Eqs. (25) and (26), word by word: mu_n is the mean of scores n .. n+9."""
    for n in range(1, len(scores) - WINDOW + 2):
        if scores[n - 1 : n - 1 + WINDOW].mean() >= target:
            return float(n)
    return math.inf


@pytest.mark.parametrize("seed", range(20))
def test_metrics_are_their_definitions(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.integers(1, 201, size=generator.integers(1, 3 * FINAL)).astype(float)
    target = float(generator.choice([120.0, 130.0, 199.0]))
    found = kept(scores, target).metrics(len(scores))
    first = first_success(scores, target)
    assert found["score_last10"] == pytest.approx(scores[-WINDOW:].mean())
    assert found["final_score"] == pytest.approx(scores[-FINAL:].mean())
    assert found["first_success"] == first
    assert found["success"] == (first < math.inf)
    ratio = np.arange(1, len(scores) + 1) >= first
    assert found["area"] == pytest.approx(ratio.mean())


def test_the_first_success_is_never_moved() -> None:
    scores = np.concatenate([np.full(5, 10.0), np.full(10, 200.0), np.zeros(50), np.full(20, 200.0)])
    assert kept(scores).metrics(len(scores))["first_success"] == 6.0


def test_before_the_first_submission_nothing_is_known() -> None:
    found = ScoreTracker.empty(195.0).metrics(10)
    assert math.isnan(found["final_score"])
    assert found["first_success"] == math.inf


def test_every_metric_but_the_blocks_mean_is_reported() -> None:
    assert {metric.name for metric in METRICS} == {"score", *ScoreTracker.empty(195.0).metrics(1)}
