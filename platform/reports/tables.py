"""The summary of a sweep as a table: with rich on a terminal, aligned plain text otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dprl.platform.reports.records import EXPLOITABILITY, SATURATION_REMEDY, SMALLEST_GAP
from dprl.platform.reports.verdicts import number

VERDICTS = {"holds": "holds", "holds_approximately": "at delta", "fails": "FAILS"}
_LEGEND = (
    "columns: docs/metrics.md; +-95%: half the band over seeds; regret/ep.: first -> last block; halved: the episode, "
    "median over seeds; satur.: share of (h,s,a) whose value is at its cap"
)
_OF_GAMES = (
    "gap, exploit.: the smallest V_up-V_lo after the last episode, and its policy's exploitability; such cells' satur. "
    "is of (h,s,a,b), both of whose bounds are at their caps"
)
_HEADERS = ("cell", "regret", "+-95%", "regret/ep.", "halved", "claim", "proved", "verdict", "satur.", "s")
_GAPS = {SMALLEST_GAP: "gap", EXPLOITABILITY: "exploit."}
"""Columns of sweeps in which some cell has them, and their headers; they follow the episode of halving."""
_GAPS_AT = _HEADERS.index("halved") + 1


def episode_reached(episode: float, episodes: int) -> str:
    """Return the episode, or '>K' where it lies beyond the `episodes` that were run."""
    return f">{episodes}" if math.isinf(episode) else f"{episode:.0f}"


def write_table(stream: TextIO, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table whose first column is text and whose others are numbers."""
    if stream.isatty():
        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, header in enumerate(headers):
            table.add_column(header, justify="left" if i == 0 else "right", no_wrap=i > 0)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console(file=stream).print(table)
        return
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        stream.write("  ".join([row[0].ljust(widths[0]), *cells]).rstrip() + "\n")


def write_summary(stream: TextIO, summary: pd.DataFrame) -> None:
    """Write one row a cell, and below it what the reader must know about some of them."""
    gaps = {column: header for column, header in _GAPS.items() if column in summary}
    rows = [_summary_cells(row, list(gaps)) for row in summary.to_dict("records")]
    write_table(stream, [*_HEADERS[:_GAPS_AT], *gaps.values(), *_HEADERS[_GAPS_AT:]], rows)
    legend = f"{_LEGEND}; {_OF_GAMES}" if gaps else _LEGEND
    if stream.isatty():
        Console(file=stream).print(Text(legend, style="dim"), soft_wrap=True)
    else:
        stream.write(legend + "\n")
    warnings: dict[str, list[str]] = {}
    for row in summary.to_dict("records"):
        if row["note"]:
            warnings.setdefault(str(row["note"]), []).append(str(row["label"]))
    for note, labels in warnings.items():
        stream.write(f"warning: {note}; try {SATURATION_REMEDY} ({'; '.join(labels)})\n")


def _summary_cells(row: Mapping[Any, Any], gaps: Sequence[str]) -> list[str]:
    half = row["regret_upper"] - row["regret"]
    first, last = row["regret_per_episode_first"], row["regret_per_episode_last"]
    claimed = row["claimed_epsilon"]
    return [
        str(row["label"]),
        number(row["regret"]),
        "-" if math.isnan(half) else number(half),
        f"{first:.2g}->{last:.2g}",
        episode_reached(row["halved_at"], row["episodes"]),
        *("-" if math.isnan(row[column]) else f"{row[column]:.2g}" for column in gaps),
        "-" if claimed is None or math.isnan(claimed) else number(claimed),
        number(row["proved_epsilon"]),
        VERDICTS.get(str(row["verdict"]), str(row["verdict"])),
        f"{row['saturated']:.0%}",
        f"{row['seconds']:.1f}",
    ]
