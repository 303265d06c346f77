"""Made-up runs of every cell of the reproduction of [TH23]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dprl.platform.configs.config import load_cells
from dprl.platform.reproductions.claims import Key, PaperCell
from dprl.platform.reproductions.ma_ldp import (
    AGAIN,
    CONFIG,
    EPISODES,
    ILLUSTRATIONS,
    MAXMIN,
    PAPER,
    PRINTED,
    levels,
)


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


def runs(key: Key, regret: np.ndarray) -> PaperCell:
    """Runs with these regrets."""
    return PaperCell({"regret": regret}, EPISODES, certificate(key), {"saturated": 0.5, "indefinite": 0.0})


def drawn(key: Key, mean: float, count: int = 30, spread: float = 400.0) -> PaperCell:
    """Runs whose regrets scatter around a mean."""
    generator = np.random.default_rng([int(1000 * min(key.epsilon, 99.0)), len(key.mechanism), *key.group.encode()])
    return runs(key, np.maximum(1.0, generator.normal(mean, spread, count)))


def every_key() -> list[Key]:
    """The cells of the sweep."""
    found = [PAPER.key_of(cell) for cell in load_cells(CONFIG)]
    assert None not in found
    return [key for key in found if key is not None]


def every_cell(count: int = 30) -> dict[Key, PaperCell]:
    """All cells, with the regret of random actions."""
    level = levels(EPISODES)["uniform"]
    return {key: drawn(key, level, count) for key in every_key()}
