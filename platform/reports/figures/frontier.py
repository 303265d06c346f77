"""Charts over the certified epsilon: the headline, and the gaps of output policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.building import (
    Quantity,
    ValueScale,
    caption,
    charts_of,
    epsilon_axis,
    fitting,
    headline_quantity,
    left_out_sentence,
    panel_grid,
    range_of,
    seeds_sentence,
    unproved_sentence,
    with_rows,
)
from dprl.platform.reports.figures.charts import Axis, Chart, Line, LineName, Panel
from dprl.platform.reports.figures.colours import Palette
from dprl.platform.reports.figures.lines import Lines, certified, delta_sentence, fill_of
from dprl.platform.reports.inference.effects import estimate

_SAME = 1.0 + 1e-6
"""Certified epsilons may differ from claimed ones by rounding errors."""


def frontier_charts(cells: Sequence[ReportCell], palette: Palette, name: str = "frontier") -> list[Chart]:
    """Return the headline against certified epsilon, of cells that share a headline; nothing without an epsilon."""
    if not any(map(certified, cells)):
        return []
    quantity = headline_quantity(cells[0])
    return _over_epsilon(cells, [quantity], palette, (name, f"{quantity.label} against certified privacy"))


def gap_charts(cells: Sequence[ReportCell], gaps: Sequence[Metric], palette: Palette) -> list[Chart]:
    """Return the gaps of output policies against certified epsilon: a column of panels for each."""
    shown = [cell for cell in cells if gaps and all(metric.name in cell.row for metric in gaps)]
    if not any(map(certified, shown)):
        return []
    quantities = [Quantity(metric, metric.label.capitalize(), _last_of(metric)) for metric in gaps]
    title = f"{' and '.join(quantity.label for quantity in quantities)} of the output policy"
    return _over_epsilon(shown, quantities, palette, ("gaps", title))


def _last_of(metric: Metric) -> Callable[[ReportCell], np.ndarray]:
    return lambda cell: cell.values_of(metric)[1][:, -1]


def _over_epsilon(
    cells: Sequence[ReportCell], quantities: Sequence[Quantity], palette: Palette, about: tuple[str, str]
) -> list[Chart]:
    lines = Lines(cells, palette)
    shown = [cell for cell in cells if certified(cell) or not cell.private]
    scale = ValueScale.of(quantities[0].metric, [quantity.values(cell) for quantity in quantities for cell in shown])
    asked = 0

    def panels(part: Sequence[ReportCell], title: str) -> list[Panel]:
        nonlocal asked
        found = []
        for quantity in quantities:
            every = [_line(lines, name, on, quantity, scale) for name, on in lines.by_name(part).items()]
            asked += len(every)
            kept = fitting(every, low=quantity.metric.better == "low")
            words = [quantity.label] if len(quantities) > 1 else []
            found.append(Panel(", ".join([*words, *([title] if title else [])]), kept, unlearned_level(part, quantity)))
        return found

    grid = with_rows(panel_grid(shown, lines, panels))
    drawn = [panel for row in grid for panel in row if panel is not None]
    every = [line for panel in drawn for line in panel.lines]
    limits = scale.limits(every, [panel.unlearned for panel in drawn], range_of(quantities[0].metric, cells[0]))
    labels = [quantity.label for quantity in quantities]
    y_title = labels[0] if len(labels) == 1 else f"{labels[0]} or {' or '.join(labels[1:]).lower()}"
    told = caption(
        seeds_sentence(shown, scale, "intervals"),
        delta_sentence(lines),
        *lines.noise_sentences(),
        unproved_sentence(cells, lines),
        left_out_sentence(len(every), asked),
    )
    y = Axis(y_title, labels[0], scale.scale == "log", limits)
    return charts_of(Chart(*about, told, "points", grid, epsilon_axis(shown), y))


def _line(lines: Lines, name: LineName, cells: Sequence[ReportCell], quantity: Quantity, scale: ValueScale) -> Line:
    ordered = sorted(cells, key=lambda cell: cell.proved)
    first = ordered[0]
    found = [
        estimate(scale.apply(quantity.values(cell)), scale.scale, range_of(quantity.metric, cell)) for cell in ordered
    ]
    y, low, high = (np.array([each[i] for each in found]) for i in range(3))
    x = np.array([cell.proved if certified(cell) else math.nan for cell in ordered])
    fills = tuple(map(fill_of, ordered)) if first.private else ()
    claims = tuple(map(claim_of, ordered)) if first.private else ()
    return Line(name, lines.shades(first), lines.look(first), x, y, low, high, fills, claims)


def claim_of(cell: ReportCell) -> float:
    """Return the claimed epsilon of a cell if its noise certifies only a larger one, else NaN."""
    claimed = float(cell.row.get("claimed_epsilon", math.nan))
    return claimed if cell.proved > claimed * _SAME else math.nan


def unlearned_level(cells: Sequence[ReportCell], quantity: Quantity) -> float:
    """Return the level of a policy that has learned nothing: a sum's mean over the first block, the largest of all."""
    if quantity.metric.over != "sum":
        return math.nan
    firsts = [float(np.mean(cell.curves[:, 0])) / float(cell.episodes[0]) for cell in cells]
    return max(firsts)
