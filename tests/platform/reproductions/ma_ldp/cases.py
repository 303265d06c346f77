"""Made-up runs of every cell that the reproduction of [TH23] has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dprl.platform.configs.config import load_cells
from dprl.platform.reproductions.ma_ldp.guarantees import Guarantees
from dprl.platform.reproductions.ma_ldp.published import EPISODES
from dprl.platform.reproductions.ma_ldp.reproduction import CONFIG
from dprl.platform.reproductions.ma_ldp.runs import (
    AGAIN,
    GROUPS,
    ILLUSTRATIONS,
    MAXMIN,
    PRINTED,
    VOTES,
    Key,
    Levels,
    Runs,
)
from dprl.platform.reproductions.ma_ldp.tables import Found


def certificate(key: Key) -> dict[str, Any]:
    """The parts of a certificate that the page reads."""
    private = key.group not in {PRINTED, AGAIN, MAXMIN} and math.isfinite(key.epsilon)
    proved = 1000.0 * key.epsilon if key.group in ILLUSTRATIONS else key.epsilon if private else math.inf
    return {
        "trust_model": "ldp" if math.isfinite(key.epsilon) else "none",
        "verdict": "fails" if key.group in ILLUSTRATIONS else "holds" if private else "unbounded",
        "claimed": {"epsilon": key.epsilon, "delta": 0.1 if key.mechanism == "gram_gaussian" else 0.0},
        "proved": {"epsilon_at_claimed_delta": proved},
        "excluded_channels": ["the seed"],
    }


def runs(key: Key, regret: np.ndarray, episodes: int = EPISODES) -> Runs:
    """Runs of constant regret per user that sum up to this."""
    ends = np.linspace(0, episodes, 21).astype(np.int64)[1:]
    saturated = math.nan if key.group == VOTES else 0.5
    return Runs(ends, np.outer(regret, ends / episodes), saturated, 0.0, 4e7, certificate(key))


def drawn(key: Key, mean: float, count: int = 30, spread: float = 400.0) -> Runs:
    """Runs whose regrets scatter around a mean."""
    generator = np.random.default_rng([int(1000 * min(key.epsilon, 99.0)), len(key.mechanism), *key.group.encode()])
    return runs(key, np.maximum(1.0, generator.normal(mean, spread, count)))


def every_key() -> list[Key]:
    """The cells of the sweep."""
    found = [Key.of(cell) for cell in load_cells(CONFIG)]
    assert None not in found
    return [key for key in found if key is not None]


def every_cell(count: int = 30) -> dict[Key, Runs]:
    """All cells: MA-LDP at random's level, one bit a user below it."""
    level = Levels.of(EPISODES).uniform
    return {key: drawn(key, 500.0 if key.group == VOTES else level, count) for key in every_key()}


def found(count: int = 30) -> Found:
    """All that a page needs, without attacks."""
    return Found(every_cell(count), Levels.of(EPISODES), Guarantees.found(attacked=False), ["Made by a test."])


def private_groups() -> list[str]:
    """Groups that are meant to protect somebody."""
    return [group.name for group in GROUPS if group.private]
