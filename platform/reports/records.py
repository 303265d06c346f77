"""From the records of a cell's seeds to curves with bands and one row of the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.halving import halving_columns
from dprl.platform.reports.intervals import band, bands
from dprl.platform.reports.verdicts import privacy_columns

SATURATED = 0.99
SATURATION_NOTE = "bonus saturated: the curve is linear by construction"
SATURATION_REMEDY = "more episodes, a larger epsilon or a smaller algorithm.bonus_scale"
SMALLEST_GAP, EXPLOITABILITY = "smallest_gap", "exploitability"
GAPS = {
    "gap": "gap of the policy deployed last",
    SMALLEST_GAP: "smallest gap, that of the output policy",
    EXPLOITABILITY: "exploitability of the output policy",
}
"""Metrics in units of reward that bound a policy of a game, or are what is bounded: what figures call them."""
OF_THE_OUTPUT = (SMALLEST_GAP, EXPLOITABILITY)
"""Those of the policy that a run gives out: its result."""


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


def curve(records: pd.DataFrame, column: str = "regret") -> pd.DataFrame:
    """Return `column` over seeds as episode, mean, lower, upper (95 % t band; NaN ends below 3 seeds)."""
    by_seed = records.pivot_table(index="episode", columns="seed", values=column)
    mean, half = bands(by_seed.to_numpy())
    return pd.DataFrame({"episode": by_seed.index.to_numpy(), "mean": mean, "lower": mean - half, "upper": mean + half})


def always_saturated(records: pd.DataFrame) -> bool:
    """Whether the bonus was saturated in over 99 % of the cells throughout, so that nothing was learned."""
    return bool(curve(records, "saturated")["mean"].min() > SATURATED)


def summary_row(experiment: Experiment, records: pd.DataFrame, certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return one cell's row of summary.csv: its settings, its regret and halving with intervals, what its noise proves.

    certificate: as `Certificate.to_dict` gives it. Infinity is float inf in the row.
    """
    final = records[records["episode"] == records["episode"].max()]
    first = records[records["episode"] == records["episode"].min()]
    row: dict[str, Any] = {"cell": experiment.digest, **experiment.parameters()}
    for name, values in (
        ("regret", final["regret"].to_numpy()),
        ("mean_regret", final["regret"].to_numpy() / experiment.episodes),
        ("regret_per_episode_last", final["regret_per_episode"].to_numpy()),
    ):
        row[name], row[f"{name}_lower"], row[f"{name}_upper"] = band(values)
    row["regret_per_episode_first"] = float(first["regret_per_episode"].mean())
    saturated = curve(records, "saturated")
    lengths = np.diff(saturated["episode"], prepend=0)
    row["saturated"] = float(np.average(saturated["mean"], weights=lengths))
    row["saturated_last"] = float(final["saturated"].mean())
    for metric in experiment.algorithm.metrics:
        if metric.over == "last":
            row[metric.name], row[f"{metric.name}_lower"], row[f"{metric.name}_upper"] = band(
                final[metric.name].to_numpy()
            )
    row |= halving_columns(records) | privacy_columns(certificate)
    row["theorem"] = experiment.theorem
    return row | {"note": SATURATION_NOTE if always_saturated(records) else ""}
