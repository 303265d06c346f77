"""Which figures a sweep has, of which of its cells, and what each needs beside the summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.reports.frontier import frontier_figure, with_headline
from dprl.platform.reports.gaps import gaps_figure, with_gaps
from dprl.platform.reports.records import curve, is_gap

Curves = Mapping[str, Mapping[str, pd.DataFrame]]
"""By the digest of the cell and by column."""


class SweepFigure(NamedTuple):
    """A figure of a sweep.

    file: its name. cells: the rows of the summary that it draws; with none there is no figure. wants: whether it needs
    the curve of a metric. draw: from these rows and curves, as a PNG.
    """

    file: str
    cells: Callable[[pd.DataFrame], pd.DataFrame]
    wants: Callable[[Metric], bool]
    draw: Callable[[pd.DataFrame, Curves], bytes]


SWEEP_FIGURES = (
    SweepFigure("frontier.png", with_headline, lambda _: False, lambda summary, _: frontier_figure(summary)),
    SweepFigure("gaps.png", with_gaps, is_gap, gaps_figure),
)


def wanted_curves(metrics: Sequence[Metric], records: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the curves of a cell that some figure needs, by column."""
    wanted = [metric.name for metric in metrics if any(figure.wants(metric) for figure in SWEEP_FIGURES)]
    return {name: curve(records, name) for name in wanted}


def sweep_figures(summary: pd.DataFrame, curves: Curves) -> dict[str, bytes]:
    """Return the figures of a sweep as PNGs by the name of their file.

    summary: rows of `records.summary_row`. curves: `wanted_curves` of each cell, by its digest.
    """
    found = {figure: figure.cells(summary) for figure in SWEEP_FIGURES}
    return {figure.file: figure.draw(rows, curves) for figure, rows in found.items() if len(rows)}
