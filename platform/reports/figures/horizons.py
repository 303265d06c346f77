"""Charts over the horizon, for sweeps with several horizons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprl.platform.reports.cell_texts import EPISODES, NOISE, Settings, settings_in
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.building import (
    Quantity,
    ValueScale,
    caption,
    charts_of,
    cut_sentence,
    headline_quantity,
    lines_of,
    panel_grid,
    range_of,
    seeds_sentence,
)
from dprl.platform.reports.figures.charts import Axis, Chart, Line, Panel
from dprl.platform.reports.figures.colours import Palette
from dprl.platform.reports.figures.lines import Lines, fill_of
from dprl.platform.results.summary import worst_of

HORIZON = "env.horizon"
_SETTINGS = ("env.", "algorithm.", *NOISE, EPISODES, "release", "audit", "cell_label")
"""Sections and keys of all settings but the seeds."""


def horizon_charts(cells: Sequence[ReportCell], palette: Palette, name: str = "horizon") -> list[Chart]:
    """Return the headline against the horizon, of cells that share a headline and all settings but the horizon.

    A line is named after its cell with the largest certified epsilon, because epsilon may differ along it.
    """
    found: dict[Settings, list[ReportCell]] = {}
    for cell in cells:
        if HORIZON in cell.row:
            keys = sorted(key for key in cell.row if key.startswith(_SETTINGS) and key != HORIZON)
            found.setdefault(settings_in(cell.row, keys), []).append(cell)
    along = [sorted(line, key=lambda cell: cell.row[HORIZON]) for line in found.values() if len(line) > 1]
    if not along:
        return []
    shown = [cell for line in along for cell in line]
    quantity = headline_quantity(shown[0])
    lines = Lines(shown, palette, over=HORIZON)
    scale = ValueScale.of(quantity.metric, [quantity.values(cell) for cell in shown])

    def panels(part: Sequence[ReportCell], title: str) -> list[Panel]:
        inside = {id(cell) for cell in part}
        found = [_line(lines, line, quantity, scale) for line in along if id(line[0]) in inside]
        return [Panel(title, tuple(found))]

    low = quantity.metric.better == "low"
    grid, left_out = panel_grid(shown, lines, panels, along=False, over=HORIZON, low=low)
    horizons = sorted({float(cell.row[HORIZON]) for cell in shown})
    room = 0.06 * (horizons[-1] - horizons[0])
    x = Axis("Horizon (steps)", "Horizon", False, (horizons[0] - room, horizons[-1] + room), tuple(horizons))
    y = scale.axis(quantity.label, grid, range_of(quantity.metric, max(shown, key=lambda cell: cell.row[HORIZON])))
    seeds = seeds_sentence(shown, scale, "intervals")
    told = caption(seeds, cut_sentence(grid, y, "intervals"), *lines.sentences(lines_of(grid)), left_out)
    return charts_of(Chart(name, f"{quantity.label} against the horizon", told, "points", grid, x, y))


def _line(lines: Lines, cells: Sequence[ReportCell], quantity: Quantity, scale: ValueScale) -> Line:
    worst = cells[worst_of([cell.certificate for cell in cells])]
    x = np.array([float(cell.row[HORIZON]) for cell in cells])
    fills = tuple(map(fill_of, cells)) if worst.private else ()
    y, low, high = scale.estimates(quantity, cells)
    return Line(lines.name(worst, along=False), lines.shades(worst), lines.look(worst), x, y, low, high, fills)
