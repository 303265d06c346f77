"""The summary of a sweep as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TextIO

import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.errors import counted, first_of
from dprl.platform.reports.number_texts import bound, episode_reached, number
from dprl.platform.reports.terminal import Table, write_table
from dprl.platform.reports.verdicts import AT_DELTA, verdict_word
from dprl.platform.results.summary import full_label, headlines_in, results_in, unit_of

_MOST_ROWS = 200  # maximum of rows on the terminal; all are in summary.csv
_MOST_NAMED = 3  # maximum of cells named in a warning, which counts the others


def write_summary(stream: TextIO, summary: pd.DataFrame) -> None:
    """Write one row per cell, up to a limit, and below the table a legend and warnings on some of the cells."""
    rows = summary.to_dict("records")
    shown, unit = rows[:_MOST_ROWS], unit_of(rows)
    headers, columns, meanings = list[str](), list[list[str]](), dict[str, None]()

    def add(header: str, needs: str, text: Callable[[Mapping[Any, Any]], str], meaning: str = "") -> None:
        """Add a column of the table if the summary has the column `needs`. meaning: for the legend."""
        if needs in summary.columns:
            headers.append(header)
            columns.append(["-" if pd.isna(row[needs]) else text(row) for row in shown])
            meanings.update({f"{header}: {meaning}": None} if meaning else {})

    def add_number(header: str, name: str, meaning: str = "") -> None:
        add(header, name, lambda row: number(row[name]), meaning)
        add("+-95%", f"{name}_upper", lambda row: number(row[f"{name}_upper"] - row[name]), "95% CI half-width")

    def add_change(header: str, name: str, digits: int, meaning: str) -> None:
        ends = f"{name}_first", f"{name}_last"
        add(header, ends[0], lambda row: "->".join(f"{row[end]:.{digits}g}" for end in ends), meaning)

    def add_result(metric: Metric) -> None:
        """Rewards have two significant digits, others four."""
        name, over = metric.name, "" if metric.across == "mean" else ", median over seeds"
        meaning = (metric.of == "run" and metric.definition) or f"{full_label(metric)} after the last {unit}"
        texts: dict[str, Callable[[Mapping[Any, Any]], str]] = {
            "episodes": lambda row: episode_reached(row[name], row["episodes"]),
            "reward": lambda row: f"{row[name]:.2g}",
        }
        add(metric.short, name, texts.get(metric.unit, lambda row: number(row[name])), f"{meaning}{over}")

    add("cell", "label", lambda row: str(row["label"]))
    add_number("regret", "regret")
    add_change("regret/ep.", "regret_per_episode", 2, "regret per episode, first -> last block")
    halving = "episodes to half regret, median over seeds"
    add("halving", "halved_at", lambda row: episode_reached(row["halved_at"], row["episodes"]), halving)
    for metric in (metric for metric in headlines_in(summary.columns) if metric.over == "mean"):
        meaning = f"mean over the run, {metric.better}er is better"
        add_number(metric.short or metric.label, metric.name, meaning)
        add_change("first->last", metric.name, 3, f"{metric.label} of the first and the last block")
    for metric in results_in(summary.columns):
        add_result(metric)
    add("claim", "claimed_epsilon", lambda row: number(row["claimed_epsilon"]))
    add("certified", "proved_epsilon", lambda row: bound(row["proved_epsilon"]))
    add("verdict", "verdict", verdict_word)
    caps = "share of (h, s, a), a of all players or agents, whose estimates are at their caps"
    add("caps", "saturated", lambda row: f"{row['saturated']:.0%}", caps)
    add("s", "seconds", lambda row: f"{row['seconds']:.1f}")

    if any(row["verdict"] == "holds_approximately" for row in rows):
        meanings[AT_DELTA] = None
    notes = [f"... and {counted(len(rows) - len(shown), 'cell')} more, in summary.csv"] * (len(rows) > len(shown))
    notes.append("; ".join(["columns: docs/metrics.md", *meanings]))
    noted = summary.dropna(subset="note")
    for note, labels in noted[noted["note"] != ""].groupby("note", sort=False)["label"]:
        notes.append(f"warning: {note} ({'; '.join(first_of(labels.astype(str).tolist(), _MOST_NAMED))})")
    write_table(stream, Table(headers, list(zip(*columns, strict=True)), headers[:1]), notes)
