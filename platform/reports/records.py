"""From the records of a cell's seeds to curves with bands and one row of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.halving import halving_columns
from dprl.platform.reports.intervals import band, bands
from dprl.platform.reports.verdicts import privacy_columns

COLUMNS = ("seed", "episode", "regret", "regret_per_episode", "saturated")
"""regret: cumulative up to `episode`; the other two are means over the block of episodes that ends there."""

SATURATED = 0.99
SATURATION_NOTE = "bonus saturated: the curve is linear by construction"
SATURATION_REMEDY = "more episodes, a larger epsilon or a smaller algorithm.bonus_scale"


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
    row |= halving_columns(records) | privacy_columns(certificate)
    row["theorem"] = experiment.theorem
    return row | {"note": SATURATION_NOTE if always_saturated(records) else ""}
