"""The headline over episodes, with bands that cover whole curves: a figure for each group of comparable cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullLocator

from dprl.algorithms import Metric
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.figures.drawing import LEGEND_SIZE, TITLE_SIZE, wrapped
from dprl.platform.reports.figures.drawing import png as as_png
from dprl.platform.reports.figures.facets import Facet
from dprl.platform.reports.inference.intervals import CONFIDENCE, FEWEST_SEEDS

SIMULTANEOUS = f"{CONFIDENCE:.0%} bands of whole curves over seeds"
PER_ROW = 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.85, 0.2, 0.5, 0.5
"""Around the axes of a panel, in inches."""
_AXES = 4.75, 2.9
_HEAD = 0.35
"""Above all panels, in inches."""
_LEGEND_WIDTH = 6.2
"""In inches of the titles' font, which is larger."""
_LINE = 0.17
"""Height of a line of a legend, in inches."""
_ALPHA = 0.14
_MARKS = 6
"""Markers along a curve."""
_LOG_SPAN = 30.0
"""Largest ratio of two values at the end whose smaller one can still be read off a linear axis."""
_MOST_ABOVE = 0.5
"""So far above the highest mean, as a share of it, bands are shown."""
_DECADES = 5.0
"""Of a logarithmic axis, at most."""


def legend_lines(names: Sequence[str]) -> int:
    """Return how many lines a legend with these names has below a panel."""
    return sum(wrapped(name, _LEGEND_WIDTH).count("\n") + 1 for name in names)


def panel_grid(title: str, legends: Sequence[int]) -> tuple[Figure, list[Axes]]:
    """Return a figure with room for a legend of so many lines below each panel, and its axes, two in a row.

    Everything is placed by hand: a layout engine takes ten times as long.
    """
    across = min(PER_ROW, len(legends))
    rows = [legends[i : i + across] for i in range(0, len(legends), across)]
    heights = [_TOP + _AXES[1] + _BOTTOM + _LINE * (max(row) + 0.5) for row in rows]
    each = _LEFT + _AXES[0] + _RIGHT
    width, height = each * across, _HEAD + sum(heights)
    figure = Figure(figsize=(width, height))
    figure.text(0.5, 1.0 - 0.2 / height, wrapped(title, width), ha="center", va="center", fontsize=TITLE_SIZE + 1)
    found = []
    for i in range(len(legends)):
        bottom = height - _HEAD - sum(heights[: i // across]) - _TOP - _AXES[1]
        left = each * (i % across) + _LEFT
        place = left / width, bottom / height, _AXES[0] / width, _AXES[1] / height
        found.append(figure.add_axes(place))
    return figure, found


def put_title(axes: Axes, title: str) -> None:
    """Put the title of a panel above it; at a fixed height, as matplotlib takes long to find one."""
    axes.set_title(wrapped(title, _AXES[0]), fontsize=TITLE_SIZE, y=1.01)


def put_names(axes: Axes, lines: Sequence[Line2D], names: Sequence[str]) -> None:
    """Put the legend of the lines of a panel below it."""
    axes.legend(
        lines,
        [wrapped(name, _LEGEND_WIDTH) for name in names],
        loc="upper left",
        bbox_to_anchor=(0.0, -(_BOTTOM - 0.05) / _AXES[1]),
        frameon=False,
        fontsize=LEGEND_SIZE - 1,
        handlelength=4.0,
        labelspacing=0.25,
        borderaxespad=0.0,
    )


def curve_figure(group: Group, facets: Sequence[Facet]) -> bytes:
    """Draw the headline of a group that has one over episodes, in a panel for each of its `facets`, all to one scale.

    Returns a PNG. A curve is named by algorithm, trust model, proved epsilon and verdict.
    """
    names = [[facet.name(cell) for cell in facet.cells] for facet in facets]
    few = min(cell.seeds for cell in group.cells) < FEWEST_SEEDS
    told = f"no band below {FEWEST_SEEDS} seeds" if few else SIMULTANEOUS
    figure, every = panel_grid(f"{group.title}: {told}", [legend_lines(legend) for legend in names])
    scale = _Scale.of(group)
    for axes, facet, legend in zip(every, facets, names, strict=True):
        lines = _draw(axes, facet, scale)
        scale.apply(axes, group)
        put_title(axes, facet.title)
        put_names(axes, lines, legend)
    return as_png(figure)


class _Scale(NamedTuple):
    """What all panels of a group share: whether both axes are logarithmic, and the ends of the axes."""

    log: bool
    first: float
    last: float
    low: float
    high: float

    @classmethod
    def of(cls, group: Group) -> _Scale:
        means = [cell.band[0] for cell in group.cells]
        highest = max(float(mean.max()) for mean in means)
        tops = [np.nanmax([mean.max(), (mean + half).max()]) for mean, half in (cell.band for cell in group.cells)]
        ends = [float(mean[-1]) for mean in means]
        # Bands of few seeds are wide; where they end stands in the table.
        high = min(float(max(tops)), highest + _MOST_ABOVE * abs(highest)) or 1.0
        first, last = (float(end(cell.episodes[i] for cell in group.cells)) for end, i in ((min, 0), (max, -1)))
        log = group.metric is not None and group.metric.over == "sum" and min(ends) * _LOG_SPAN < max(ends)
        if not log:
            return cls(False, 0.0, last, -0.03 * high, 1.04 * high)
        positive = min((float(mean[mean > 0].min()) for mean in means if (mean > 0).any()), default=1.0)
        return cls(True, first, last, max(positive / 1.5, high / 10**_DECADES), 1.3 * high)

    def apply(self, axes: Axes, group: Group) -> None:
        """Set scales, limits and labels of axes that are drawn."""
        if self.log:
            axes.set_xscale("log")
            axes.set_yscale("log")
            # A third of the time that a figure takes is that of minor ticks.
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_xlim(self.first, self.last)
        axes.set_ylim(self.low, self.high)
        axes.set_xlabel(f"{group.unit}{'s (log)' if self.log else 's'}")
        axes.set_ylabel(_value_label(group.metric, group.unit) + (", log)" if self.log else ")"))
        axes.grid(alpha=0.3)


def _value_label(metric: Metric | None, unit: str) -> str:
    """Return what is drawn and its unit, without the closing bracket."""
    if metric is None:
        return ""
    over = f"summed over {unit}s" if metric.over == "sum" else f"mean over a block of {unit}s"
    return f"{metric.label}, {over} ({metric.unit}"


def _draw(axes: Axes, facet: Facet, scale: _Scale) -> list[Line2D]:
    lines = []
    for i, (cell, style) in enumerate(zip(facet.cells, facet.styles(), strict=True)):
        mean, half = cell.band
        line: dict[str, Any] = {**style, "markevery": _marked(cell.episodes, i, scale)}
        lines += axes.plot(cell.episodes, mean, **line)
        if not math.isnan(half[-1]):
            lower = np.maximum(mean - half, scale.low if scale.log else 0.0)
            band: dict[str, Any] = {"color": style["color"], "alpha": _ALPHA, "lw": 0}
            axes.fill_between(cell.episodes, lower, mean + half, **band)
    return lines


def _marked(episodes: np.ndarray, number: int, scale: _Scale) -> list[int]:
    """Return which points of a curve have markers: evenly spaced on the axis, those of each curve elsewhere."""
    shares = (np.arange(_MARKS) + 0.35 + 0.6 * (number % 8) / 8) / _MARKS
    first, last = max(scale.first, 1.0), max(scale.last, 1.0)
    wanted = first * (last / first) ** shares if scale.log else last * shares
    places = np.searchsorted(episodes, wanted)
    return sorted({int(place) for place in places if place < len(episodes)})
