"""Tables and numbers of reproductions' pages, in Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from dprl.platform.reports import number_texts
from dprl.platform.reports.inference.effects import Estimate
from dprl.platform.reproductions.claims import (
    Cells,
    Decided,
    Inequality,
    Measure,
    NumberEntry,
    PaperCell,
    PublishedTable,
    inside,
    verdict_of,
)
from dprl.platform.results.summary import standing

INFINITE, MISSING = "\u221e", "\u2014"
_BAR = "\\|"
_TEXTS = {
    *(
        "algorithm",
        "mechanism",
        "trust model",
        "settings",
        "reading",
        "cell",
        "quantity",
        "against",
        "at",
    ),
    *("theorem", "order", "claimed", "order of regret", "attack", "B", "search", "inside", "verdict"),
}
"""Headers of columns without numbers."""
_WORDS = {"holds": "**holds**", "fails": "**fails**", "open": "open", "not run": ""}


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """Return a table of rows, each with its texts by header; '' for no rows."""
    return markdown_table([*rows], _TEXTS)


def markdown_table(rows: Sequence[Mapping[str, str]], texts: Collection[str]) -> str:
    """Return a table of rows, texts by header, with the columns `texts` aligned left, the others right; '' for none."""
    if not rows:
        return ""
    rule = [":--" if header in texts else "--:" for header in rows[0]]
    lines = ([*rows[0]], rule, *([*row.values()] for row in rows))
    return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)


def number(value: float, decimals: int = 0) -> str:
    """Return a number with `decimals` decimals."""
    if math.isnan(value):
        return MISSING
    return f"{value:.{decimals}f}" if math.isfinite(value) else INFINITE if value > 0 else f"-{INFINITE}"


def plain(value: float) -> str:
    """Return a number with three significant digits, or as a whole number if that is longer."""
    return f"{value:.3g}" if math.isfinite(value) and abs(value) < 100 else number(value)


def ends(found: Estimate, decimals: int = 0) -> str:
    """Return an interval."""
    return MISSING if math.isnan(found.lower) else f"[{number(found.lower, decimals)}, {number(found.upper, decimals)}]"


def interval(found: Estimate, decimals: int = 0) -> str:
    """Return a number with its interval, if it has one."""
    return number(found.value, decimals) + ("" if math.isnan(found.lower) else f" {ends(found, decimals)}")


def measured(measure: Measure, cell: PaperCell) -> str:
    """Return a measure of all runs of a cell with its interval."""
    return interval(measure.estimate(cell), measure.decimals)


def per_cent(value: float) -> str:
    """Return a share in per cent."""
    return MISSING if math.isnan(value) else f"{100.0 * value:.1f} %"


def p_value(value: float) -> str:
    """Return a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def epsilon_text(value: float) -> str:
    """Return a claimed epsilon."""
    return number_texts.epsilon_text(value, 6)


def proved_text(cell: PaperCell) -> str:
    """Return the proved epsilon of a cell, and delta if it is positive."""
    delta = float(cell.certificate["claimed"]["delta"] or 0.0)
    return number_texts.number(standing(cell.certificate).proved, INFINITE) + (f", \u03b4={delta:g}" if delta else "")


def run_counts(cells: Cells) -> str:
    """Return the number of runs per cell: '30', or '10 to 30' if cells differ."""
    counts = [cell.count for cell in cells.values()]
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def longest(cells: Cells) -> int:
    """Return the length of the longest runs."""
    return max(cell.episodes for cell in cells.values())


def left_open(cells: Cells) -> str:
    """Return the channels that the certificates of private cells do not cover."""
    noisy = [cell.certificate for cell in cells.values() if cell.certificate["trust_model"] != "none"]
    return "; ".join(dict.fromkeys(name for one in noisy for name in one["excluded_channels"])) or "nothing known"


def sentence_table(decided: Decided, groups: Sequence[str]) -> str:
    """Return the verdict on each sentence: one column per group."""
    rows = [
        {"sentence": one.text, "place": one.place, **{group: _WORDS[verdict_of(by_group[group])] for group in groups}}
        for one, by_group in decided.items()
    ]
    return markdown_table(rows, ("sentence", "place", *groups))


def claim_table(decided: Decided, groups: Sequence[str], runs: int) -> str:
    """Return each claim's difference with its interval, and how often the paper's number of runs would show it."""
    found: dict[Inequality, dict[str, str]] = {}
    for by_group in decided.values():
        for group, outcomes in by_group.items():
            for one in outcomes:
                told = interval(one.difference.estimate, one.claim.measure.decimals)
                found.setdefault(one.claim, {})[group] = f"{told}, seen {one.difference.seen:.2f}"
    name = f"claim (seen: in {runs} runs)"
    rows = [{name: claim.label, **{group: texts.get(group, "") for group in groups}} for claim, texts in found.items()]
    return markdown_table(rows, (name,))


def published_table(
    one: PublishedTable, by_group: Mapping[str, Sequence[NumberEntry]], names: Mapping[str, str]
) -> str:
    """Return a table of the paper beside ours: one per group."""
    parts = [f"### {one.name}: {one.title}"]
    for group, entries in by_group.items():
        hits, asked = inside(entries)
        rows = (_published_row(one, entry, names) for entry in entries)
        parts += [f"**{group}**: {hits} of {asked} published numbers inside.", table(rows)]
    return "\n\n".join(parts)


def _published_row(one: PublishedTable, entry: NumberEntry, names: Mapping[str, str]) -> dict[str, str]:
    decimals = one.measure.decimals
    row = {
        "mechanism": names[entry.key.mechanism],
        "\u03b5": epsilon_text(entry.key.epsilon),
        "setting": f"{entry.key.setting:g}",
        "published": "" if entry.published is None else number(entry.published, one.decimals),
        "ours [95 %]": interval(entry.ours, decimals),
        "first runs": number(entry.first, decimals),
        "as many runs": "" if math.isnan(entry.spread[0]) else " to ".join(number(x, decimals) for x in entry.spread),
        "inside": {None: "", True: "yes", False: "**no**"}[entry.inside],
    }
    if entry.absolute is not None:
        row[f"{one.measure.name}, not relative [95 %]"] = interval(entry.absolute, decimals)
    return row


def privacy_table(cells: Cells, names: Mapping[str, str]) -> str:
    """Return the guarantee of the noise that ran, one row per distinct guarantee."""
    stands = ((key, standing(cell.certificate)) for key, cell in cells.items())
    found = Counter(
        (names.get(key.mechanism, key.mechanism), epsilon_text(key.epsilon), epsilon_text(one.proved), one.verdict)
        for key, one in stands
    )
    headers = "mechanism", "claimed \u03b5", "proved \u03b5", "verdict"
    return table({**dict(zip(headers, row, strict=True)), "cells": str(count)} for row, count in found.items())
