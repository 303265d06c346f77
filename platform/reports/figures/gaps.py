"""The second figure of a sweep: how good the output policies are; in games, how small a gap and how exploitable."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dprl.platform.reports.figures.curve_figures import SIMULTANEOUS
from dprl.platform.reports.figures.drawing import TITLE_SIZE, ValueAxis, draw_curve, listed, wrapped
from dprl.platform.reports.figures.panels import (
    BAND_ALPHA,
    MODEL,
    MOST_BANDS,
    Column,
    Panels,
    Style,
    completed,
    draw_over_epsilon,
    with_legend_and_title,
)
from dprl.platform.reports.records import full_label, gaps_in
from dprl.platform.reports.verdicts import epsilon_sign

_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_MARGIN = 5.6, 3.9, 0.9
"""In inches; the margin is what axes leave of a panel's height to names."""
_LABEL_SIZE = 8
_LABEL_LINE = 0.14
"""Height of a line of a label, in inches."""
_LABEL_WIDTH = 3.0
_LABEL_AT = 1.04
"""Where labels begin, in widths of the axes: right of the end of their lines."""
_LABEL_GAP = 0.03
"""Between labels and the panel right of them, as a share of a panel."""


class _Label(NamedTuple):
    """What stands beside the end of a curve. at: the end's height, as a share of the axes."""

    text: str
    at: float
    style: Style


def with_gaps(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the figure draws: those that have the first gap."""
    found = gaps_in(summary.columns)
    if not found:
        return summary.iloc[:0]
    return completed(summary[summary[found[0].name].notna()], [metric.name for metric in found])


def gaps_figure(summary: pd.DataFrame, curves: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw the first gap over episodes, and all of them against proved epsilon; return a PNG.

    Gaps are `records.is_gap`: of games the smallest gap and the exploitability. summary: rows of
    `records.summary_row` that have the first. curves: of each cell's first gap, by its digest, as
    `ReportCell.curve_of` gives them. A row of panels per environment and number of episodes.
    """
    results = [metric for metric in gaps_in(summary.columns) if summary[metric.name].notna().all()]
    panels = Panels.of(summary)
    most = max(len(cells) for _, cells in panels.titled)
    # Names of lines that differ in three settings or more take two lines.
    height = max(_PANEL_HEIGHT, _PANEL_MARGIN + _LABEL_LINE * most * (1 + (len(panels.line_keys) > 2)))
    layout = ConstrainedLayoutEngine(wspace=_LABEL_GAP)
    rows = len(panels.titled)
    figure = Figure(figsize=(1.6 + 2 * _PANEL_WIDTH, 0.3 + height * rows), layout=layout)
    columns = Column.several(panels, summary, {metric.name: metric.label for metric in results})
    for (title, cells), (left, right) in zip(panels.titled, figure.subplots(rows, 2, squeeze=False), strict=True):
        _draw_curves(left, cells, panels, curves, full_label(results[0]))
        _name_ends(left, cells, panels, curves, height - _PANEL_MARGIN)
        draw_over_epsilon(right, cells, panels, columns, "after the last episode")
        for axes in (left, right):
            axes.set_title(wrapped(title, 4.5), fontsize=TITLE_SIZE)
    labels = listed([metric.label for metric in results])
    title = f"{labels.capitalize()} of the output policy, {_covered_text(summary)}"
    return with_legend_and_title(figure, summary, panels, columns, title, together=len(columns))


def _covered_text(summary: pd.DataFrame) -> str:
    """Return in which cells a theorem makes a proof of what is drawn."""
    covered = int(summary["theorem"].fillna("").ne("").sum())
    if covered == 0:
        return "no theorem covers any"
    return f"a theorem covers {'all cells' if covered == len(summary) else f'{covered} of {len(summary)} cells'}"


def _draw_curves(
    axes: Axes, cells: pd.DataFrame, panels: Panels, curves: Mapping[str, pd.DataFrame], what: str
) -> None:
    """Draw curves over episodes, a line a cell, up to three of them with bands. what: is drawn, in units of reward."""
    every = pd.concat([curves[digest] for digest in cells["cell"]])
    means = every["mean"].to_numpy()
    axis = ValueAxis.of(means)
    alpha = BAND_ALPHA if len(cells) <= MOST_BANDS else 0.0
    for name, line in panels.lines(cells):
        style = panels.styles[name]
        for digest in line["cell"]:
            draw_curve(axes, curves[digest], (axis.floor, math.inf), alpha, color=style.colour, ls=style.dashes)
    axes.set_xscale("log")
    axes.set_xlim(1, every["episode"].max())
    banded = alpha > 0.0 and every["lower"].notna().any()
    axes.set_xlabel(f"episode; {SIMULTANEOUS}" if banded else "episode")
    axis.apply(axes, what, "reward", means, every["lower"].to_numpy())
    axes.grid(alpha=0.3)
    axes.autoscale(enable=False)


def _name_ends(
    axes: Axes, cells: pd.DataFrame, panels: Panels, curves: Mapping[str, pd.DataFrame], inches: float
) -> None:
    """Mark the end of every curve and write its name beside it, where no legend covers data.

    The axes must have their final limits. inches: their height, about.
    """
    labels = []
    lines = panels.lines(cells)
    models = Counter(line[MODEL].iloc[0] for _, line in lines)
    for name, line in lines:
        # The legend has the name in full.
        model = line[MODEL].iloc[0]
        short = model if models[model] == 1 else name
        for _, row in line.iterrows():
            last = curves[row["cell"]].iloc[-1]
            end = last["episode"], last["mean"]
            height = axes.transAxes.inverted().transform(axes.transData.transform(end))[1]
            labels.append(_Label(_cell_name(short, row), float(height), panels.styles[name]))
            if row[MODEL] != "none":
                _mark_end(axes, end, panels.styles[name], row["verdict"] == "holds")
    _write_labels(axes, labels, inches)


def _mark_end(axes: Axes, at: tuple[float, float], style: Style, holds: bool) -> None:
    """Put the marker of the right panel at the end of a curve; hollow where the claim fails."""
    inside = style.colour if holds else "white"
    axes.plot(*at, ls="", marker=style.marker, color=style.colour, mfc=inside, clip_on=False, zorder=3)


def _cell_name(line: str, row: pd.Series[Any]) -> str:
    """Return what tells the line, the epsilon that is proved, whatever was claimed, and whether the claim fails."""
    if row[MODEL] == "none":
        return line
    fails = {"holds": "", "holds_approximately": ", fails at \u03b4=0"}.get(row["verdict"], ", fails")
    return f"{line} \u03b5={epsilon_sign(row['proved_epsilon'])}{fails}"


def _write_labels(axes: Axes, labels: Sequence[_Label], inches: float) -> None:
    """Write names right of the axes, moved apart where they would lie on each other, each with a line to its end."""
    ordered = sorted(labels, key=lambda label: label.at)
    texts = [wrapped(label.text, _LABEL_WIDTH) for label in ordered]
    heights = [(text.count("\n") + 1) * _LABEL_LINE / inches for text in texts]
    places = _apart([label.at for label in ordered], heights)
    for label, text, place in zip(ordered, texts, places, strict=True):
        axes.text(_LABEL_AT, place, text, va="center", fontsize=_LABEL_SIZE, transform=axes.transAxes)
        style: dict[str, Any] = {"color": label.style.colour, "lw": 0.6, "clip_on": False, "zorder": 1}
        axes.plot((1.0, _LABEL_AT - 0.005), (label.at, place), transform=axes.transAxes, **style)


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return places near the `wanted`, rising ones, such that texts of these heights about them do not overlap."""
    places: list[float] = []
    for want, height in zip(wanted, heights, strict=True):
        least = places[-1] + (heights[len(places) - 1] + height) / 2 if places else want
        places.append(max(want, least))
    # From the top down: what was pushed above the axes goes back, and pushes what is below it.
    ceiling = 1.0
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], ceiling - heights[i] / 2)
        ceiling = places[i] - heights[i] / 2
    return places
