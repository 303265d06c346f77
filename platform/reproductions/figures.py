"""Figures of reproductions: panels of lines with bands, and one point with its interval per cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from dprl.platform.reports.figures.colours import BLACK, BLUE, GREEN, INDIGO, ORANGE, PINK, VERMILION
from dprl.platform.reports.figures.styles import render
from dprl.platform.reports.inference.effects import Estimate

COLOURS = tuple(hue.line for hue in (BLUE, VERMILION, GREEN, PINK, ORANGE, INDIGO, BLACK))
SOLID, DASHED, DOTTED = "-", (0, (5, 1.5)), (0, (1, 1))
_WIDTH, _HEIGHT, _ROW = 3.7, 2.9, 0.155
"""Sizes of a panel and of a row of points, in inches."""
_LEGEND_ROW = 0.2
_ALPHA = 0.2
_FEW = 8
"""Maximum of x values that are all labelled."""


class Line(NamedTuple):
    """Curve of one cell, or a level for comparison.

    x, y: float64[n]. style: matplotlib's. band: its two ends, float64[2, n]. steps: whether it jumps at each x.
    """

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    style: Mapping[str, Any]
    band: npt.ArrayLike | None = None
    steps: bool = False


class Panel(NamedTuple):
    """Lines on one pair of axes.

    warning: text across it if the shown cells protect nobody. names: of the axes, if panels differ in them.
    """

    title: str
    lines: Sequence[Line]
    warning: str = ""
    names: tuple[str, str] = ("", "")


def draw_panels(
    grid: Sequence[Sequence[Panel]], title: str, names: tuple[str, str], limits: tuple[float, float]
) -> bytes:
    """Draw rows of panels as a PNG, with a legend under each column. names: of the axes; limits: of y."""
    rows, columns = len(grid), max(len(row) for row in grid)
    legend = _LEGEND_ROW * max(len(panel.lines) for panel in grid[-1])
    figure = Figure(figsize=(columns * _WIDTH, rows * _HEIGHT + legend), layout="constrained")
    for places, row in zip(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True), grid, strict=True):
        for axes, panel in zip(places, row, strict=True):
            _draw(axes, panel)
            axes.set_ylim(*limits)
            if row is grid[-1]:
                axes.set_xlabel(names[0])
                axes.legend(
                    loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False, fontsize=8, handlelength=3.6
                )
        places[0].set_ylabel(names[1])
    figure.suptitle(title, fontsize=10)
    return render(figure, "png")


def _draw(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        axes.plot(line.x, line.y, label=line.label, drawstyle="steps-post" if line.steps else "default", **line.style)
        if line.band is not None:
            low, high = np.asarray(line.band)
            style: dict[str, Any] = {"color": line.style["color"], "alpha": _ALPHA, "lw": 0}
            axes.fill_between(np.asarray(line.x), low, high, step="post" if line.steps else None, **style)
    axes.set_title(panel.title, fontsize=10, weight="bold" if panel.warning else "normal")
    axes.set_xlim(left=0.0)
    axes.grid(alpha=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_thousands))
    if panel.warning:
        axes.set_facecolor("#f2f2f2")
        where: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "top"}
        axes.text(0.5, 0.93, panel.warning, fontsize=15, weight="bold", **where)


def draw_log_panels(panels: Sequence[Panel], title: str) -> bytes:
    """Draw panels with logarithmic axes side by side as a PNG, with one legend below them."""
    figure = Figure(figsize=(len(panels) * _WIDTH, _HEIGHT), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for line in panel.lines:
            axes.loglog(line.x, line.y, label=line.label or None, lw=1.6, ms=4.5, **line.style)
        axes.set_title(panel.title, fontsize=10)
        few = np.unique(np.concatenate([np.asarray(line.x, dtype=np.float64) for line in panel.lines]))
        if len(few) <= _FEW:
            axes.set_xticks(few, [f"{x:g}" for x in few])
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(panel.names[0])
        axes.set_ylabel(panel.names[1])
        axes.grid(alpha=0.3)
    drawn = (axes.get_legend_handles_labels() for axes in figure.axes)
    named = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
    figure.legend(named.values(), named, loc="outside lower center", ncols=len(named) or 1, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9)
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
