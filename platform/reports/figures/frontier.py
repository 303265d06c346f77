"""The figure of a sweep: utility against what its noise proves."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from dprl.algorithms import Metric
from dprl.platform.reports.figures.drawing import TITLE_SIZE, wrapped
from dprl.platform.reports.figures.panels import Column, Panels, completed, draw_over_epsilon, with_legend_and_title
from dprl.platform.reports.records import headlines_in, main_column

_PANELS_PER_ROW = 3
_PANEL_WIDTH, _ONLY_PANEL_WIDTH = 4.6, 6.6
"""In inches."""
_HIGHER = "; higher is better"


def with_headline(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the figure draws: those that have a headline; what no cell has is NaN in all."""
    columns = [main_column(metric) for metric in headlines_in(summary.columns)]
    if not columns:
        return summary.iloc[:0]
    return completed(summary[summary[columns].notna().any(axis=1)], columns)


def frontier_figure(summary: pd.DataFrame) -> bytes:
    """Draw utility against proved epsilon of a sweep; return a PNG.

    summary: rows of `records.summary_row`, all with a headline. One panel per environment, number of episodes and
    headline, one line per algorithm, trust model and delta (and whatever else varies); cells without privacy are dashed
    horizontal lines. Up to three lines have filled bands, more have error bars only.
    """
    panels = Panels.of(summary)
    drawn = [
        (title, metric, cells[cells[main_column(metric)].notna()])
        for title, cells in panels.titled
        for metric in headlines_in(cells.columns[cells.notna().any()])
    ]
    rows = math.ceil(len(drawn) / _PANELS_PER_ROW)
    width = _PANEL_WIDTH if len(drawn) > 1 else _ONLY_PANEL_WIDTH
    across = min(len(drawn), _PANELS_PER_ROW)
    figure = Figure(figsize=(1.2 + width * across, 0.3 + 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, across, squeeze=False)
    metrics = list(dict.fromkeys(metric for _, metric, _ in drawn))
    columns = {metric: _column(metric, panels, summary) for metric in metrics}
    for axes, (title, metric, cells) in zip(grid.flat, drawn, strict=False):
        each = " per episode" if metric.over == "sum" else ""
        draw_over_epsilon(axes, cells, panels, [columns[metric]], f"mean {metric.label}{each}")
        axes.set_title(wrapped(title, 4.0), fontsize=TITLE_SIZE)
    for axes in list(grid.flat)[len(drawn) :]:
        axes.set_visible(False)
    return with_legend_and_title(figure, summary, panels, list(columns.values()), "Utility against proved privacy")


def _column(metric: Metric, panels: Panels, summary: pd.DataFrame) -> Column:
    """Return the column of a headline, of the rows that have it."""
    name = main_column(metric)
    unit = metric.unit + (_HIGHER if metric.better == "high" else "")
    return Column.only(panels, summary[summary[name].notna()], name, f"mean {metric.label}", unit)
