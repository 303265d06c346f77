"""Tables and numbers of reproductions' pages, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dprl.platform.reports.number_texts import epsilon_text
from dprl.platform.reproductions.claims import Cells, Decided, PublishedTable, verdict_of
from dprl.platform.results.inference import Estimate

_BAR = "\\|"
_WORDS = {"holds": "**holds**", "fails": "**fails**", "open": "open", "not run": ""}


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table of rows, each with its texts by header."""
    lines = ([*rows[0]], [":--"] * len(rows[0]), *([*row.values()] for row in rows))
    return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)


def number(value: float, decimals: int = 0) -> str:
    """Return a number with `decimals` decimals, a dash for NaN."""
    if math.isnan(value):
        return "\u2014"
    return f"{value:.{decimals}f}" if math.isfinite(value) else "\u221e" if value > 0 else "-\u221e"


def plain(value: float) -> str:
    """Return a number with three significant digits, or as a whole number if that is longer."""
    return f"{value:.3g}" if math.isfinite(value) and abs(value) < 100 else number(value)


def interval(found: Estimate, decimals: int = 0) -> str:
    """Return a number with its interval, if it has one."""
    ends = "" if math.isnan(found.lower) else f" [{number(found.lower, decimals)}, {number(found.upper, decimals)}]"
    return number(found.value, decimals) + ends


def counted(cells: Cells, units: tuple[str, str]) -> str:
    """Return the number of runs per cell and their length, e.g. '100 trials of 90,000 submissions for each cell.'"""
    counts = sorted({cell.count for cell in cells.values()})
    runs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    longest = max(cell.episodes for cell in cells.values())
    return f"{runs} {units[0]} of {longest:,} {units[1]} for each cell."


def sentence_table(decided: Decided, groups: Sequence[str]) -> str:
    """Return the verdict on each sentence: one column per group."""
    return table(
        [
            {"sentence": one.text, "place": one.place}
            | {group: _WORDS[verdict_of(by_group[group])] for group in groups}
            for one, by_group in decided.items()
        ]
    )


def published_table(
    published: Sequence[PublishedTable], groups: Sequence[str], cells: Cells, runs: int, names: Mapping[str, str]
) -> str:
    """Return all published numbers beside ours, one column per group; bold ones lie outside of our range."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for one in published:
        for group in groups:
            for entry in one.entries(group, cells, runs):
                if entry.published is not None:
                    key, printed = entry.key, number(entry.published, one.decimals)
                    about = names[key.mechanism], epsilon_text(key.epsilon, 6), f"{key.setting:g}"
                    row = rows.setdefault((one.name, *about, printed), {})
                    ours = interval(entry.ours, one.measure.decimals)
                    row[group] = f"**{ours}**" if entry.inside is False else ours
    headers = "table", "mechanism", "\u03b5", "setting", "published"
    return table([dict(zip(headers, about, strict=True)) | ours for about, ours in rows.items()])
