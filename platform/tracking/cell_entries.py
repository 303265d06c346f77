"""What MLflow is told of a finished cell: the points of its metrics, and what its certificate says in a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from mlflow import entities

from dprl.algorithms import Metric
from dprl.platform.reports.records import curve, final_numbers, is_result
from dprl.platform.reports.verdicts import privacy_columns, standing, verdict_line
from dprl.platform.results.cell_folder import CellResults

_CURVE_POINTS = 40
"""Of a curve in MLflow at most; each costs a row of its database, and records.parquet has them all."""
_EPSILONS = {"claimed_epsilon", "proved_epsilon"}


def cell_metrics(metrics: Sequence[Metric], results: CellResults) -> list[entities.Metric]:
    """The curves of a finished cell with these metrics (mean over seeds, step = episode) and its final numbers.

    Of a curve at most `_CURVE_POINTS` episodes, the last among them, half of them dense at the start as the records
    are. Headlines, sums and results have bands, too; medians have their last value alone, if it is finite. The seeds'
    own curves are an artifact.
    The time stamp is that of the cell's end, not of the call: MLflow keeps equal points once, so that writing
    twice changes nothing.
    """
    stamp = int(results.finished_at * 1000)
    records = results.records
    points = []
    with_bands = {metric.name for metric in metrics if _has_band(metric)}
    medians = {metric.name for metric in metrics if metric.across == "median"}
    for column in records.columns.drop(["seed", "episode", *medians]):
        found = _thinned(curve(records, column))
        for end in ("mean", "lower", "upper") if column in with_bands else ("mean",):
            name = column if end == "mean" else f"{column}_{end}"
            points += [
                entities.Metric(name, float(value), stamp, int(episode))
                for episode, value in zip(found["episode"], found[end], strict=True)
                if np.isfinite(value)
            ]
    last = int(records["episode"].max())
    finals = {name: value for name, value in _final_numbers(metrics, results).items() if np.isfinite(value)}
    return points + [entities.Metric(name, value, stamp, last) for name, value in finals.items()]


def _thinned(points: pd.DataFrame) -> pd.DataFrame:
    """Return at most `_CURVE_POINTS` rows, evenly spaced among those there are, with the first and the last."""
    count = min(len(points), _CURVE_POINTS)
    return points.iloc[np.unique(np.linspace(0, len(points) - 1, count).round().astype(int))]


def _has_band(metric: Metric) -> bool:
    """Whether its curve has a band beside it; that of a median would be no t band."""
    return metric.across == "mean" and (metric.headline or metric.over == "sum" or is_result(metric))


def _final_numbers(metrics: Sequence[Metric], results: CellResults) -> dict[str, float]:
    # MLflow draws a chart for each: the rest of what is proved stands in certificate.json.
    left_out = privacy_columns(results.certificate).keys() - _EPSILONS
    numbers = {"seconds": results.seconds, **final_numbers(metrics, results)}
    return {name: float(value) for name, value in numbers.items() if name not in left_out and value is not None}


def certificate_tags(certificate: Mapping[str, Any]) -> dict[str, str]:
    """Return what runs are searched by: algorithm, trust model, verdict and the epsilon that is proved."""
    stands = standing(certificate)
    return {
        "algorithm": certificate["algorithm"],
        "trust_model": certificate["trust_model"],
        "verdict": stands.verdict,
        "proved_epsilon": f"{stands.proved:.6g}",
    }


def failing_claim(certificate: Mapping[str, Any]) -> str:
    """Return the first words on a claim that fails, '' where it holds or none was made."""
    stands = standing(certificate)
    fails = stands.refuted or (stands.verdict != "holds" and certificate["trust_model"] != "none")
    return verdict_line(certificate).partition(":")[0] if fails else ""
