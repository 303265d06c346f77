"""The records of a cell's runs: which columns they have, and one of them seed by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dprl.algorithms import Metric


def per_episode(metric: Metric) -> str:
    """Return the column of a summed metric's mean over a block of episodes; its own column is cumulative."""
    return f"{metric.name}_per_episode"


def columns(metrics: Sequence[Metric]) -> list[str]:
    """Return the columns of the records of an algorithm with these metrics.

    seed; episode: where a block of episodes ends; and for each metric its sum from the first episode on and its mean
    over the block, or only its mean over the block, or its value at the end of the block.
    """
    found = ["seed", "episode"]
    for metric in metrics:
        found += [metric.name, per_episode(metric)] if metric.over == "sum" else [metric.name]
    return found


def block_column(metric: Metric) -> str:
    """Return the column of the records with a metric of the block alone."""
    return per_episode(metric) if metric.over == "sum" else metric.name


def by_seed(records: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the episodes at which blocks end, [B], and `column` at each of them for every seed, [B, seeds].

    Raises ValueError unless the records have the same episodes of every seed.
    """
    ordered = records.sort_values(["seed", "episode"])
    episodes = ordered["episode"].to_numpy().reshape(ordered["seed"].nunique(), -1)
    if (episodes != episodes[0]).any():
        raise ValueError("records must have the same episodes of every seed")
    return episodes[0], ordered[column].to_numpy().reshape(len(episodes), -1).T
