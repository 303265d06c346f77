"""Draws the lines of a panel: points with whiskers over epsilon, level lines, and curves with bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dprl.platform.reports.figures.charts import Axis, Chart, Fill, Line, Panel
from dprl.platform.reports.figures.styles import AXIS, FAINT, MUTED, PAGE, RULE, Style, text_width
from dprl.platform.reports.number_texts import power_text

_BAND = 0.16
"""Opacity of bands."""
_ASIDE = 0.011
"""Distance between markers of different lines at the same x, as a share of the axis."""
_SAME_X = 0.02
"""Markers whose x differ by less, relative to x, cover each other."""
_MOST_TICKS = 6
_WIDE_TICKS = 100.0
"""A logarithmic axis with at least this ratio of its ends is labelled at powers of ten only."""
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def draw_panel(axes: Axes, chart: Chart, panel: Panel, style: Style) -> None:
    """Draw all lines of a panel, and its axes without their titles."""
    _frame(axes, chart, style)
    if math.isfinite(panel.unlearned):
        axes.axhline(panel.unlearned, color=FAINT, lw=1.2 * style.hair, ls=(0, (1, 1.8)), zorder=1)
    free = [line for line in panel.lines if line.name.free]
    private = [line for line in panel.lines if not line.name.free]
    if chart.kind == "curves":
        for line in (*free, *private):
            _draw_curve(axes, line, style)
        return
    for line in free:
        if math.isnan(line.x[0]):
            _draw_level(axes, line, style)
        else:
            _draw_points(axes, line, style, chart.x, 0.0)
    for line, place in zip(private, _places(private), strict=True):
        _draw_points(axes, line, style, chart.x, place)


def _places(lines: Sequence[Line]) -> list[float]:
    """Return the places of the lines that share an x with another one, symmetrical around 0; 0 for all others."""
    xs = [line.x[:, np.newaxis] for line in lines]
    near = [any(np.isclose(one, other.T, rtol=_SAME_X).any() for other in xs if other is not one) for one in xs]
    middle = (sum(near) - 1) / 2
    return [sum(near[:i]) - middle if shared else 0.0 for i, shared in enumerate(near)]


def _frame(axes: Axes, chart: Chart, style: Style) -> None:
    axes.set_facecolor("none")
    width = axes.get_position().width * style.width
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(color=AXIS, linewidth=style.hair)
    put_scale(axes.xaxis, chart.x, int(width / (text_width("10k", style.ticks) + 0.03 * style.inch)))
    put_scale(axes.yaxis, chart.y, _MOST_TICKS)
    axes.set_xlim(*chart.x.limits)
    axes.set_ylim(*chart.y.limits)
    size = style.hair * 4
    axes.tick_params(color=AXIS, width=style.hair, length=size)
    axes.tick_params(labelcolor=MUTED, labelsize=style.ticks, pad=size * 0.8)
    axes.grid(axis="y", color=RULE, lw=style.hair)
    axes.set_axisbelow(True)


def put_scale(axis: Any, wanted: Axis, room: int) -> None:  # noqa: ANN401  # matplotlib's XAxis or YAxis
    """Put scale, ticks and their texts on one axis, at most `room` of them at powers of ten."""
    if wanted.log:
        axis._set_axes_scale("log")
    if wanted.ticks:
        axis.set_major_locator(FixedLocator(_readable(wanted)))
    elif wanted.log and wanted.counts and axis.axis_name == "x":
        axis.set_major_locator(FixedLocator(_decades(wanted, room)))
    elif wanted.log:
        wide = wanted.limits[1] > _WIDE_TICKS * wanted.limits[0]
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=_MOST_TICKS + 1))
    else:
        axis.set_major_locator(MaxNLocator(_MOST_TICKS - 1, steps=[1, 2, 2.5, 5, 10], integer=wanted.counts))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def _decades(axis: Axis, room: int) -> list[float]:
    """Return powers of ten, or every second or third if there is no room for all."""
    first, last = math.ceil(math.log10(axis.limits[0]) - 1e-9), math.floor(math.log10(axis.limits[1]) + 1e-9)
    step = math.ceil((last - first + 1) / max(room, 2))
    return [10.0**decade for decade in range(first, last + 1, max(step, 1))]


def _readable(axis: Axis) -> list[float]:
    """Return ticks that do not touch each other: the first, the last, and those between with room around them."""
    places = [_share(axis, tick) for tick in axis.ticks]
    kept: list[int] = []
    for i, place in enumerate(places):
        last = i == len(places) - 1
        while last and len(kept) > 1 and place - places[kept[-1]] < 0.09:
            kept.pop()
        if not kept or place - places[kept[-1]] >= 0.09:
            kept.append(i)
    return [axis.ticks[i] for i in kept]


def _share(axis: Axis, value: float) -> float:
    low, high = axis.limits
    if axis.log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def tick_text(value: float) -> str:
    """Return a tick's text, e.g. '0.001', '30', '1k' or '2.5M'."""
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    if value != 0 and abs(value) < 1e-4:
        return power_text(value, 1, short=True)
    if abs(value) < 1:
        return f"{value:.10f}".rstrip("0").rstrip(".")
    return f"{value:.3g}"


def line_colour(line: Line) -> str:
    """Return the colour of a line, mixed with that of the page by its tint."""
    ends = to_rgb(line.ink.line), to_rgb(PAGE)
    red, green, blue = ((1 - line.tint) * one + line.tint * other for one, other in zip(*ends, strict=True))
    return to_hex((red, green, blue))


def _draw_curve(axes: Axes, line: Line, style: Style) -> None:
    colour = line_colour(line)
    width = style.line * (0.8 if line.name.free else 1.25) * line.look.weight
    axes.plot(line.x, line.y, color=colour, ls=line.look.dashes, lw=width, solid_capstyle="butt", zorder=3)
    if not np.isnan(line.low).all():
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=_BAND, lw=0, zorder=2)


def _draw_level(axes: Axes, line: Line, style: Style) -> None:
    """Draw results without privacy across all epsilons."""
    colour = line.ink.line
    axes.axhline(line.y[0], color=colour, lw=0.9 * style.line, zorder=2)
    if not math.isnan(line.low[0]):
        axes.axhspan(line.low[0], line.high[0], color=colour, alpha=_BAND, lw=0, zorder=1)


def _draw_points(axes: Axes, line: Line, style: Style, x_axis: Axis, place: float) -> None:
    """Draw markers with whiskers and the line through them, shifted by its `place` among those that share an x."""
    colour = line_colour(line)
    x = _aside(line.x, x_axis, place)
    width = style.line * line.look.weight
    axes.plot(x, line.y, color=colour, ls=line.look.dashes, lw=width, zorder=3)
    shown = ~np.isnan(line.low)
    axes.vlines(x[shown], line.low[shown], line.high[shown], color=colour, lw=width * 0.9, zorder=3)
    _mark_cuts(axes, line, x, colour, style)
    claims = line.claimed or (math.nan,) * len(x)
    if not line.look.marker:
        return
    full: Fill = "full"
    for at, y, fill, claimed in zip(x, line.y, line.fills or (full,) * len(x), claims, strict=True):
        if not math.isnan(claimed):
            _draw_claim(axes, (claimed, at), y, colour, style)
        draw_marker(axes, (at, y), line.look.marker, colour, fill, style)


def _mark_cuts(axes: Axes, line: Line, x: np.ndarray, colour: str, style: Style) -> None:
    """Draw a caret at the end of the axis where an interval goes further."""
    low, high = axes.get_ylim()
    look: dict[str, Any] = {"ls": "", "ms": style.marker, "color": colour, "mew": 0.0, "clip_on": False, "zorder": 3}
    for end, beyond, caret in ((low, line.low < low, CARETDOWN), (high, line.high > high, CARETUP)):
        if beyond.any():
            axes.plot(x[beyond], np.full(beyond.sum(), end), marker=caret, **look)


def _draw_claim(axes: Axes, ends: Sequence[float], y: float, colour: str, style: Style) -> None:
    """Draw a dotted line from the claimed epsilon, marked by a tick, to the certified one."""
    axes.plot(ends, (y, y), color=colour, lw=0.8 * style.line, ls=(0, (1, 1.2)), zorder=2.5)
    axes.plot(ends[0], y, marker="|", ms=1.3 * style.marker, color=colour, mew=0.7 * style.line, zorder=2.5)


def draw_marker(axes: Axes, at: tuple[float, float], marker: str, colour: str, fill: Fill, style: Style) -> None:
    """Draw a marker with a fill for the verdict on the claim."""
    wide = fill != "full"
    look: dict[str, Any] = {
        "marker": marker,
        "ls": "",
        "ms": style.marker * (1.35 if wide else 1.15),
        "color": colour,
        "mec": colour if wide else PAGE,
        "mew": style.line * (0.8 if wide else 0.4),
        "clip_on": False,
        "zorder": 4,
    }
    if fill == "left":
        look |= {"fillstyle": "left", "mfcalt": PAGE}
    elif fill == "none":
        look |= {"mfc": PAGE}
    axes.plot(*at, **look)


def _aside(x: np.ndarray, axis: Axis, place: float) -> np.ndarray:
    low, high = axis.limits
    shift = place * _ASIDE
    return x * (high / low) ** shift if axis.log else x + shift * (high - low)
