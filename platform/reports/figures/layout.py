"""Places panels, direct labels, titles and the key of a chart in a figure; texts are measured so that none overlap."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dprl.platform.reports.figures.charts import Chart, Line, Panel, labels_of
from dprl.platform.reports.figures.colours import NO_PRIVACY, look
from dprl.platform.reports.figures.marks import draw_marker, draw_panel, line_colour, tick_text
from dprl.platform.reports.figures.styles import Style, drawing, text_height, text_width

_WIDEST_MARGIN = 0.36
"""Largest share of the figure's width for direct labels; if they need more, a colour key stands above the panels."""
_LEADER = 0.22
"""Distance between axes and labels, in inches of a paper figure."""
_ASPECT = 0.84
_NARROWEST = 1.15
"""Width of a panel, in inches of a paper figure."""
_SHORTEST, _TALLEST = 1.35, 2.3
"""Heights of panels, in inches of a paper figure."""
_LETTERS = "abcdefghijkl"


@dataclass(frozen=True)
class _Frame:
    """Layout of a figure, in inches. head: height of the colour key."""

    width: float
    panel_width: float
    panel_height: float
    left: float
    gap: float
    titles: float
    head: float
    foot: float
    between: float
    keyed: bool


class _Label(NamedTuple):
    """A direct label. at: the height of the line's end, as a share of the axes."""

    text: str
    at: float
    line: Line


def compose(chart: Chart, style: Style) -> Figure:
    """Return the chart as a matplotlib figure with the style's width and the height that its panels need."""
    with drawing():
        grid = _fold(chart, style)
        frame = _frame_of(chart, grid, style)
        rows, columns = len(grid), len(grid[0])
        height = frame.head + frame.foot + rows * (frame.titles + frame.panel_height) + (rows - 1) * frame.between
        figure = Figure(figsize=(frame.width, height), dpi=style.dpi, facecolor=_background(style))
        titled = sum(panel is not None for row in grid for panel in row) > 1
        noted, letters = False, iter(_LETTERS)
        for i, row in enumerate(grid):
            bottom = height - frame.head - (i + 1) * (frame.titles + frame.panel_height) - i * frame.between
            for j, panel in enumerate(row):
                if panel is None:
                    continue
                axes = _axes(figure, frame, height, (j, bottom))
                draw_panel(axes, chart, panel, style)
                title = _in_lines(panel.title, frame.panel_width + frame.gap, style)
                _title(axes, title, next(letters) if titled else "", style)
                below = grid[i + 1][j] if i + 1 < rows else None
                axes.tick_params(labelbottom=below is None, labelleft=j == 0 or row[j - 1] is None)
                if not noted:
                    noted = _note_unlearned(axes, panel, style)
                if missing := _unlabelled(row, j):
                    _write_labels(axes, chart, missing, frame, style)
        _axis_titles(figure, chart, frame, style, height, columns)
        if frame.keyed:
            _name_colours(figure, chart, frame, style, height)
        _put_key(figure, chart, frame, style, height)
    return figure


def _background(style: Style) -> str:
    """Return the colour behind a figure: none on pages, which show their own background."""
    return "none" if style.name in ("page", "phone") else style.frame("page")


def _fold(chart: Chart, style: Style) -> list[list[Panel | None]]:
    """Return the panels in as many columns as the style has, or fewer if panels would be too narrow."""
    room = style.width - _margin(chart, chart.panels, style, keyed=True) - 0.4 * style.inch
    most = min(style.columns, max(1, int(room / (_NARROWEST * style.inch))))
    if len(chart.grid[0]) <= most:
        return [list(row) for row in chart.grid]
    every = [panel for row in zip(*chart.grid, strict=True) for panel in row if panel is not None]
    columns = math.ceil(len(every) / math.ceil(len(every) / most))
    rows = [every[i : i + columns] for i in range(0, len(every), columns)]
    return [[*row, *[None] * (columns - len(row))] for row in rows]


def _unlabelled(row: Sequence[Panel | None], j: int) -> list[Line]:
    """Return the lines labelled beside the panel of column j: those that are missing in all later panels of the row."""
    panel, *later = row[j:]
    known = {line.name for other in later if other for line in other.lines}
    return [line for line in panel.lines if line.name not in known] if panel else []


def _frame_of(chart: Chart, grid: Sequence[Sequence[Panel | None]], style: Style) -> _Frame:
    inch, columns = style.inch, len(grid[0])
    panels = [panel for row in grid for panel in row if panel is not None]
    ticks = max(text_width(tick_text(tick), style.ticks) for tick in _y_ticks(chart))
    left = ticks + text_height("x", style.text) + 0.17 * inch
    keyed = False
    margin = _margin(chart, panels, style, keyed=False)
    if margin > _WIDEST_MARGIN * style.width:
        shorter = _margin(chart, panels, style, keyed=True)
        keyed = shorter < margin and len(chart.algorithms) > 1
        margin = shorter if keyed else margin
    gap = max(0.16 * inch, _tick_room(chart, style))
    # If the last column lacks a line, there are labels between columns, which are then further apart.
    gap = margin if any(_unlabelled(row, j) for row in grid for j in range(columns - 1)) else gap
    around = left + margin + (columns - 1) * gap
    # If labels leave no room for panels, the figure becomes wider.
    panel_width = max((style.width - around) / columns, _NARROWEST * inch)
    width = around + columns * panel_width
    most = max(len(panel.lines) for panel in panels)
    needed = most * text_height("x", style.labels) * 1.12
    wanted = min(max(_ASPECT * panel_width, _SHORTEST * inch), _TALLEST * inch)
    key = _key_rows(chart, style)
    foot = (0.16 * inch + text_height("x", style.ticks) + text_height(_x_title(chart, style), style.text)) + (
        len(key) * text_height("x", style.small) * 1.25 + 0.06 * inch if key else 0.0
    )
    titled = len(panels) > 1
    head = text_height(_colour_rows(chart, style), style.labels) * 1.15 + 0.14 * inch if keyed else 0.02 * inch
    lines = [_in_lines(panel.title, panel_width + gap, style) for panel in panels]
    titles = max(text_height(line, style.text) for line in lines) + 0.09 * inch if titled else 0.1 * inch
    return _Frame(width, panel_width, max(wanted, needed), left, gap, titles, head, foot, 0.17 * inch, keyed)


def _tick_room(chart: Chart, style: Style) -> float:
    """Return the distance of two columns that separates the last tick of one from the first of the next."""
    if chart.kind != "curves":
        return 0.0
    widths = (text_width(tick_text(end, counts=True), style.ticks) for end in chart.x.limits)
    return sum(widths) / 2 + 0.07 * style.inch


def _y_ticks(chart: Chart) -> list[float]:
    """Return values with texts about as wide as those of the ticks."""
    low, high = chart.y.limits
    if not chart.y.log:
        return [high, float(f"{high / 5:.2g}")]
    decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high)) + 1)
    return [10.0**decade for decade in decades] or [float(f"{low:.1g}"), float(f"{high:.1g}")]


def _margin(chart: Chart, panels: Sequence[Panel], style: Style, *, keyed: bool) -> float:
    texts = [text for panel in panels for text in labels_of(chart, panel.lines, keyed=keyed)]
    return max((text_width(text, style.labels) for text in texts), default=0.0) + (_LEADER + 0.08) * style.inch


def _axes(figure: Figure, frame: _Frame, height: float, at: tuple[int, float]) -> Axes:
    column, bottom = at
    left = frame.left + column * (frame.panel_width + frame.gap)
    place = left / frame.width, bottom / height, frame.panel_width / frame.width, frame.panel_height / height
    return figure.add_axes(place)


def _title(axes: Axes, title: str, letter: str, style: Style) -> None:
    if not letter:
        return
    look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    look |= {"fontsize": style.text, "color": style.frame("ink"), "annotation_clip": False}
    axes.annotate(letter + "\n" * title.count("\n"), (0.0, 1.0), (0, 0.45 * style.text), weight="bold", **look)
    width = text_width(f"{letter} ", style.text, bold=True) * 72 + 0.25 * style.text
    axes.annotate(title, (0.0, 1.0), (width, 0.45 * style.text), **look)


def _in_lines(title: str, width: float, style: Style) -> str:
    """Return a panel's title in lines that end before the next panel's title."""
    room, lines = width - text_width("m m", style.text, bold=True), [""]
    for part in title.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if lines[-1] and text_width(longer, style.text) > room:
            lines.append(part)
        else:
            lines[-1] = longer
    return ",\n".join(lines)


def _note_unlearned(axes: Axes, panel: Panel, style: Style) -> bool:
    """Label the dotted level of a policy that has learned nothing; return whether there is one."""
    if not math.isfinite(panel.unlearned):
        return False
    level = axes.transAxes.inverted().transform(axes.transData.transform((axes.get_xlim()[0], panel.unlearned)))[1]
    offset, va = ((0, 1.5), "bottom") if level < 0.9 else ((0, -2), "top")
    axes.annotate(
        "no learning",
        (0.995, level),
        offset,
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va=va,
        fontsize=style.small,
        color=style.frame("muted"),
        bbox={"facecolor": style.frame("page"), "alpha": 0.75, "linewidth": 0, "pad": 0.5},
        zorder=5,
    )
    return True


def _write_labels(axes: Axes, chart: Chart, lines: Sequence[Line], frame: _Frame, style: Style) -> None:
    """Write names right of the axes, moved apart where they would overlap, each with a leader to its line's end."""
    every = labels_of(chart, lines, keyed=frame.keyed)
    labels = [_Label(text, _height(axes, line), line) for text, line in zip(every, lines, strict=True)]
    ordered = sorted(labels, key=lambda label: label.at)
    each = text_height("x", style.labels) / frame.panel_height
    places = spread([label.at for label in ordered], each)
    unit = style.inch / frame.panel_width
    for label, place in zip(ordered, places, strict=True):
        keyed_free = frame.keyed and label.line.name.free
        text_shades = label.line.shades if keyed_free else label.line.ink
        at = (1 + _LEADER * unit, place)
        look: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.text(
            *at, label.text, va="center_baseline", fontsize=style.labels, color=style.text_colour(text_shades), **look
        )
        xs = (1 + 0.025 * unit, 1 + 0.1 * unit, 1 + (_LEADER - 0.04) * unit)
        axes.plot(xs, (label.at, place, place), color=line_colour(label.line, style), lw=style.hair, **look)


def _height(axes: Axes, line: Line) -> float:
    """Return the height of a line's end, as a share of the axes."""
    at = axes.transData.transform((axes.get_xlim()[1], line.order))
    share = float(axes.transAxes.inverted().transform(at)[1])
    return min(max(share, 0.0), 1.0)


def spread(wanted: Sequence[float], height: float) -> list[float]:
    """Return increasing positions near the increasing `wanted` ones, at least `height` apart, in [0, 1] if they fit."""
    groups: list[tuple[float, int]] = []
    for want in wanted:
        groups.append((want, 1))
        # Overlapping neighbours become one block around the mean of their wanted positions.
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < height * (groups[-1][1] + groups[-2][1]) / 2:
            (one, few), (other, more) = groups.pop(), groups.pop()
            groups.append(((one * few + other * more) / (few + more), few + more))
            centre, size = groups[-1]
            reach = height * (size - 1) / 2
            groups[-1] = (min(max(centre, reach), max(1.0 - reach, reach)), size)
    return [centre + height * (i - (size - 1) / 2) for centre, size in groups for i in range(size)]


def _x_title(chart: Chart, style: Style) -> str:
    wide = style.width - 0.5 * style.inch
    return chart.x.title if text_width(chart.x.title, style.text) < 0.7 * wide else chart.x.short


def _axis_titles(figure: Figure, chart: Chart, frame: _Frame, style: Style, height: float, columns: int) -> None:
    middle = frame.left + (columns * frame.panel_width + (columns - 1) * frame.gap) / 2
    at = frame.foot - (0.12 * style.inch + text_height("x", style.ticks))
    text = _x_title(chart, style)
    # A title wider than the panels begins at the left edge.
    half = text_width(text, style.text) / 2
    middle = max(middle, half + 0.02 * style.inch)
    look: dict[str, Any] = {"fontsize": style.text, "color": style.frame("ink")}
    figure.text(middle / frame.width, at / height, text, ha="center", va="top", **look)
    centre = (frame.foot + height - frame.head - frame.titles) / 2
    figure.text(0.01 * style.inch / frame.width, centre / height, chart.y.title, rotation=90, va="center", **look)


def _colour_rows(chart: Chart, style: Style) -> str:
    """Return the names of the algorithms, wrapped to the figure's width."""
    most = max(10, int(style.width / text_width("n", style.labels)))
    return "\n".join(textwrap.wrap("   ".join(chart.algorithms), most, break_on_hyphens=False, break_long_words=False))


def _name_colours(figure: Figure, chart: Chart, frame: _Frame, style: Style, height: float) -> None:
    """Write the names of the algorithms in their colours above the panels."""
    x, y = frame.left, height - 0.05 * style.inch
    for name, shades in chart.algorithms.items():
        width = text_width(name, style.labels, bold=True)
        if x + width > style.width and x > frame.left:
            x, y = frame.left, y - text_height("x", style.labels) * 1.1
        look: dict[str, Any] = {"fontsize": style.labels, "weight": "bold", "va": "top"}
        figure.text(x / style.width, y / height, name, color=style.text_colour(shades), **look)
        x += width + 0.12 * style.inch


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


def _put_key(figure: Figure, chart: Chart, frame: _Frame, style: Style, height: float) -> None:
    """Explain fills of markers below the panels."""
    rows = _key_rows(chart, style)
    if not rows:
        return
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, frame.width), ylim=(0, height))
    axes.axis("off")
    line = text_height("x", style.small) * 1.25
    colour, marker = style.text_colour(NO_PRIVACY), look("jdp").marker
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
