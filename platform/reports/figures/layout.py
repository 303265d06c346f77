"""Places panels, direct labels, titles and the key of a chart in a figure; texts are measured so that none overlap."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dprl.platform.reports.figures.charts import Chart, Panel, labels_of
from dprl.platform.reports.figures.colours import NO_PRIVACY, look
from dprl.platform.reports.figures.marks import draw_marker, draw_panel, line_colour, tick_text
from dprl.platform.reports.figures.styles import FAINT, INK, MUTED, PAGE, Style, drawing, text_height, text_width

_WIDEST_MARGIN = 0.41
"""Largest share of the figure's width for direct labels, which are broken into lines to fit."""
_LEADER = 0.18
"""Distance between axes and labels, in inches of a paper figure."""
_ASPECT = 0.84
_NARROWEST = 1.05
"""Width of a panel, in inches of a paper figure."""
_COLUMNS = 3
"""Maximum of panels side by side."""
_LOWEST, _SHORTEST, _TALLEST = 0.6, 1.35, 2.3
"""Heights of panels, in inches of a paper figure: the least with a given height of the figure, and limits without."""
_LETTERS = "abcdefghijkl"
_BREAKS = (r"(?<=, )", r"(?<=[^=] )(?!=)", r"(?<=_)")
"""Places for line breaks, better ones first; a setting, such as 'H = 4', is one word."""


@dataclass(frozen=True)
class _Frame:
    """Layout of a figure, in inches."""

    width: float
    height: float
    panel_width: float
    panel_height: float
    left: float
    gap: float
    titles: float
    foot: float
    between: float


class _Label(NamedTuple):
    """A direct label. value: of the line's end, on the y axis. leader: colour of the line from there to the text."""

    text: str
    value: float
    colour: str
    leader: str


def compose(chart: Chart, style: Style) -> Figure:
    """Return the chart as a matplotlib figure with the style's width and height, or larger if its texts need more."""
    with drawing():
        grid, frame = _fold(chart, style)
        figure = Figure(figsize=(frame.width, frame.height), dpi=style.dpi, facecolor=PAGE)
        letters = iter(_LETTERS if sum(panel is not None for row in grid for panel in row) > 1 else "")
        for i, row in enumerate(grid):
            bottom = frame.height - (i + 1) * (frame.titles + frame.panel_height) - i * frame.between
            for j, panel in enumerate(row):
                if panel is None:
                    continue
                axes = _axes(figure, frame, (j, bottom))
                draw_panel(axes, chart, panel, style)
                title = _title_lines(panel, frame.panel_width + frame.gap, style)
                _title(axes, title, next(letters, ""), style)
                below = grid[i + 1][j] if i + 1 < len(grid) else None
                axes.tick_params(labelbottom=below is None, labelleft=j == 0 or row[j - 1] is None)
                _write_labels(axes, _labels(chart, row, j, style), frame, style)
        _axis_titles(figure, chart, frame, style, len(grid[0]))
        _put_key(figure, chart, frame, style)
    return figure


def _fold(chart: Chart, style: Style) -> tuple[list[list[Panel | None]], _Frame]:
    """Return rows of panels and their layout, in fewer columns than the chart's if its panels would be too narrow.

    A single column of panels, one for each trust model, becomes a row.
    """
    grid = [list(row) for row in (chart.grid if len(chart.grid[0]) > 1 else zip(*chart.grid, strict=True))]
    frame = _frame_of(chart, grid, style)
    every = [panel for row in zip(*grid, strict=True) for panel in row if panel is not None]
    most = len(grid[0])
    while most > 1 and (most > _COLUMNS or frame.width > 1.001 * style.width):
        most -= 1
        columns = math.ceil(len(every) / math.ceil(len(every) / most))
        rows = [every[i : i + columns] for i in range(0, len(every), columns)]
        grid = [[*row, *[None] * (columns - len(row))] for row in rows]
        frame = _frame_of(chart, grid, style)
    return grid, frame


def _labels(chart: Chart, row: Sequence[Panel | None], j: int, style: Style) -> list[_Label]:
    """Return the labels beside the panel of column j: those that are missing in all later panels of the row."""
    own, *later = (_panel_labels(chart, panel, style) if panel else [] for panel in row[j:])
    known = {(label.text, label.colour) for labels in later for label in labels}
    return [label for label in own if (label.text, label.colour) not in known]


def _panel_labels(chart: Chart, panel: Panel, style: Style) -> list[_Label]:
    """Return the labels of a panel's lines, and of the dotted level of a policy that has learned nothing."""
    found = [
        _Label(text, line.order, line.ink.text, line_colour(line))
        for text, line in zip(labels_of(chart, panel.lines), panel.lines, strict=True)
    ]
    if math.isfinite(panel.unlearned):
        found.append(_Label("no learning", panel.unlearned, MUTED, FAINT))
    room = _WIDEST_MARGIN * style.width - (_LEADER + 0.08) * style.inch
    return [label._replace(text=in_lines(label.text, room, style.labels)) for label in found]


def _frame_of(chart: Chart, grid: Sequence[Sequence[Panel | None]], style: Style) -> _Frame:
    inch, rows, columns = style.inch, len(grid), len(grid[0])
    panels = [panel for row in grid for panel in row if panel is not None]
    labels = [[_labels(chart, row, j, style) for j in range(columns)] for row in grid]
    texts = [label.text for row in labels for each in row for label in each]
    ticks = max(text_width(tick_text(tick), style.ticks) for tick in _y_ticks(chart))
    left = ticks + text_height("x", style.text) + 0.17 * inch
    margin = max((text_width(text, style.labels) for text in texts), default=0.0) + (_LEADER + 0.08) * inch
    gap = max(0.16 * inch, _tick_room(chart, style))
    # If the last column lacks a line, there are labels between columns, which are then further apart.
    gap = margin if any(any(row[:-1]) for row in labels) else gap
    around = left + margin + (columns - 1) * gap
    # If labels leave no room for panels, the figure becomes wider.
    panel_width = max((style.width - around) / columns, _NARROWEST * inch)
    needed = 1.05 * max(sum(_label_height(label, style) for label in each) for row in labels for each in row)
    key = _key_rows(chart, style)
    foot = (0.16 * inch + text_height("x", style.ticks) + text_height(_x_title(chart, style), style.text)) + (
        len(key) * text_height("x", style.small) * 1.25 + 0.06 * inch if key else 0.0
    )
    titles = 0.1 * inch
    if len(panels) > 1:
        lines = [_title_lines(panel, panel_width + gap, style) for panel in panels]
        titles = max(text_height(line, style.text) for line in lines) + 0.11 * inch
    between = 0.17 * inch
    around_panels = foot + rows * titles + (rows - 1) * between
    if style.height is None:
        panel_height = min(max(_ASPECT * panel_width, _SHORTEST * inch), _TALLEST * inch)
    else:
        panel_height = max((style.height - around_panels) / rows, _LOWEST * inch)
    # If labels need more than that, the figure becomes higher.
    panel_height = max(panel_height, needed)
    height = around_panels + rows * panel_height
    width = around + columns * panel_width
    return _Frame(width, height, panel_width, panel_height, left, gap, titles, foot, between)


def _tick_room(chart: Chart, style: Style) -> float:
    """Return the distance of two columns that separates the last tick of one from the first of the next."""
    if chart.kind != "curves":
        return 0.0
    widths = (text_width(tick_text(end), style.ticks) for end in chart.x.limits)
    return sum(widths) / 2 + 0.07 * style.inch


def _y_ticks(chart: Chart) -> list[float]:
    """Return values with texts about as wide as those of the ticks."""
    low, high = chart.y.limits
    if not chart.y.log:
        return [high, float(f"{high / 5:.2g}")]
    decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high)) + 1)
    return [10.0**decade for decade in decades] or [float(f"{low:.1g}"), float(f"{high:.1g}")]


def _axes(figure: Figure, frame: _Frame, at: tuple[int, float]) -> Axes:
    column, bottom = at
    width, height = frame.width, frame.height
    left = frame.left + column * (frame.panel_width + frame.gap)
    place = left / width, bottom / height, frame.panel_width / width, frame.panel_height / height
    return figure.add_axes(place)


def _title(axes: Axes, title: str, letter: str, style: Style) -> None:
    if not letter:
        return
    look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    look |= {"fontsize": style.text, "color": INK, "annotation_clip": False}
    axes.annotate(letter + "\n" * title.count("\n"), (0.0, 1.0), (0, 0.45 * style.text), weight="bold", **look)
    width = text_width(f"{letter} ", style.text, bold=True) * 72 + 0.25 * style.text
    axes.annotate(title, (0.0, 1.0), (width, 0.45 * style.text), **look)


def _title_lines(panel: Panel, width: float, style: Style) -> str:
    """Return a panel's title in lines that end before the next panel's title."""
    return in_lines(panel.title, width - text_width("m m", style.text, bold=True), style.text)


def in_lines(text: str, width: float, size: float, breaks: Sequence[str] = _BREAKS) -> str:
    """Return a text in lines of at most this width if it can be broken there: after commas, else at spaces, else at
    underscores.
    """
    if not breaks or text_width(text, size) <= width:
        return text
    lines = [""]
    for part in re.split(breaks[0], text):
        if lines[-1] and text_width((lines[-1] + part).rstrip(), size) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(in_lines(line.rstrip(), width, size, breaks[1:]) for line in lines)


def _write_labels(axes: Axes, labels: Sequence[_Label], frame: _Frame, style: Style) -> None:
    """Write labels right of the axes, moved apart where they would overlap, each with a leader to its line's end."""
    ends = [_height(axes, label.value) for label in labels]
    order = sorted(range(len(labels)), key=lambda i: ends[i])
    heights = [_label_height(labels[i], style) / frame.panel_height for i in order]
    unit = style.inch / frame.panel_width
    xs = (1 + 0.025 * unit, 1 + 0.1 * unit, 1 + (_LEADER - 0.04) * unit)
    look: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for i, place in zip(order, spread([ends[i] for i in order], heights), strict=True):
        text, _, colour, leader = labels[i]
        va = "center" if "\n" in text else "center_baseline"
        axes.text(1 + _LEADER * unit, place, text, va=va, fontsize=style.labels, color=colour, **look)
        axes.plot(xs, (ends[i], place, place), color=leader, lw=style.hair, **look)


def _label_height(label: _Label, style: Style) -> float:
    """Return the height of a label; the space below one of several lines shows where it ends."""
    return text_height(label.text, style.labels) + (0.3 if "\n" in label.text else 0.05) * style.labels / 72


def _height(axes: Axes, value: float) -> float:
    """Return the height of a value, as a share of the axes."""
    at = axes.transData.transform((axes.get_xlim()[1], value))
    share = float(axes.transAxes.inverted().transform(at)[1])
    return min(max(share, 0.0), 1.0)


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return increasing centres near the increasing `wanted` ones, of boxes of these heights that do not overlap.

    They are in [0, 1] if they fit.
    """
    blocks: list[tuple[float, list[float]]] = []
    for want, height in zip(wanted, heights, strict=True):
        blocks.append((_inside(want, height), [height]))
        # Overlapping neighbours become one block around the mean of their wanted positions.
        while len(blocks) > 1 and blocks[-1][0] - blocks[-2][0] < (sum(blocks[-1][1]) + sum(blocks[-2][1])) / 2:
            (upper, above), (lower, below) = blocks.pop(), blocks.pop()
            centre = (upper * len(above) + lower * len(below)) / (len(above) + len(below))
            blocks.append((_inside(centre, sum(above) + sum(below)), [*below, *above]))
    found = []
    for centre, inside in blocks:
        ends = np.cumsum([centre - sum(inside) / 2, *inside])
        found += ((ends[:-1] + ends[1:]) / 2).tolist()
    return found


def _inside(centre: float, height: float) -> float:
    """Return the nearest centre of a box of this height in [0, 1]."""
    return min(max(centre, height / 2), max(1.0 - height / 2, height / 2))


def _x_title(chart: Chart, style: Style) -> str:
    wide = style.width - 0.5 * style.inch
    return chart.x.title if text_width(chart.x.title, style.text) < 0.7 * wide else chart.x.short


def _axis_titles(figure: Figure, chart: Chart, frame: _Frame, style: Style, columns: int) -> None:
    width, height = frame.width, frame.height
    middle = frame.left + (columns * frame.panel_width + (columns - 1) * frame.gap) / 2
    at = frame.foot - (0.12 * style.inch + text_height("x", style.ticks))
    text = _x_title(chart, style)
    # A title wider than the panels begins at the left edge.
    half = text_width(text, style.text) / 2
    middle = max(middle, half + 0.02 * style.inch)
    look: dict[str, Any] = {"fontsize": style.text, "color": INK}
    figure.text(middle / width, at / height, text, ha="center", va="top", **look)
    centre = (frame.foot + height - frame.titles) / 2
    figure.text(0.01 * style.inch / width, centre / height, chart.y.title, rotation=90, va="center", **look)


_KEY = {"full": "claim holds", "left": "holds only for \u03b4 > 0", "none": "claim fails"}
_CLAIM = "claimed \u03b5 to certified \u03b5"


def _key_entries(chart: Chart) -> list[str]:
    """Return the entries of the key, none if all claims hold."""
    if chart.kind == "curves":
        return []
    fills = {fill for line in chart.lines for fill in line.fills}
    if fills <= {"full"}:
        return []
    return [text for fill, text in _KEY.items() if fill in fills] + [_CLAIM]


def _key_rows(chart: Chart, style: Style) -> list[list[str]]:
    rows: list[list[str]] = []
    room = 0.0
    for text in _key_entries(chart):
        width = text_width(text, style.small) + 0.42 * style.inch
        if not rows or room + width > style.width - 0.05 * style.inch:
            rows.append([])
            room = 0.0
        rows[-1].append(text)
        room += width
    return rows


def _put_key(figure: Figure, chart: Chart, frame: _Frame, style: Style) -> None:
    """Explain fills of markers below the panels."""
    rows = _key_rows(chart, style)
    if not rows:
        return
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, frame.width), ylim=(0, frame.height))
    axes.axis("off")
    line = text_height("x", style.small) * 1.25
    colour, marker = NO_PRIVACY.text, look("jdp").marker
    fills = {text: fill for fill, text in _KEY.items()}
    for i, row in enumerate(rows):
        y = (len(rows) - i - 0.5) * line + 0.02 * style.inch
        x = min(frame.left, 0.1 * style.inch)
        for text in row:
            begin = x + (0.1 if text in fills else 0.24) * style.inch
            if text in fills:
                draw_marker(axes, (begin - 0.03 * style.inch, y), marker, colour, fills[text], style)  # type: ignore[arg-type]
            else:
                ends = (x, begin - 0.03 * style.inch)
                axes.plot(ends, (y, y), color=colour, lw=0.8 * style.line, ls=(0, (1, 1.2)))
                axes.plot(ends[0], y, marker="|", ms=1.3 * style.marker, color=colour, mew=0.7 * style.line)
                draw_marker(axes, (ends[1], y), marker, colour, "none", style)
            look_of: dict[str, Any] = {"va": "center_baseline", "fontsize": style.small, "color": colour}
            axes.text(begin + 0.06 * style.inch, y, text, **look_of)
            x = begin + 0.06 * style.inch + text_width(text, style.small) + 0.2 * style.inch
