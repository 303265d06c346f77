"""The figure of a sweep: utility against what its noise proves."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dprl.platform.reports.drawing import TITLE_SIZE, ValueAxis, png, put_legend, put_title, wrapped
from dprl.platform.reports.panels import MODEL, Plan, Series, common_settings, epsilon_axis, failing_text

_VALUE = "mean_regret"
_PANELS_PER_ROW = 3
_PANEL_WIDTH, _ONLY_PANEL_WIDTH = 4.6, 6.6
"""In inches."""


def frontier_figure(summary: pd.DataFrame) -> bytes:
    """Draw utility against proved epsilon of a sweep; return a PNG.

    summary: rows of `records.summary_row`. One panel per environment and number of episodes, one line per
    algorithm, trust model and delta (and whatever else varies); cells without privacy are dashed horizontal
    lines. Up to three lines have filled bands, more have error bars only.
    """
    plan = Plan.of(summary)
    rows = math.ceil(len(plan.panels) / _PANELS_PER_ROW)
    columns = min(len(plan.panels), _PANELS_PER_ROW)
    width = _PANEL_WIDTH if len(plan.panels) > 1 else _ONLY_PANEL_WIDTH
    figure = Figure(figsize=(1.2 + width * columns, 0.3 + 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    references = plan.references(summary, _VALUE, "mean regret")
    for axes, (title, cells) in zip(grid.flat, plan.panels, strict=False):
        _draw_panel(axes, cells, plan, references)
        axes.set_title(wrapped(title, 4.0), fontsize=TITLE_SIZE)
    for axes in list(grid.flat)[len(plan.panels) :]:
        axes.set_visible(False)
    labels: dict[str, Any] = {}
    for axes in grid.flat:
        labels |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = [references.get(name, name) for name in plan.styles]
    put_legend(figure, {label: labels[label] for label in order if label in labels})
    told = f"{plan.intervals(summary[f'{_VALUE}_lower'])}{failing_text(summary)}"
    put_title(figure, [f"Utility against proved privacy{told}", common_settings(summary)])
    return png(figure)


def _draw_panel(axes: Axes, cells: pd.DataFrame, plan: Plan, references: dict[str, str]) -> None:
    axis = ValueAxis.of(cells[_VALUE].to_numpy())
    for name, line in plan.lines(cells):
        label = references.get(name, name)
        series = Series(_VALUE, label, plan.styles[name], name in plan.hollow, plan.filled, axis.floor)
        series.draw_references(axes, line[line[MODEL] == "none"])
        series.draw(axes, line)
    epsilon_axis(axes, cells)
    axis.apply(axes, "mean regret per episode", cells[_VALUE].to_numpy(), cells[f"{_VALUE}_lower"].to_numpy())
    axes.grid(alpha=0.3)
