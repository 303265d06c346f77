"""Figures of reproductions: charts side by side, and one point with its interval per cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dprl.platform.reports.figures.charts import Axis, Chart, Line, LineName, Panel
from dprl.platform.reports.figures.colours import BLACK, BLUE, GREEN, INDIGO, ORANGE, PINK, VERMILION, Look, Shades
from dprl.platform.reports.figures.marks import draw_panel
from dprl.platform.reports.figures.styles import drawing, render, style_of
from dprl.platform.reports.inference.effects import Estimate

SHADES = (BLUE, VERMILION, GREEN, PINK, ORANGE, INDIGO, BLACK)
SOLID, DASHED, DOTTED = "-", (0, (5, 1.5)), (0, (1, 1))
_STYLE = replace(style_of("page"), text=10.0, ticks=9.0, small=8.0, line=1.4)
_WIDTH, _HEIGHT, _ROW = 3.7, 2.9, 0.155
"""Sizes of a panel and of a row of points, in inches."""
_LEGEND_ROW = 0.2


def curve(
    label: str, x: npt.ArrayLike, y: npt.ArrayLike, look: tuple[Shades, Look], band: npt.ArrayLike | None = None
) -> Line:
    """Return the curve of one cell, or a level for comparison; '' leaves it out of the legend.

    x, y: float64[n]. band: its two ends, float64[2, n].
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    low, high = np.full((2, len(at)), math.nan) if band is None else np.asarray(band)
    return Line(LineName(label, "", (), free=False, given=True), *look, at, values, low, high)


def chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, warning: str = "") -> Chart:
    """Return a chart of one panel. warning: text across it if the shown cells protect nobody."""
    return Chart("", title, warning, "curves", ((Panel(title, tuple(lines)),),), x, y)


def draw_charts(grid: Sequence[Sequence[Chart]], title: str) -> bytes:
    """Draw rows of charts of one panel as a PNG, with a legend under each column."""
    legend = _LEGEND_ROW * max(len(each.lines) for each in grid[-1])
    style = replace(_STYLE, width=len(grid[0]) * _WIDTH)
    with drawing():
        figure = Figure(figsize=(style.width, len(grid) * _HEIGHT + legend), layout="constrained")
        places = figure.subplots(len(grid), len(grid[0]), squeeze=False)
        for (i, j), axes in np.ndenumerate(places):
            shown, outer = grid[i][j], j == 0 or grid[i][j].y != grid[i][j - 1].y
            draw_panel(axes, shown, shown.panels[0], style)
            axes.set_title(shown.title, fontsize=style.text, weight="bold" if shown.caption else "normal")
            axes.tick_params(labelleft=outer, labelbottom=i == len(grid) - 1)
            axes.set_ylabel(shown.y.title if outer else "", fontsize=style.text)
            if shown.caption:
                axes.set_facecolor("#f2f2f2")
                where: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "top"}
                axes.text(0.5, 0.93, shown.caption, fontsize=15, weight="bold", **where)
            if i == len(grid) - 1:
                axes.set_xlabel(shown.x.title, fontsize=style.text)
                named = {line.name.algorithm: drawn for line, drawn in zip(shown.lines, axes.get_lines(), strict=True)}
                named.pop("", None)
                look: dict[str, Any] = {"frameon": False, "fontsize": style.small, "handlelength": 3.6}
                axes.legend([*named.values()], [*named], loc="upper center", bbox_to_anchor=(0.5, -0.18), **look)
        figure.suptitle(title, fontsize=style.text)
    return render(figure, "png")


class Point(NamedTuple):
    """Estimate of one cell."""

    label: str
    found: Estimate
    colour: str
    marker: str


def draw_points(
    groups: Sequence[tuple[str, bool, Sequence[Point]]], levels: Sequence[tuple[float, str]], title: str, name: str
) -> bytes:
    """Draw all points with their intervals, group by group, as a PNG.

    groups: name, whether it protects anybody, and points; those that protect nobody are on grey. levels: vertical
    lines. name: of the axis.
    """
    rows = sum(len(points) + 1 for _, _, points in groups)
    figure = Figure(figsize=(8.6, 1.1 + _ROW * rows), layout="constrained")
    axes, at, labels = figure.subplots(), 0, []
    for words, private, points in groups:
        labels.append((at, words, "bold"))
        for row, point in enumerate(points, at + 1):
            if not math.isnan(point.found.lower):
                axes.plot(point.found[1:3], [row, row], color=point.colour, lw=1.4, zorder=2)
            face = point.colour if private else "white"
            axes.plot(point.found.value, row, point.marker, color=point.colour, mfc=face, ms=4.5, zorder=3)
            labels.append((row, point.label, "normal"))
        if not private:
            axes.axhspan(at - 0.5, at + len(points) + 0.5, color="0.93", zorder=0)
        at += len(points) + 1
    for level, words in levels:
        axes.axvline(level, color="0.3", lw=0.9, ls=":" if level else "-", zorder=1)
        axes.text(level, -0.9, words, ha="center", va="bottom", fontsize=8)
    axes.set_yticks([row for row, _, _ in labels], [text for _, text, _ in labels], fontsize=7.5)
    for tick, (_, _, weight) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set_fontweight(weight)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(at - 0.3, -0.8)
    axes.grid(axis="x", alpha=0.25)
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlabel(name)
    figure.suptitle(f"{title}\n", fontsize=10)
    return render(figure, "png")


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"
