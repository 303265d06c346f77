"""Entries of MLflow: parameters, metrics, tags and notes of a cell, and the headline and the answer of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from mlflow import entities

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.reports.report import answer_of, leading_budget
from dprl.platform.reports.verdicts import VERDICTS, verdict_id, verdict_line
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Group
from dprl.platform.results.inference import bands
from dprl.platform.results.summary import (
    by_seed,
    final_numbers,
    headline_numbers,
    is_result,
    privacy_columns,
    standing,
    unit_of,
)

_CURVE_POINTS = 40
"""Most points per curve in MLflow. Each costs a database row, and records.parquet has them all."""
_FIRST_STEP = 0
"""The step of a constant: MLflow draws a bar chart of a metric without later steps, and a line chart of any other."""
_GROUPS = {
    "claimed_epsilon": "privacy/claimed_epsilon",
    "proved_epsilon": "privacy/certified_epsilon",
    "seconds": "time/seconds",
}
_EPSILONS = {"claimed_epsilon", "proved_epsilon"}
_IDENTITY = {"Algorithm": "algorithm.name", "Epsilon": "privacy.epsilon", "Trust model": "privacy.model"}
_REACHED = "reached/"
_DERIVED = "derived_"
CERTIFICATE_HEADING = "### Certificate"
ANSWER_HEADING = "### Answer"

SweepEntries = tuple[dict[str, float], str]
"""Entries of a sweep's own run: constants by their keys, and its description in Markdown."""


def cell_metrics(metrics: Sequence[Metric], results: CellResults, horizon: float = math.inf) -> list[entities.Metric]:
    """Return the curves and the constants of a finished cell with these metrics, as points for MLflow.

    horizon: the largest number of steps of an episode; it bounds intervals of the headline.

    Curves are means over seeds with step = episode. They have at most `_CURVE_POINTS` points, half of them dense at the
    start like the records, and include the last episode. Headlines, sums and results also have the ends of their
    intervals. The seeds' own curves are an artifact. Constants are at step 0: the headline of the whole run, medians,
    halving, epsilons, derived numbers and the compute time; infinite values are omitted.

    The part of a key before the slash is its group, a section of MLflow's charts. Sections and axes of the compare page
    are in alphabetical order, so the headline's group `cell` is the first.

    The time stamp is the end of the cell. MLflow stores equal points once, so writing twice changes nothing.
    """
    stamp = int(results.finished_at * 1000)
    points = [entities.Metric(key, value, stamp, step) for key, value, step in _curve_points(metrics, results.records)]
    constants = {key: value for key, value in _constants(metrics, results, horizon).items() if np.isfinite(value)}
    return points + [entities.Metric(key, value, stamp, _FIRST_STEP) for key, value in constants.items()]


def _curve_points(metrics: Sequence[Metric], records: pd.DataFrame) -> Iterator[tuple[str, float, int]]:
    """Yield key, value and episode of every finite point; a median has no curve."""
    with_bands = {metric.name for metric in metrics if _has_band(metric)}
    medians = {metric.name for metric in metrics if metric.across == "median"}
    for column in records.columns.drop(["seed", "episode", *medians]):
        episodes, values = by_seed(records, column)
        # Evenly spaced points, including the first and the last.
        count = min(len(episodes), _CURVE_POINTS)
        kept = np.unique(np.linspace(0, len(episodes) - 1, count).round().astype(int))
        mean, half = (found[kept] for found in bands(values))
        ends = {f"curve/{column}": mean}
        if column in with_bands:
            ends |= {f"interval/{column}_lower": mean - half, f"interval/{column}_upper": mean + half}
        for key, points in ends.items():
            for episode, value in zip(episodes[kept], points, strict=True):
                if np.isfinite(value):
                    yield key, float(value), int(episode)


def _has_band(metric: Metric) -> bool:
    """Whether its curve has a band. A median has none: its interval is not Student's."""
    return metric.across == "mean" and (metric.headline or metric.over == "sum" or is_result(metric))


def _constants(metrics: Sequence[Metric], results: CellResults, horizon: float) -> dict[str, float]:
    """Return the numbers of a cell that have no curve, by their keys in MLflow."""
    # MLflow draws a chart for each, so the other proved numbers are in certificate.json only.
    left_out = privacy_columns(results.certificate).keys() - _EPSILONS
    numbers = {"seconds": results.seconds, **final_numbers(metrics, results)}
    constants = {_grouped(name): number for name, number in numbers.items() if name not in left_out}
    headlines = headline_numbers(metrics, results.records, horizon)
    constants |= {f"cell/{name}": number for name, number in headlines.items()}
    return {key: float(number) for key, number in constants.items() if number is not None}


def _grouped(name: str) -> str:
    """Return the MLflow key of a number that exists only at the end of a cell."""
    if name.startswith(_DERIVED):
        return f"derived/{name.removeprefix(_DERIVED)}"
    return _GROUPS.get(name, f"{_REACHED}{name}")


def cell_parameters(experiment: Experiment) -> dict[str, Scalar]:
    """Return the settings under their dotted paths, preceded by the identifying ones.

    MLflow's compare page sorts parameters by their characters, capitals first, and plots the first three that differ.
    """
    settings = experiment.parameters()
    known = {name: settings[key] for name, key in _IDENTITY.items() if key in settings}
    if unit_of([settings]) == "user":
        known["Users"] = settings["episodes"]
    return known | settings


def cell_tags(results: CellResults) -> dict[str, str]:
    """Return the search tags: algorithm, trust model, verdict, certified epsilon and theorem."""
    stands = standing(results.certificate)
    return {
        "algorithm": results.certificate["algorithm"],
        "trust_model": results.certificate["trust_model"],
        "verdict": stands.verdict,
        "proved_epsilon": f"{stands.proved:.6g}",
        "theorem": results.theorem or "none",
    }


def failing_claim(certificate: Mapping[str, Any]) -> str:
    """Return the verdict on a failing claim in a word; '' if it holds or there is none."""
    verdict = verdict_id(certificate)
    return "" if verdict in ("holds", "reference") else VERDICTS[verdict].word


def certificate_note(certificate: Mapping[str, Any]) -> str:
    """Return the certificate's verdict in Markdown, the description of a run."""
    return f"{CERTIFICATE_HEADING}\n\n**{verdict_line(certificate)}**"


def sweep_entries(groups: Sequence[Group], command: str) -> SweepEntries:
    """Return the entries of a sweep with these groups of finished cells; `command` resumes it.

    The metrics `best/MODEL/...` are the headline, as mean over seeds, and the certified epsilon of each trust model's
    best cell, of several environments in the first; `best/...` are those of the cell in the report's first sentence, if
    there is one, else of the best cell. A private cell without a finite certified epsilon is never the best.
    """
    metrics = dict[str, float]()
    first = next((group for group in groups if group.metric is not None), None)
    best = {} if first is None else dict(_best_cells(first))
    for model, cell in best.items():
        metrics |= _numbers(f"best/{model}", cell)
    named = leading_budget(groups)
    if named is not None and named.place is not None:
        metrics |= _numbers("best", named.cell)
    elif best:
        metrics |= _numbers("best", next(iter(best.values())))
    answer = answer_of(groups)
    return metrics, _with_command(f"**{answer}.**", command) if answer else unfinished_note(command)


def unfinished_note(command: str) -> str:
    """Return the description of a sweep without a finished cell."""
    return _with_command("No cell is finished that could be compared.", command)


def _best_cells(group: Group) -> Iterator[tuple[str, Cell]]:
    """Yield every trust model with its best cell, the first one in the group."""
    for model in dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells):
        fit = [cell for cell in group.cells if cell.row["privacy.model"] == model]
        found = next((cell for cell in fit if not cell.private or math.isfinite(cell.proved)), None)
        if found is not None:
            yield model, found


def _numbers(folder: str, cell: Cell) -> dict[str, float]:
    """Return the finite numbers of a best cell by their keys."""
    if cell.metric is None:
        return {}
    numbers = {f"{folder}/{cell.metric.name}": float(cell.finals.mean())}
    if cell.private:
        numbers[f"{folder}/certified_epsilon"] = cell.proved
    return {key: number for key, number in numbers.items() if math.isfinite(number)}


def _with_command(answer: str, command: str) -> str:
    return f"{ANSWER_HEADING}\n\n{answer}\n\nThis command resumes or repeats the sweep:\n\n    {command}\n"
