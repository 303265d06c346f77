"""Charts over episodes: the running mean of cells that certify the same epsilon, with simultaneous bands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.reports.comparing.report_cells import ReportCell, longer_blocks
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
    unproved_sentence,
)
from dprl.platform.reports.figures.charts import MOST_LINES, Axis, Chart, Line, LineName, Panel
from dprl.platform.reports.figures.colours import Palette
from dprl.platform.reports.figures.frontier import unlearned_level
from dprl.platform.reports.figures.lines import Lines, algorithm_of, certified, column_of, columns_of, model_of
from dprl.platform.reports.inference.bands import scaled_band
from dprl.platform.reports.number_texts import epsilon_text
from dprl.platform.reports.records import unit_of

_LIGHTEST = 0.55
"""Tint of the smallest epsilon."""
_MOST_POINTS = 160
"""Points of a curve, which is smooth between them."""


def curve_charts(
    cells: Sequence[ReportCell], palette: Palette, name: str = "curves", most: int | None = None
) -> list[Chart]:
    """Return the headline over episodes of cells that share a headline, the leading chart first.

    All cells are in one chart if no panel has more than eight lines, else there is one for each certified epsilon, or
    for `most` of them: the leading one, and others at even distances in their order.
    """
    lines = Lines(cells, palette)
    drawn = [cell for cell in cells if certified(cell) or not cell.private]
    if not any(map(certified, drawn)):
        # Without any certified epsilon, all cells are results without privacy.
        drawn = list(cells)
    columns = columns_of(drawn)
    widest = max(len(lines.by_name([c for c in drawn if column_of(c) == key], along=False)) for key in columns)
    epsilons, told = _epsilons(drawn), unproved_sentence(cells, lines) if len(drawn) < len(cells) else ""
    if widest <= MOST_LINES or len(epsilons) < 2:
        return _chart(told, drawn, lines, (name, epsilons[0] if len(epsilons) == 1 else ""))
    found = []
    first, *others = _ordered(drawn, epsilons)
    if most is not None and most <= len(others):
        left_out = len(others) - (most - 1)
        others = [others[place] for place in np.linspace(0, len(others) - 1, most - 1).round().astype(int)]
        told = f"{told} Curves at {left_out} other certified \u03b5 are left out; dprl plot draws them.".lstrip()
    for i, epsilon in enumerate([first, *others]):
        part = [cell for cell in drawn if not cell.private or epsilon_text(cell.proved, 3) == epsilon]
        here = Lines(part, palette)
        own = name if i == 0 else f"{name}_epsilon_{epsilon}"
        found += _chart(told if i == 0 else "", part, here, (own, epsilon))
    return found


def _epsilons(cells: Sequence[ReportCell]) -> list[str]:
    """Return the certified epsilons as they are written, small ones first."""
    found = sorted({float(f"{cell.proved:.3g}") for cell in cells if certified(cell)})
    return [epsilon_text(value, 3) for value in found]


def _ordered(cells: Sequence[ReportCell], epsilons: Sequence[str]) -> list[str]:
    """Return the epsilons, the leading one first: that of the most cells, and of several the nearest to 1."""
    counts = [sum(epsilon_text(cell.proved, 3) == epsilon for cell in cells if certified(cell)) for epsilon in epsilons]
    far = [abs(math.log(float(epsilon))) if float(epsilon) > 0.0 else math.inf for epsilon in epsilons]
    lead = min(range(len(epsilons)), key=lambda i: (-counts[i], far[i]))
    return [epsilons[lead], *(epsilon for i, epsilon in enumerate(epsilons) if i != lead)]


def _chart(unproved: str, cells: Sequence[ReportCell], lines: Lines, about: tuple[str, str]) -> list[Chart]:
    """Return the chart of these cells. unproved: the sentence on those that are not drawn. about: its name, and the
    epsilon that all certify, '' if there are several.
    """
    name, epsilon = about
    quantity = headline_quantity(cells[0])
    metric = quantity.metric
    curves = {id(cell): so_far(cell, metric) for cell in cells}
    scale = ValueScale.of(metric, [values for _, values in curves.values()])

    def panels(part: Sequence[ReportCell], title: str) -> list[Panel]:
        named = lines.by_name(part, along=bool(epsilon))
        found = [
            _line(lines, key, cell, curves[id(cell)], (quantity, scale)) for key, on in named.items() for cell in on
        ]
        found = tinted(found, list(itertools.chain(*named.values())))
        return [Panel(title, tuple(found), unlearned_level(part, quantity))]

    grid, left_out = panel_grid(cells, lines, panels, along=bool(epsilon), low=metric.better == "low")
    flat = lines_of(grid)
    unit = unit_of(cell.row for cell in cells)
    at = f" (certified \u03b5 = {epsilon})" if epsilon else ""
    log = metric.over == "sum"
    ends = min(float(line.x[0]) for line in flat) if log else 0.0, max(float(line.x[-1]) for line in flat)
    seeds = seeds_sentence(cells, scale, "bands of whole curves")
    x = Axis(f"{unit.capitalize()}s{at}", f"{unit.capitalize()}s{at}", log, ends, counts=True)
    y = scale.axis(quantity.label, grid, range_of(metric, cells[0]))
    blocks = "so far" if log else f"of blocks of {unit}s, at most 25 a run, drawn at their ends"
    what, cut = f"Mean {metric.label} {blocks}.", cut_sentence(grid, y, "bands")
    told = caption(what, seeds, cut, *lines.sentences(flat), unproved, left_out)
    title = f"{quantity.label} over {unit}s" + (f" at certified \u03b5 = {epsilon}" if epsilon else "")
    return charts_of(Chart(name, title, told, "curves", grid, x, y))


def so_far(cell: ReportCell, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Return episodes, int64[T], and a sum's running mean there or a mean's long blocks, float64[n_seeds, T]."""
    if metric.over != "sum":
        return longer_blocks(cell.episodes, cell.curves)
    places = _places(cell.episodes)
    return cell.episodes[places], cell.curves[:, places] / cell.episodes[places]


def _places(episodes: np.ndarray) -> np.ndarray:
    """Return the points of a curve that are drawn: evenly spaced on the axis, including both ends."""
    if len(episodes) <= _MOST_POINTS:
        return np.arange(len(episodes))
    wanted = np.geomspace(max(float(episodes[0]), 1.0), float(episodes[-1]), _MOST_POINTS)
    found = np.unique(np.searchsorted(episodes, wanted, side="left").clip(0, len(episodes) - 1))
    return np.unique([0, *found, len(episodes) - 1])


def _line(
    lines: Lines,
    name: LineName,
    cell: ReportCell,
    points: tuple[np.ndarray, np.ndarray],
    how: tuple[Quantity, ValueScale],
) -> Line:
    quantity, scale = how
    episodes, values = points
    band = scaled_band(scale.apply(values), scale.scale, range_of(quantity.metric, cell))
    return Line(name, lines.shades(cell), lines.look(cell), episodes, *band)


def tinted(lines: Sequence[Line], cells: Sequence[ReportCell]) -> list[Line]:
    """Return the lines of these cells; within an algorithm and trust model, a smaller epsilon is lighter."""
    found = []
    for line, cell in zip(lines, cells, strict=True):
        family = algorithm_of(cell), model_of(cell)
        alike = [other for other in cells if other.private and (algorithm_of(other), model_of(other)) == family]
        epsilons = sorted({float(f"{other.proved:.3g}") for other in alike})
        if not cell.private or len(epsilons) < 2:
            found.append(line)
            continue
        place = epsilons.index(float(f"{cell.proved:.3g}")) / (len(epsilons) - 1)
        found.append(replace(line, tint=_LIGHTEST * (1 - place)))
    return found
