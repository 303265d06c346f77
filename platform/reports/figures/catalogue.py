"""The figures of a report: the charts of its cells, the one that answers most first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.figures.colours import Palette, colours_of
from dprl.platform.reports.figures.curves import curve_charts
from dprl.platform.reports.figures.frontier import final_charts, frontier_charts, gap_charts
from dprl.platform.reports.figures.horizons import horizon_charts
from dprl.platform.reports.figures.layout import compose
from dprl.platform.reports.figures.lines import algorithm_of
from dprl.platform.reports.figures.styles import render, style_of
from dprl.platform.reports.records import is_final_score, is_gap, results_in

MOST_CHARTS = 12
"""Figures of a report; `dprl plot` draws all others."""


def chart_files(chart: Chart, *kinds: str) -> dict[str, bytes]:
    """Return the chart in the paper style in some of FORMATS, keyed by file name."""
    figure = compose(chart, style_of("paper"))
    return {f"{chart.name}.{kind}": render(figure, kind) for kind in kinds}


def palette_of(cells: Sequence[ReportCell]) -> Palette:
    """Return the colours of all algorithms of a report, for its figures and tables."""
    scores: dict[str, float] = {}
    for cell in cells:
        if cell.metric is not None:
            sign = 1.0 if cell.metric.better == "low" else -1.0
            value = sign * float(np.mean(cell.finals))
            scores[algorithm_of(cell)] = min(value, scores.get(algorithm_of(cell), value))
    return colours_of(map(algorithm_of, cells), leading=sorted(scores, key=lambda name: (scores[name], name)))


def report_charts(cells: Sequence[ReportCell], most: int | None = None) -> list[Chart]:
    """Return the charts of these cells; beyond `most`, curves at some of the epsilons are left out first.

    For games, gaps come first; policy gradients have final scores only. Then come headlines against epsilon, the
    horizon and episodes. Names are unique: charts of every metric after the first end in its name.
    """
    palette = palette_of(cells)
    by_metric: dict[Metric, list[ReportCell]] = {}
    for cell in cells:
        if cell.metric is not None:
            by_metric.setdefault(cell.metric, []).append(cell)
    gaps = results_in({key for cell in cells for key in cell.row}, is_gap)
    found = gap_charts(cells, gaps, palette)
    for make, name in ((frontier_charts, "frontier"), (horizon_charts, "horizon")):
        for i, (metric, part) in enumerate(by_metric.items()):
            found += make(part, palette, name if i == 0 else f"{name}_{metric.name}")
    finals: list[Chart] = []
    for i, metric in enumerate(results_in({key for cell in cells for key in cell.row}, is_final_score)):
        finals += final_charts(cells, metric, palette, "final" if i == 0 else f"final_{metric.name}")
    left = None if most is None else max(1, (most - len(found) - len(finals)) // max(1, len(by_metric)))
    for i, (metric, part) in enumerate(by_metric.items()):
        found += curve_charts(part, palette, "curves" if i == 0 else f"curves_{metric.name}", left)
    return ([*finals, *found] if len(by_metric) == 1 else [*found, *finals])[:most]
