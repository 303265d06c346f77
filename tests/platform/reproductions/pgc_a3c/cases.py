"""Made-up trials of every cell of the reproduction of [OT20]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dprl.platform.reproductions.claims import Key, PaperCell
from dprl.platform.reproductions.pgc_a3c import (
    BUFFERS,
    EPSILONS,
    LAPLACE,
    NOISE,
    PROJECTED,
    READINGS,
    ROWS,
    values_of,
)

SUBMISSIONS = 90_000


def certificate(mechanism: str, epsilon: float) -> dict[str, Any]:
    """The parts of a certificate that the page reads."""
    private = math.isfinite(epsilon)
    return {
        "trust_model": "ldp" if private else "none",
        "unit": "one submission",
        "verdict": "holds" if private else "unbounded",
        "claimed": {"epsilon": epsilon if private else None, "delta": 0.0, "calibration": "certified"},
        "proved": {"pure_epsilon": epsilon, "epsilon_at_claimed_delta": epsilon, "epsilon_at_delta": {}},
        "factor": 1.0,
        "noise": [{"mechanism": mechanism, "arithmetic": "float64-idealised", "entropy": "seeded"}] if private else [],
        "excluded_channels": ["raw scores, which the simulation reads", "the time at which a message arrives"],
        "audit": None,
    }


def trials(first_success: np.ndarray, key: Key | None = None, submissions: int = SUBMISSIONS) -> PaperCell:
    """Trials with these first successes, whose scores rise until then."""
    ends = np.arange(1, 101) * (submissions // 100)
    until = np.minimum(first_success, 4.0 * submissions)[:, np.newaxis]
    scores = np.clip(20.0 + 150.0 * np.minimum(1.0, ends / until) + 20.0 * np.sin(ends / until), 0.0, 200.0)
    area = np.where(np.isfinite(first_success), (submissions - first_success + 1) / submissions, 0.0)
    about = certificate(key.mechanism, key.epsilon) if key else certificate(LAPLACE, 1.0)
    return PaperCell(values_of(first_success, area, scores[:, -1], scores.mean(axis=1)), submissions, about)


def drawn(key: Key, median: float, count: int) -> PaperCell:
    """Trials whose first successes are exponential, infinite beyond the end."""
    generator = np.random.default_rng([int(10 * median), int(key.setting), *key.group.encode()])
    first = np.ceil(generator.exponential(median / math.log(2), count))
    return trials(np.where(first > SUBMISSIONS, np.inf, first), key)


def typical(key: Key) -> float:
    """A median first success that a cell might have."""
    if key.control == NOISE:
        return 150_000.0
    if math.isinf(key.epsilon):
        return 1_700.0
    wrong_buffer = 10.0 if key.setting != BUFFERS[key.mechanism] else 1.0
    return wrong_buffer * (6_000.0 if key.mechanism == PROJECTED else 25_000.0) / math.sqrt(key.epsilon)


def every_cell(count: int = 100) -> dict[Key, PaperCell]:
    """All cells of the sweep."""
    keys = [row.of(reading.name) for reading in READINGS for row in ROWS]
    for reading in READINGS[:2]:
        for mechanism, buffer_size in BUFFERS.items():
            keys += [Key(reading.name, mechanism, epsilon, buffer_size, NOISE) for epsilon in EPSILONS]
            keys.append(Key(reading.name, mechanism, 1.0, 101 - buffer_size))
    return {key: drawn(key, typical(key), count) for key in keys}
