"""The figure of a sweep: utility against what its noise proves."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from dprl.platform.reports.drawing import TITLE_SIZE, wrapped
from dprl.platform.reports.panels import Column, Panels, draw_over_epsilon, finished

_VALUE = "mean_regret"
_PANELS_PER_ROW = 3
_PANEL_WIDTH, _ONLY_PANEL_WIDTH = 4.6, 6.6
"""In inches."""


def with_regret(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the figure draws."""
    return summary[summary[_VALUE].notna()] if _VALUE in summary else summary.iloc[:0]


def frontier_figure(summary: pd.DataFrame) -> bytes:
    """Draw utility against proved epsilon of a sweep; return a PNG.

    summary: rows of `records.summary_row`, all with regret. One panel per environment and number of episodes, one line
    per algorithm, trust model and delta (and whatever else varies); cells without privacy are dashed horizontal
    lines. Up to three lines have filled bands, more have error bars only.
    """
    panels = Panels.of(summary)
    number = len(panels.titled)
    rows = math.ceil(number / _PANELS_PER_ROW)
    width = _PANEL_WIDTH if number > 1 else _ONLY_PANEL_WIDTH
    columns = min(number, _PANELS_PER_ROW)
    figure = Figure(figsize=(1.2 + width * columns, 0.3 + 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    regret = Column.only(panels, summary, _VALUE, "mean regret")
    for axes, (title, cells) in zip(grid.flat, panels.titled, strict=False):
        draw_over_epsilon(axes, cells, panels, [regret], "mean regret per episode")
        axes.set_title(wrapped(title, 4.0), fontsize=TITLE_SIZE)
    for axes in list(grid.flat)[number:]:
        axes.set_visible(False)
    return finished(figure, summary, panels, [regret], "Utility against proved privacy")
