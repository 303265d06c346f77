"""Parts that all charts share: quantities and their scales, panels of environments and trust models, captions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.errors import counted, first_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.charts import MOST_LINES, MOST_PANELS, Axis, Chart, Grid, Line, Panel
from dprl.platform.reports.figures.lines import MODEL_TITLES, Lines, certified, column_of, columns_of, model_of
from dprl.platform.reports.inference.effects import Scale, estimate, scale_of
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.number_texts import epsilon_text
from dprl.platform.reports.records import unit_of

_FLOOR = 1e-6
"""Floor of logarithmic axes as a share of the largest value: smaller values, which may be 0, are drawn there."""
_ROOM = math.log(1.7)
"""Distance between the extreme values and the ends of a logarithmic axis."""
_MOST_NAMED = 3
_FEW_FREE = 3


class Quantity(NamedTuple):
    """A cell's numbers for a chart. values: float64[n_seeds] or float64[n_seeds, T]. label: of its axis or panel."""

    metric: Metric
    label: str
    values: Callable[[ReportCell], np.ndarray]


def headline_quantity(cell: ReportCell) -> Quantity:
    """Return the headline of a run, per episode if it is a sum. Raises ValueError for a cell without a headline."""
    metric = cell.metric
    if metric is None:
        raise ValueError("cell must have a headline, got one without")
    label = metric.label.capitalize()
    if metric.over == "sum":
        unit = unit_of([cell.row])
        return Quantity(metric, f"{label} per {unit}", lambda one: one.finals / int(one.row["episodes"]))
    return Quantity(metric, label, lambda one: one.finals)


def range_of(metric: Metric, cell: ReportCell) -> tuple[float, float]:
    """Return the range of a metric per episode in the environment of a cell."""
    return metric.range(float(cell.row.get("env.horizon", math.inf)))


class ValueScale(NamedTuple):
    """The scale of all values of a chart. floor: smaller values are drawn there; floored: whether there are any."""

    scale: Scale
    floor: float
    floored: bool

    @classmethod
    def of(cls, metric: Metric, values: Sequence[np.ndarray]) -> ValueScale:
        """Choose a logarithmic scale for amounts that should be small, unless nearly all of them are 0."""
        if metric.better != "low" or not metric.unit:
            return cls("linear", -math.inf, False)
        floor = _FLOOR * max(float(each.max()) for each in values)
        if floor <= 0.0 or not all(np.isfinite(each).all() for each in values):
            return cls("linear", 0.0, False)
        floored = scale_of(*values) != "log" or any(bool((each < floor).any()) for each in values)
        return cls("log", floor, floored)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return values that the scale can show."""
        return np.asarray(np.maximum(values, self.floor))

    def estimates(self, quantity: Quantity, cells: Sequence[ReportCell]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return centres and ends of intervals, float64[n] each."""
        found = (
            estimate(self.apply(quantity.values(cell)), self.scale, range_of(quantity.metric, cell)) for cell in cells
        )
        centres, low, high = np.array([each[:3] for each in found]).T
        return centres, low, high

    def axis(self, title: str, grid: Grid, range_: tuple[float, float], *, short: str = "") -> Axis:
        """Return the axis of the values in all panels; short: its short title, if that is another one."""
        panels = [panel for row in grid for panel in row if panel is not None]
        lines = [line for panel in panels for line in panel.lines]
        limits = self._limits(lines, [panel.unlearned for panel in panels], range_)
        return Axis(title, short or title, self.scale == "log", limits)

    def _limits(
        self, lines: Sequence[Line], levels: Sequence[float], range_: tuple[float, float]
    ) -> tuple[float, float]:
        """Return the ends of the axis: of all values, and of intervals that reach half as far again or less.

        Longer intervals are cut off at the ends, see `cut_sentence`.
        """
        every = np.concatenate([*(line.y for line in lines), [level for level in levels if math.isfinite(level)]])
        reach = np.concatenate([*(end for line in lines for end in (line.low, line.high)), every])
        if self.scale == "log":
            # Nothing is drawn below the floor, not even the first loss in an environment without anything to learn.
            every, reach = (np.log(np.maximum(numbers, self.floor)) for numbers in (every, reach))
        low, high = float(every.min()), float(every.max())
        least, most = float(np.nanmin(reach)), float(np.nanmax(reach))
        if self.scale == "log":
            span = max(high - low, math.log(10.0))
            least = min(max(least, low - span / 2) - _ROOM / 4, low - _ROOM)
            most = max(min(most, high + span / 2) + _ROOM / 4, high + _ROOM)
            return math.exp(least), math.exp(most)
        low = min(low, range_[0]) if math.isfinite(range_[0]) else low
        span = (high - low) or abs(high) or 1.0
        least, most = max(least, low - span / 2), min(most, high + span / 2)
        if math.isfinite(range_[0]):
            least = range_[0]
        if math.isfinite(range_[1]) and most > range_[1] / 2:
            most = range_[1]
        room = 0.03 * ((most - least) or 1.0)
        return least - room, most + room


def panel_grid(
    cells: Sequence[ReportCell],
    lines: Lines,
    make: Callable[[Sequence[ReportCell], str], list[Panel]],
    *,
    along: bool = True,
    over: str = "",
    low: bool,
) -> tuple[Grid, str]:
    """Return rows of panels, and the caption's sentence on lines left out.

    There is a column for each environment and length; many lines are split into one row per trust model. Each panel has
    at most the eight best lines; low values are better if `low`. Cells without privacy are in every row.

    make: returns the panels of one column's cells with this title.
    """
    columns = columns_of(cells, over)
    parts = {key: [cell for cell in cells if column_of(cell, over) == key] for key in columns}
    models = sorted({model_of(cell) for cell in cells if cell.private})
    most = max(len(lines.by_name(part, along=along)) for part in parts.values())
    split = models if most > MOST_LINES and len(models) > 1 else [""]
    grid: list[list[Panel | None]] = []
    for model in split:
        row: list[Panel | None] = []
        for key, title in columns.items():
            shown = [cell for cell in parts[key] if not model or not cell.private or model_of(cell) == model]
            full = ", ".join(word for word in (MODEL_TITLES.get(model, model), title) if word)
            row += make(shown, full) if any(cell.private or not model for cell in shown) else [None]
        grid.append(row)
    kept = [[panel and replace(panel, lines=fitting(panel.lines, low=low)) for panel in row] for row in grid]
    asked, drawn = (sum(len(panel.lines) for row in rows for panel in row if panel) for rows in (grid, kept))
    told = f"{counted(asked - drawn, 'line')} of worse values left out: a panel has at most {MOST_LINES}."
    # All rows have one length.
    return tuple(zip(*itertools.zip_longest(*kept), strict=True)), told if drawn < asked else ""


def fitting(lines: Sequence[Line], *, low: bool) -> tuple[Line, ...]:
    """Return at most eight lines: the best ones, with up to three of those without privacy."""
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    ranked = sorted(lines, key=lambda line: line.order if low else -line.order)
    free = [line for line in ranked if line.name.free][:_FEW_FREE]
    private = [line for line in ranked if not line.name.free][: MOST_LINES - len(free)]
    kept = {id(line) for line in (*private, *free)}
    return tuple(line for line in lines if id(line) in kept)


def charts_of(chart: Chart) -> list[Chart]:
    """Return the chart as several of at most six panels each."""
    rows, columns = len(chart.grid), len(chart.grid[0])
    each = max(1, MOST_PANELS // rows)
    if columns <= each:
        return [chart]
    count = math.ceil(columns / each)
    each = math.ceil(columns / count)
    found = []
    for number, first in enumerate(range(0, columns, each), start=1):
        grid = tuple(row[first : first + each] for row in chart.grid)
        suffix, title = ("", chart.title) if number == 1 else (f"_{number}", f"{chart.title} ({number} of {count})")
        found.append(replace(chart, name=f"{chart.name}{suffix}", title=title, grid=grid))
    return found


def seeds_sentence(cells: Sequence[ReportCell], scale: ValueScale, what: str) -> str:
    """Return the caption's words on means and intervals. what: 'intervals', or a kind of bands."""
    mean = "Geometric mean" if scale.scale == "log" else "Mean"
    seeds = sorted({cell.seeds for cell in cells})
    count = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    told = f"{mean} over {count} with 95% {what}"
    if seeds[-1] < FEWEST_SEEDS:
        return f"{mean} over {count}; no {what} below {FEWEST_SEEDS} seeds."
    if seeds[0] < FEWEST_SEEDS:
        told += f", none below {FEWEST_SEEDS} seeds"
    if scale.scale == "log":
        told += ", computed on logs"
    if scale.floored:
        told += f"; values below {scale.floor:.1g} are drawn at it"
    return f"{told}."


def lines_of(grid: Grid) -> list[Line]:
    """Return the lines of all panels."""
    return [line for row in grid for panel in row if panel is not None for line in panel.lines]


def cuts_intervals(grid: Grid, axis: Axis) -> bool:
    """Whether an interval reaches beyond the axis of the values."""
    low, high = axis.limits
    return any(bool((line.low < low).any() or (line.high > high).any()) for line in lines_of(grid))


def cut_sentence(grid: Grid, axis: Axis, what: str) -> str:
    """Return the caption's sentence on intervals that reach beyond the axis. what: as in `seeds_sentence`."""
    cut = cuts_intervals(grid, axis)
    return f"{what.capitalize()} that reach the ends of the vertical axis go further." if cut else ""


def unproved_sentence(cells: Sequence[ReportCell], lines: Lines) -> str:
    """Return the caption's sentence on cells that ask for privacy but certify none, which no axis can show."""
    names = []
    for cell in cells:
        if cell.private and not certified(cell):
            name = lines.name(cell)
            claim = f" (claimed \u03b5 = {epsilon_text(float(cell.row.get('claimed_epsilon', math.inf)), 3)})"
            words = [word for word in (name.algorithm, name.model, *name.words) if word != "NO PRIVACY"]
            names.append(", ".join(words) + claim)
    names = list(dict.fromkeys(names))
    return f"NO PRIVACY, so not drawn: {'; '.join(first_of(names, _MOST_NAMED))}." if names else ""


def caption(*sentences: str) -> str:
    """Return the non-empty sentences as one text."""
    return " ".join(sentence for sentence in sentences if sentence)


def epsilon_axis(cells: Sequence[ReportCell]) -> Axis:
    """Return the axis of certified epsilon, with ticks at the values that were run."""
    shown = [cell for cell in cells if certified(cell)]
    claims = (float(cell.row.get("claimed_epsilon", cell.proved)) for cell in shown)
    every = sorted({float(f"{value:.3g}") for value in (*(cell.proved for cell in shown), *claims)})
    log = every[0] > 0.0
    at = " at the claimed \u03b4" if any(cell.delta for cell in cells) else ""
    title = f"Certified \u03b5{at} (left: more private)"
    if not log:
        room = 0.05 * (every[-1] - every[0]) or 1.0
        return Axis(title, "Certified \u03b5", False, (every[0] - room, every[-1] + room), tuple(every))
    room = max((every[-1] / every[0]) ** 0.05, 1.25)
    return Axis(title, "Certified \u03b5", True, (every[0] / room, every[-1] * room), tuple(every))
