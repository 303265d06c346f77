"""The headline against the horizon, where sweeps have several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from dprl.algorithms import Metric
from dprl.platform.reports.cell_texts import plain, setting_text
from dprl.platform.reports.comparing.answers import interval_ends
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.curve_figures import legend_lines, panel_grid, put_names, put_title
from dprl.platform.reports.figures.drawing import BARS, ValueAxis
from dprl.platform.reports.figures.drawing import png as as_png
from dprl.platform.reports.figures.facets import Facet, facets_of
from dprl.platform.reports.verdicts import worst_of

HORIZON = "env.horizon"
_PRIVACY = ("privacy.", "algorithm.", "noise.", "env.")

Line = list[ReportCell]
"""Cells that differ in the horizon only, short ones first."""


def lines_over_horizon(cells: Sequence[ReportCell]) -> list[Line]:
    """Return the cells that share everything but the horizon, wherever there are several."""
    found: dict[tuple[object, ...], Line] = {}
    for cell in cells:
        if cell.metric is None or HORIZON not in cell.row:
            continue
        settings = (key for key in cell.row if key.startswith(_PRIVACY) or key == "episodes")
        key = tuple((name, plain(cell.row[name])) for name in sorted(settings) if name != HORIZON)
        found.setdefault((cell.metric, *key), []).append(cell)
    lines = (sorted(line, key=lambda cell: cell.row[HORIZON]) for line in found.values() if len(line) > 1)
    return list(lines)


def horizon_figure(lines: Sequence[Line]) -> bytes:
    """Draw the headline of the run against the horizon, for `lines_over_horizon` of comparable cells; return a PNG.

    A line is named after that of its cells that proves least: what is proved may differ along it, and no point stands
    under less than it proves. A marker is hollow where a claim fails.
    """
    by_worst = {id(_worst(line)): line for line in lines}
    panels: list[Facet] = []
    for members in _comparable(lines):
        panels += facets_of([_worst(line) for line in members])
    names = [[facet.name(cell) for cell in facet.cells] for facet in panels]
    figure, every = panel_grid(f"Against the horizon: {BARS}", [legend_lines(legend) for legend in names])
    for axes, facet, legend in zip(every, panels, names, strict=True):
        drawn = [by_worst[id(cell)] for cell in facet.cells]
        handles = _draw(axes, facet, drawn)
        put_title(axes, f"{_setting(drawn[0][-1])}: {facet.title}")
        put_names(axes, handles, legend)
    return as_png(figure)


def _worst(line: Line) -> ReportCell:
    return line[worst_of([cell.certificate for cell in line])]


def _comparable(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines of each environment, length and headline."""
    found: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        found.setdefault((_setting(line[0]), line[0].metric), []).append(line)
    return list(found.values())


def _setting(cell: ReportCell) -> str:
    keys = [key for key in cell.row if key.startswith("env.") and key != HORIZON]
    words = [setting_text(key, cell.row[key]) for key in keys]
    return f"{' '.join(words)}, K = {int(cell.row['episodes']):,}"


def _draw(axes: Axes, facet: Facet, lines: Sequence[Line]) -> list[Line2D]:
    handles: list[Line2D] = []
    every = np.array([cell.finals.mean() for line in lines for cell in line])
    lows = []
    for line, style in zip(lines, facet.styles(), strict=True):
        horizons = [cell.row[HORIZON] for cell in line]
        means = np.array([cell.finals.mean() for cell in line])
        ends = np.array([interval_ends(cell) for cell in line])
        spread = np.abs(np.where(np.isnan(ends), 0.0, ends - means[:, np.newaxis])).T
        bars: dict[str, Any] = {"capsize": 2, "elinewidth": 0.8}
        handles.append(axes.errorbar(horizons, means, spread, **style, **bars).lines[0])
        fails = [i for i, cell in enumerate(line) if cell.private and cell.row["verdict"] != "holds"]
        look = {"ls": "", "marker": style.get("marker", ""), "color": style["color"], "mfc": "white"}
        axes.plot([horizons[i] for i in fails], means[fails], zorder=3, ms=style.get("ms", 5.0), **look)
        lows += [low for low, _ in ends if not math.isnan(low)]
    metric, unit = lines[0][0].metric, int(lines[0][0].row["episodes"])
    axes.set_xlabel("horizon (steps an episode)")
    axes.xaxis.set_major_locator(FixedLocator(sorted({cell.row[HORIZON] for line in lines for cell in line})))
    axes.xaxis.set_minor_locator(NullLocator())
    if metric is not None:
        ValueAxis.of(every).apply(axes, _value_label(metric, unit), metric.unit, every, np.array(lows))
    axes.grid(alpha=0.3)
    return handles


def _value_label(metric: Metric, episodes: int) -> str:
    over = "summed" if metric.over == "sum" else "mean"
    return f"{metric.label}, {over} over {episodes:,}"
