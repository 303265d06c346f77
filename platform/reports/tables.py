"""The summary of a sweep as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import pandas as pd

from dprl.algorithms import Metric
from dprl.algorithms.base import REGRET
from dprl.platform.errors import counted, first_of
from dprl.platform.program import command
from dprl.platform.reports.number_texts import bound, episode_reached, number, rounded
from dprl.platform.reports.terminal import Table, write_table
from dprl.platform.reports.verdicts import AT_DELTA, verdict_word
from dprl.platform.results.summary import (
    PROVES_NOTHING,
    SATURATION_REMEDY,
    full_label,
    headlines_in,
    results_in,
    unit_of,
)

_MOST_ROWS = 200
"""Maximum of rows on the terminal; all are in summary.csv."""
_MOST_NAMED = 3
"""Maximum of cells named in a warning, which counts the others."""
_MUCH_MORE = 1.1
"""Times the least noise known: cells with more are told of."""
_GOOD = {"low": "lower", "high": "higher"}


class _Column(NamedTuple):
    """A column of the table. needs: a column of the summary. text: for a row that has it. meaning: for the legend."""

    header: str
    needs: str
    text: Callable[[Mapping[Any, Any]], str]
    meaning: str = ""


_HALF_BAND = "95% CI half-width"
_OF_REGRET = (
    _Column("regret", "regret", lambda row: number(row["regret"])),
    _Column("+-95%", "regret_upper", lambda row: number(row["regret_upper"] - row["regret"]), _HALF_BAND),
    _Column(
        "regret/ep.",
        "regret_per_episode_first",
        lambda row: f"{row['regret_per_episode_first']:.2g}->{row['regret_per_episode_last']:.2g}",
        "regret per episode, first -> last block",
    ),
    _Column(
        "halving",
        "halved_at",
        lambda row: episode_reached(row["halved_at"], row["episodes"]),
        "episodes to half regret, median over seeds",
    ),
)
_OF_PRIVACY = (
    _Column("claim", "claimed_epsilon", lambda row: number(row["claimed_epsilon"])),
    _Column("certified", "proved_epsilon", lambda row: bound(row["proved_epsilon"])),
    _Column("verdict", "verdict", verdict_word),
)
_LAST = (
    _Column(
        "caps",
        "saturated",
        lambda row: f"{row['saturated']:.0%}",
        "share of (h, s, a), a of all players or agents, whose estimates are at their caps",
    ),
    _Column("s", "seconds", lambda row: f"{row['seconds']:.1f}"),
)


def write_summary(stream: TextIO, summary: pd.DataFrame) -> None:
    """Write one row per cell, up to a limit, and below the table warnings on some of them."""
    rows = summary.to_dict("records")
    unit = unit_of(rows)
    results = [column for metric in headlines_in(summary.columns) for column in _of_headline(metric)]
    results += [_of_result(metric, unit) for metric in results_in(summary.columns)]
    label = _Column("cell", "label", lambda row: str(row["label"]))
    columns = [
        column for column in (label, *_OF_REGRET, *results, *_OF_PRIVACY, *_LAST) if column.needs in summary.columns
    ]
    shown = rows[:_MOST_ROWS]
    texts = [["-" if pd.isna(row[column.needs]) else column.text(row) for column in columns] for row in shown]
    headers = [column.header for column in columns]
    notes = [f"... and {counted(len(rows) - len(shown), 'cell')} more, in summary.csv"] * (len(rows) > len(shown))
    meanings = dict.fromkeys(f"{column.header}: {column.meaning}" for column in columns if column.meaning)
    if any(row["verdict"] == "holds_approximately" for row in rows):
        meanings[AT_DELTA] = None
    notes += ["; ".join(["columns: docs/metrics.md", *meanings]), *filter(None, [noise_note(rows)]), *_warnings(rows)]
    write_table(stream, Table(headers, texts, headers[:1]), notes)


def _warnings(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Return a line for each note on cells."""
    warnings: dict[str, list[str]] = {}
    for row in rows:
        if pd.notna(row["note"]) and row["note"]:
            warnings.setdefault(str(row["note"]), []).append(str(row["label"]))
    told = []
    for note, labels in warnings.items():
        named = "; ".join(first_of(labels, _MOST_NAMED))
        remedy = f"; try {SATURATION_REMEDY}" if PROVES_NOTHING not in note else ""
        told.append(f"warning: {note}{remedy} ({named})")
    return told


def noise_note(rows: Sequence[Mapping[Any, Any]]) -> str:
    """Return a line on cells with more noise than the least known for their claims, '' if there are none."""
    ratios = [row["noise_sd"] / row["least_noise_sd"] for row in rows if row.get("least_noise_sd", 0.0) > 0.0]
    more = [ratio for ratio in ratios if ratio > _MUCH_MORE]
    if not more:
        return ""
    cells, most = f"{len(more):,} of {counted(len(rows), 'cell')}", rounded(max(more), 2)
    told = f"Noise in {cells} is up to {most} times the least known for its claim and releases"
    return f"{told}; settings: `{command('certify', 'CONFIG')}`"


def _of_headline(metric: Metric) -> list[_Column]:
    """Return the columns of a headline that is a mean; those of regret are fixed."""
    if metric == REGRET or metric.over != "mean":
        return []
    name, header = metric.name, metric.short or metric.label
    return [
        _Column(header, name, lambda row: number(row[name]), f"mean over the run, {_GOOD[metric.better]} is better"),
        _Column("+-95%", f"{name}_upper", lambda row: number(row[f"{name}_upper"] - row[name]), _HALF_BAND),
        _Column(
            "first->last",
            f"{name}_first",
            lambda row: f"{row[f'{name}_first']:.3g}->{row[f'{name}_last']:.3g}",
            f"{metric.label} of the first and the last block",
        ),
    ]


def _of_result(metric: Metric, unit: str) -> _Column:
    """Return the column of a metric after the last episode: rewards have two significant digits, others four."""

    def text(row: Mapping[Any, Any]) -> str:
        value = row[metric.name]
        if metric.unit == "episodes":
            return episode_reached(value, row["episodes"])
        return f"{value:.2g}" if metric.unit == "reward" else number(value)

    over = "" if metric.across == "mean" else ", median over seeds"
    meaning = f"{full_label(metric)} after the last {unit}{over}"
    if metric.of == "run" and metric.definition:
        meaning = f"{metric.definition}{over}"
    return _Column(metric.short, metric.name, text, meaning)
