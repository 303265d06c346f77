"""Curves with bands and rows of the summary from the records of a cell's seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms import ALGORITHMS, Metric
from dprl.algorithms.base import REGRET, SATURATED, headline
from dprl.algorithms.offline_vi import LOWER_BOUND
from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.inference.intervals import band, bands, median_interval
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import block_column, by_seed, per_episode, privacy_columns

_MOST_SATURATED = 0.99
SATURATION_NOTE = "bonus saturated: estimates stayed at their caps, so regret grew linearly"
PROVES_NOTHING = "the release proves nothing"
SATURATION_REMEDY = "more episodes, a larger epsilon or, without a theorem, a smaller algorithm.bonus_scale"
FINAL_SCORE = "Final score"
_JUDGED = {"run": "", "deployed": " of the policy deployed last", "output": " of the output policy"}


def is_result(metric: Metric) -> bool:
    """Whether tables show a metric beside the headline."""
    return metric.over == "last" and bool(metric.short) and not metric.headline


def is_gap(metric: Metric) -> bool:
    """Whether a metric is the loss of the output policy, in reward."""
    return is_result(metric) and metric.of == "output" and metric.unit == "reward" and metric.better == "low"


def is_final_score(metric: Metric) -> bool:
    """Whether a metric is the score at the end of a run."""
    return is_result(metric) and metric.better == "high" and metric.unit in ("return", "steps")


def title_of(metric: Metric) -> str:
    """Return the name of a metric in tables and figures of pages, e.g. 'Regret'."""
    return FINAL_SCORE if is_final_score(metric) else metric.label.capitalize()


def results_in(found: Collection[str], kind: Callable[[Metric], bool] = is_result) -> list[Metric]:
    """Return the metrics of all algorithms that are of this kind, with columns among those `found`."""
    return [metric for metric in _known() if kind(metric) and metric.name in found]


def headlines_in(found: Collection[str]) -> list[Metric]:
    """Return the headlines of all algorithms with columns among those `found`."""
    # An algorithm's metric of the same name that is no headline has no column of the first block.
    return [metric for metric in _known() if metric.headline and f"{block_column(metric)}_first" in found]


def _known() -> list[Metric]:
    """Return the metrics of all algorithms, one per name."""
    return list({metric.name: metric for config in ALGORITHMS.values() for metric in config.metrics}.values())


def unit_of(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Return the word for an episode of these cells; for gradients it is 'user' if each user has one episode."""
    units = set(map(_unit, rows))
    return units.pop() if len(units) == 1 else "episode"


def _unit(row: Mapping[Any, Any]) -> str:
    config = ALGORITHMS.get(str(row.get("algorithm.name")))
    if config is None or config.releases != "gradients" or config.unit != "episode":
        return config.unit if config is not None else "episode"
    return "episode" if row.get("privacy.submissions", 1) > 1 else "user"


def full_label(metric: Metric) -> str:
    """Return the label of a metric with the policy that it judges."""
    return f"{metric.label}{_JUDGED[metric.of]}"


def curve(records: pd.DataFrame, column: str = REGRET.name) -> pd.DataFrame:
    """Return `column` over seeds as episode, mean, lower, upper (95 % t band; NaN ends below 3 seeds)."""
    episodes, values = by_seed(records, column)
    mean, half = bands(values)
    return pd.DataFrame({"episode": episodes, "mean": mean, "lower": mean - half, "upper": mean + half})


def learned_nothing(records: pd.DataFrame) -> bool:
    """Whether over 99 % of the estimates stayed at their caps throughout, and some regret was left to reduce."""
    if SATURATED.name not in records or (REGRET.name in records and not records[REGRET.name].any()):
        return False
    return bool(curve(records, SATURATED.name)["mean"].min() > _MOST_SATURATED)


def summary_row(experiment: Experiment, results: CellResults) -> dict[str, Any]:
    """Return one cell's row of summary.csv: its settings, its metrics with intervals, its privacy.

    Infinity is float inf in the row.
    """
    metrics, records = experiment.metrics, results.records
    finals = final_numbers(metrics, results)
    row: dict[str, Any] = {"cell": experiment.digest, **experiment.parameters(), **label_columns(experiment)}
    for metric in metrics:
        columns = _metric_columns(metric, records, horizon_of(experiment))
        row |= columns or {name: finals[name] for name in _with_ends(metric.name)}
    note = SATURATION_NOTE if learned_nothing(records) else ""
    if not getattr(experiment.algorithm, "online", True):
        note = _proves_nothing(records)
    low, high = reward_range(experiment)
    if (low, high) != (0.0, 1.0):
        finals |= {"derived_reward_low": low, "derived_reward_high": high}
    return {**row, **finals, "theorem": results.theorem, "note": note}


def _proves_nothing(records: pd.DataFrame) -> str:
    """Return a note on the only release of an offline run if its lower bound is 0 for every seed, '' otherwise."""
    last = records[records["episode"] == records["episode"].max()]
    if not {LOWER_BOUND.name, SATURATED.name} <= {*records} or last[LOWER_BOUND.name].any():
        return ""
    share = last[SATURATED.name].mean()
    return f"{PROVES_NOTHING} (lower bound 0); actions are arbitrary in {share:.0%} of all (h, s, a)"


def label_columns(experiment: Experiment) -> dict[str, str]:
    """Return the columns of the config's labels for the cell and its algorithm, if it has any."""
    labels = {"cell_label": experiment.label, "algorithm_label": experiment.algorithm_label}
    return {key: label for key, label in labels.items() if label}


def headline_numbers(metrics: Sequence[Metric], records: pd.DataFrame, horizon: float) -> dict[str, float]:
    """Return the headline of the whole run, as the summary has it, with the ends of its interval; {} without one."""
    metric = headline(metrics)
    columns = {} if metric is None else _metric_columns(metric, records, horizon)
    return {} if metric is None else {name: columns[name] for name in _with_ends(metric.name) if name in columns}


def final_numbers(metrics: Sequence[Metric], results: CellResults) -> dict[str, Any]:
    """Return the numbers of a finished cell only: medians with intervals, halving, privacy, derived numbers."""
    records = results.records
    last = records[records["episode"] == records["episode"].max()]
    found: dict[str, Any] = {}
    for metric in metrics:
        if metric.across == "median":
            found |= _named(metric.name, median_interval(last[metric.name].to_numpy()))
    if REGRET in metrics:
        found |= halving_columns(records)
    derived = {f"derived_{name}": value for name, value in results.derived.items()}
    return {**found, **privacy_columns(results.certificate), **derived}


def reward_range(experiment: Experiment) -> tuple[float, float]:
    """Return the range of the environment's own rewards that is mapped to [0, 1]."""
    low, high = getattr(experiment.env, "reward_range", (0.0, 1.0))
    return float(low), float(high)


def horizon_of(experiment: Experiment) -> float:
    """Return the largest number of steps of an episode."""
    return float(experiment.parameters().get("env.horizon", math.inf))


def _metric_columns(metric: Metric, records: pd.DataFrame, horizon: float) -> dict[str, float]:
    """Return the summary's columns of a metric besides the final numbers, none for a median; see docs/metrics.md."""
    low, high = metric.range(horizon)
    name, episodes = metric.name, records["episode"]
    last = records[episodes == episodes.max()]
    if metric.over == "mean":
        if metric.headline:
            return _headline_columns(metric, records, (low, high))
        points = curve(records, name)
        lengths = np.diff(points["episode"], prepend=0)
        return {name: float(np.average(points["mean"], weights=lengths)), f"{name}_last": float(last[name].mean())}
    if metric.over == "last":
        return _with_band(name, last[name], (low, high)) if metric.across == "mean" else {}
    each, n_episodes = per_episode(metric), episodes.max()
    return {
        **_with_band(name, last[name], (low * n_episodes, high * n_episodes)),
        **_with_band(f"mean_{name}", last[name] / n_episodes, (low, high)),
        **_with_band(f"{each}_last", last[each], (low, high)),
        f"{each}_first": float(records[episodes == episodes.min()][each].mean()),
    }


def _headline_columns(metric: Metric, records: pd.DataFrame, bounds: tuple[float, float]) -> dict[str, float]:
    """Return the summary's columns of a headline that is a mean over the block."""
    name = metric.name
    episodes, values = by_seed(records, name)
    return {
        **_with_band(name, pd.Series(np.average(values, axis=0, weights=np.diff(episodes, prepend=0))), bounds),
        **_with_band(f"{name}_last", pd.Series(values[-1]), bounds),
        f"{name}_first": float(values[0].mean()),
    }


def _with_band(name: str, values: pd.Series[float], bounds: tuple[float, float]) -> dict[str, float]:
    """Return the mean over seeds and the ends of its band, NaN for few seeds, cut at bounds that hold the mean."""
    mean, lower, upper = band(values.to_numpy())
    if math.isfinite(lower) and bounds[0] <= mean <= bounds[1]:
        lower, upper = max(lower, bounds[0]), min(upper, bounds[1])
    return _named(name, (mean, lower, upper))


def _named(name: str, numbers: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(_with_ends(name), numbers, strict=True))


def _with_ends(name: str) -> tuple[str, str, str]:
    """Return the columns of a number and of the ends of its interval."""
    return name, f"{name}_lower", f"{name}_upper"


def halved_at(records: pd.DataFrame) -> np.ndarray:
    """Return the episode when each seed's regret per episode has halved, float64[n_seeds]; inf if it never does.

    It is the end of the first block with a mean regret per episode of at most half the first record's, if the means
    from there to the end of every later block are as small. So a temporary dip does not count, even if a long run ends
    well. Nor does the last block, because no later one confirms it.

    records: columns `results.summary.columns`, the same episodes for every seed.
    """
    regret = records.pivot_table(index="seed", columns="episode", values="regret")
    ends, total = regret.columns.to_numpy(dtype=np.float64), regret.to_numpy()
    target = total[:, :1] / ends[0] / 2
    # Over a range of episodes, the mean is at most the target exactly if the excess does not rise.
    excess = total - target * ends
    highest_later = np.maximum.accumulate(excess[:, ::-1], axis=1)[:, ::-1][:, 1:]
    below = np.diff(excess, axis=1, prepend=0.0)[:, :-1] <= 0.0
    lasting = below & (highest_later <= excess[:, :-1])
    found = lasting.any(axis=1)
    return np.where(found, ends[lasting.argmax(axis=1)], math.inf)


def halving_columns(records: pd.DataFrame) -> dict[str, float]:
    """Return the columns of a cell's halving: the median with its interval, and the share of seeds halved.

    There are none if the first policy has no regret to halve.
    """
    if not records.loc[records["episode"] == records["episode"].min(), "regret"].any():
        return {}
    values = halved_at(records)
    median, lower, upper = median_interval(values)
    share = float(np.isfinite(values).mean())
    return {"halved_at": median, "halved_at_lower": lower, "halved_at_upper": upper, "halved_share": share}
