"""Charts over the certified epsilon: the headline, final scores, gaps of output policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.reports.cell_texts import EPISODES
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.building import (
    Quantity,
    ValueScale,
    caption,
    charts_of,
    cut_sentence,
    epsilon_axis,
    headline_quantity,
    lines_of,
    panel_grid,
    range_of,
    seeds_sentence,
    unproved_sentence,
)
from dprl.platform.reports.figures.charts import Chart, Line, LineName, Panel
from dprl.platform.reports.figures.colours import Palette
from dprl.platform.reports.figures.lines import Lines, certified, column_of, fill_of
from dprl.platform.reports.records import is_final_score, title_of

_SAME = 1.0 + 1e-6
"""Certified epsilons may differ from claimed ones by rounding errors."""


def frontier_charts(cells: Sequence[ReportCell], palette: Palette, name: str = "frontier") -> list[Chart]:
    """Return the headline against certified epsilon of cells that share a headline, [] without any epsilon."""
    if not any(map(certified, cells)):
        return []
    quantity = headline_quantity(cells[0])
    return _over_epsilon(cells, [quantity], palette, (name, f"{quantity.label} against certified privacy", ""))


def final_charts(cells: Sequence[ReportCell], metric: Metric, palette: Palette, name: str) -> list[Chart]:
    """Return a final score against certified epsilon, with the level of runs without privacy."""
    shown = [cell for cell in cells if metric.name in cell.row]
    if not any(map(certified, shown)):
        return []
    about = name, f"{title_of(metric)} against certified privacy", f"{metric.definition.capitalize()}."
    return _over_epsilon(shown, [Quantity(metric, title_of(metric), _last_of(metric))], palette, about)


def gap_charts(cells: Sequence[ReportCell], gaps: Sequence[Metric], palette: Palette) -> list[Chart]:
    """Return the gaps of output policies against certified epsilon: a column of panels for each."""
    shown = [cell for cell in cells if gaps and all(metric.name in cell.row for metric in gaps)]
    if not any(map(certified, shown)):
        return []
    quantities = [Quantity(metric, metric.label.capitalize(), _last_of(metric)) for metric in gaps]
    title = f"{' and '.join(quantity.label for quantity in quantities)} of the output policy"
    return _over_epsilon(shown, quantities, palette, ("gaps", title, ""))


def _last_of(metric: Metric) -> Callable[[ReportCell], np.ndarray]:
    return lambda cell: cell.values_of(metric)[1][:, -1]


def _over_epsilon(
    cells: Sequence[ReportCell], quantities: Sequence[Quantity], palette: Palette, about: tuple[str, str, str]
) -> list[Chart]:
    """Return the chart of these quantities. about: its name, its title, and the first sentence of its caption."""
    lines = Lines(cells, palette)
    shown = [cell for cell in cells if certified(cell) or not cell.private]
    scale = ValueScale.of(quantities[0].metric, [quantity.values(cell) for quantity in quantities for cell in shown])

    def panels(part: Sequence[ReportCell], title: str) -> list[Panel]:
        found = []
        for quantity in quantities:
            every = [_line(lines, name, on, quantity, scale) for name, on in lines.by_name(part).items()]
            words = [quantity.label] if len(quantities) > 1 else []
            level = unlearned_level(part, quantity, shown)
            found.append(Panel(", ".join([*words, *([title] if title else [])]), tuple(every), level))
        return found

    low = quantities[0].metric.better == "low"
    grid, left_out = panel_grid(shown, lines, panels, low=low)
    labels = [quantity.label for quantity in quantities]
    y_title = labels[0] if len(labels) == 1 else f"{labels[0]} or {' or '.join(labels[1:]).lower()}"
    name, title, meaning = about
    seeds = seeds_sentence(shown, scale, "intervals")
    y = scale.axis(y_title, grid, range_of(quantities[0].metric, cells[0]), short=labels[0])
    cut = cut_sentence(grid, y, "intervals")
    told = caption(meaning, seeds, cut, *lines.sentences(lines_of(grid)), unproved_sentence(cells, lines), left_out)
    return charts_of(Chart(name, title, told, "points", grid, epsilon_axis(shown), y))


def _line(lines: Lines, name: LineName, cells: Sequence[ReportCell], quantity: Quantity, scale: ValueScale) -> Line:
    ordered = sorted(cells, key=lambda cell: cell.proved)
    first = ordered[0]
    y, low, high = scale.estimates(quantity, ordered)
    x = np.array([cell.proved if certified(cell) else math.nan for cell in ordered])
    fills = tuple(map(fill_of, ordered)) if first.private else ()
    claims = tuple(map(claim_of, ordered)) if first.private else ()
    return Line(name, lines.shades(first), lines.look(first), x, y, low, high, fills, claims)


def claim_of(cell: ReportCell) -> float:
    """Return the claimed epsilon of a cell if its noise certifies only a larger one, else NaN."""
    claimed = float(cell.row.get("claimed_epsilon", math.nan))
    return claimed if cell.proved > claimed * _SAME else math.nan


def unlearned_level(cells: Sequence[ReportCell], quantity: Quantity, every: Sequence[ReportCell] = ()) -> float:
    """Return the level of a policy that has learned nothing: the largest mean of a sum over a first block.

    For a final score it is that of the first policies without privacy, over `every` cell in their environment.
    """
    if is_final_score(quantity.metric):
        here = column_of(cells[0], EPISODES)
        free = [cell for cell in every if column_of(cell, EPISODES) == here and not cell.private]
        firsts = [float(cell.values_of(quantity.metric)[1][:, 0].mean()) for cell in free]
        return float(np.mean(firsts)) if firsts else math.nan
    if quantity.metric.over != "sum":
        return math.nan
    return max(float(np.mean(cell.curves[:, 0])) / float(cell.episodes[0]) for cell in cells)
