"""Draws charts with matplotlib: panels, direct labels at the ends of lines, and a key where claims fail."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dprl.platform.errors import broken_rule
from dprl.platform.reports.charts import NO_PRIVACY, Axis, Chart, Fill, Line, Panel
from dprl.platform.reports.number_texts import power_text

FORMATS = ("pdf", "svg", "png")
LENGTHS = 1.5, 40.0
"""Limits of the width and height of figures, in inches."""
_FONTS = ("Arial", "Helvetica", "Liberation Sans", "DejaVu Sans")
"""The first one installed is used; the last one comes with matplotlib and has every glyph."""
_INK, _AXIS, _FAINT, _RULE, _PAGE, _MUTED = "#1D1D1F", "#444444", "#A8A8A8", "#ECECEC", "#FFFFFF", "#6A6A6A"
"""Colours of titles, axes and ticks, the level without learning, gridlines, the page, and notes."""
_DASHES: Mapping[str, Any] = {"none": "-", "jdp": "-", "shuffle": (0, (1, 1.4)), "ldp": (0, (3.6, 1.8))}
_OTHER_DASHES = (0, (5, 1.5, 1.2, 1.5))
_MARKERS = {"jdp": "o^vh", "ldp": "sDdp"}
_OTHER_MARKERS = "PX*8"
_THIN, _BAND = 0.62, 0.16
"""Weight of lines with other than the best noise, and opacity of bands."""
_CONTRAST = 4.5
"""Least contrast of a label with the page."""
_ASIDE, _SAME_X = 0.011, 0.02
"""Distance between markers that share an x, as a share of the axis; relative distance of x that are shared."""
_COLUMNS, _NARROWEST, _LONGEST = 3, 11.0, 28
"""Most panels side by side, their least width in ems, and most letters in a line of a label."""
_LETTERS = "abcdefghijkl"
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_KEY: Mapping[str, Fill] = {"claim holds": "full", "holds only for \u03b4 > 0": "left", "claim fails": "none"}


@dataclass(frozen=True)
class Style:
    """Sizes of a figure: width and height in inches (without a height, it suits the panels), text in points, dots."""

    width: float
    text: float
    dpi: int
    height: float | None = None


STYLES = {"paper": Style(5.5, 8.0, 300), "slides": Style(11.0, 16.0, 200), "page": Style(1100 / 72, 13.0, 110)}
"""One point is one pixel of a page if the SVG has its natural size: 1100 pixels."""


def style_of(name: str, width: float | None = None, height: float | None = None) -> Style:
    """Return the style of that name, with another width and height (in inches) if given. Raises UserError."""
    if name not in STYLES:
        raise broken_rule("style", "must be paper or slides", name, "leave it out")
    for key, length in (("width", width), ("height", height)):
        if length is not None and not (isinstance(length, int | float) and LENGTHS[0] <= length <= LENGTHS[1]):
            raise broken_rule(key, f"must be a number of inches in {LENGTHS}", length, "leave it out")
    found = STYLES[name]
    return replace(found, width=found.width if width is None else width, height=height)


def draw(
    chart: Chart, style: Style, colours: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Figure:
    """Return the chart as a matplotlib figure.

    colours: of algorithms, by name, instead of the chart's. labels: other words for labels of lines, by the word that
    is replaced. Every artist of a line has its label as `get_label()`, so it can be restyled.
    """
    drawn = _Drawing(chart, style, {**chart.colours, **(colours or {})}, labels or {})
    grid = drawn.folded()
    columns, rows = len(grid[0]), len(grid)
    with drawing(style.text):
        height = (
            style.height
            or rows * min(max(0.8 * 0.75 * style.width / columns, 0.17 * style.text), 0.29 * style.text)
            + 0.09 * style.text
        )
        figure = Figure(
            figsize=(style.width, height),
            dpi=style.dpi,
            facecolor=_PAGE,
            layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, hspace=0.03, wspace=0.03),
        )
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        letters = iter(_LETTERS if sum(panel is not None for row in grid for panel in row) > 1 else "")
        for i, row in enumerate(grid):
            for j, panel in enumerate(row):
                if panel is None:
                    axes[i, j].set_axis_off()
                    continue
                drawn.panel(axes[i, j], panel, next(letters, ""))
                below = grid[i + 1][j] if i + 1 < rows else None
                axes[i, j].tick_params(labelbottom=below is None, labelleft=j == 0)
                drawn.write_labels(axes[i, j], panel, row[j + 1 :])
        figure.supxlabel(chart.x.title, fontsize=style.text, color=_INK)
        figure.supylabel(chart.y.title, fontsize=style.text, color=_INK)
        drawn.key(figure)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        if (needed := max(drawn.label_share(each) for each in axes.flat)) > 1.0:  # labels need a higher figure
            panels = rows * axes[0, 0].get_window_extent().height / figure.dpi
            figure.set_size_inches(style.width, height + panels * (1.05 * needed - 1.0))
            figure.draw_without_rendering()
        for each in axes.flat:
            drawn.spread_labels(each)
    return figure


class _Drawing:
    """One chart being drawn."""

    def __init__(self, chart: Chart, style: Style, colours: Mapping[str, str], labels: Mapping[str, str]) -> None:
        self.chart, self.style, self.colours, self.labels = chart, style, colours, labels
        self.line_width, self.hair, self.marker = 0.15 * style.text, 0.07 * style.text, 0.45 * style.text
        self.longest = min(_LONGEST, int(0.41 * style.width * 72 / (0.44 * style.text)))
        self._placed: dict[Axes, list[tuple[Any, Line2D, float]]] = {}

    def folded(self) -> list[list[Panel | None]]:
        """Return rows of panels, in fewer columns than the chart's if these would be too narrow beside labels.

        A single column of panels, one for each trust model, becomes a row.
        """
        grid = [list(row) for row in self.chart.grid]
        grid = [[row[0] for row in grid]] if len(grid[0]) == 1 else grid
        every = [panel for row in zip(*grid, strict=True) for panel in row if panel is not None]
        em = self.style.text / 72
        longest = max((min(len(line.label), self.longest) for line in self.chart.lines), default=0)
        most = len(grid[0])
        while most > 1:
            columns = math.ceil(len(every) / math.ceil(len(every) / most)) if most < len(grid[0]) else most
            if columns < len(grid[0]):
                rows = [every[i : i + columns] for i in range(0, len(every), columns)]
                folded: list[list[Panel | None]] = [[*row, *[None] * (columns - len(row))] for row in rows]
            else:
                folded = grid
            between = any(
                self.own_labels(panel, row[j + 1 :]) for row in folded for j, panel in enumerate(row[:-1]) if panel
            )
            labels = (0.5 * longest + 2.5) * em
            width = self.style.width - 5 * em - labels * (columns if between else 1)
            if columns <= _COLUMNS and width / columns >= _NARROWEST * em:
                return folded
            most -= 1
        return [[panel] for panel in every]

    def own_labels(self, panel: Panel, later: Sequence[Panel | None]) -> list[Line]:
        """Return the lines of a panel whose labels no later panel of the row has."""
        known = {_look(line) for each in later if each is not None for line in each.lines}
        return [line for line in panel.lines if _look(line) not in known]

    def colour(self, line: Line) -> str:
        """Return the colour of a line, mixed with white by its tint."""
        colour = NO_PRIVACY if line.free else self.colours.get(line.algorithm, NO_PRIVACY)
        return _scaled(colour, 1 - line.tint, line.tint)

    def panel(self, axes: Axes, panel: Panel, letter: str) -> None:
        """Draw all lines of a panel, its axes and its title."""
        style, chart = self.style, self.chart
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set(color=_AXIS, linewidth=self.hair)
        put_scale(axes.xaxis, chart.x, curves=chart.kind == "curves")
        put_scale(axes.yaxis, chart.y)
        axes.set(xlim=chart.x.limits, ylim=chart.y.limits, axisbelow=True)
        axes.tick_params(color=_AXIS, width=self.hair, length=4 * self.hair, labelcolor=_MUTED)
        axes.tick_params(labelsize=0.93 * style.text, pad=3 * self.hair)
        axes.grid(axis="y", color=_RULE, lw=self.hair)
        if letter:
            title = textwrap.fill(f"{letter}  {panel.title}", 40)
            axes.set_title(rf"$\mathbf{{{letter}}}${title[1:]}", loc="left", fontsize=style.text, color=_INK)
        if math.isfinite(panel.unlearned):
            axes.axhline(
                panel.unlearned, color=_FAINT, lw=1.2 * self.hair, ls=(0, (1, 1.8)), zorder=1, label="no learning"
            )
        private = [line for line in panel.lines if not line.free]
        for line in panel.lines:
            if chart.kind == "curves":
                self._curve(axes, line)
            elif line.free and math.isnan(line.x[0]):
                self._level(axes, line)
            else:
                self._points(axes, line, _place_of(line, private))

    def _curve(self, axes: Axes, line: Line) -> None:
        colour, width = self.colour(line), self.line_width * (0.8 if line.free else 1.25) * self._weight(line)
        axes.plot(line.x, line.y, color=colour, ls=self._dashes(line), lw=width, zorder=3, label=line.label)
        if not np.isnan(line.low).all():
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=_BAND, lw=0, zorder=2)

    def _level(self, axes: Axes, line: Line) -> None:
        """Draw results without privacy across all epsilons."""
        axes.axhline(line.y[0], color=NO_PRIVACY, lw=0.9 * self.line_width, zorder=2, label=line.label)
        if not math.isnan(line.low[0]):
            axes.axhspan(line.low[0], line.high[0], color=NO_PRIVACY, alpha=_BAND, lw=0, zorder=1)

    def _points(self, axes: Axes, line: Line, place: float) -> None:
        """Draw markers with whiskers and the line through them, shifted by its place among those that share an x."""
        colour, width, axis = self.colour(line), self.line_width * self._weight(line), self.chart.x
        (low, high), shift = axis.limits, place * _ASIDE
        x = line.x * (high / low) ** shift if axis.log else line.x + shift * (high - low)
        axes.plot(x, line.y, color=colour, ls=self._dashes(line), lw=width, zorder=3, label=line.label)
        there = ~np.isnan(line.low)
        axes.vlines(x[there], line.low[there], line.high[there], color=colour, lw=0.9 * width, zorder=3)
        for end, beyond, caret in zip(
            self.chart.y.limits,
            (line.low < self.chart.y.limits[0], line.high > self.chart.y.limits[1]),
            (CARETDOWN, CARETUP),
            strict=True,
        ):  # an interval goes further than the axis
            if not beyond.any():
                continue
            look: dict[str, Any] = {"ls": "", "marker": caret, "ms": self.marker, "color": colour, "mew": 0.0}
            axes.plot(x[beyond], np.full(beyond.sum(), end), clip_on=False, zorder=3, **look)
        if line.free:
            return
        markers = _MARKERS.get(line.model, _OTHER_MARKERS)
        marker = markers[line.noise % len(markers)]
        claims = line.claimed or (math.nan,) * len(x)
        for at, y, fill, claimed in zip(x, line.y, line.fills, claims, strict=True):
            if not math.isnan(claimed):  # a dotted line from the claimed epsilon to the certified one
                axes.plot((claimed, at), (y, y), color=colour, lw=0.8 * self.line_width, ls=(0, (1, 1.2)), zorder=2.5)
                axes.plot(claimed, y, marker="|", ms=1.3 * self.marker, color=colour, mew=0.7 * self.line_width)
            axes.plot(at, y, clip_on=False, zorder=4, **self._marked(marker, colour, fill))

    def _marked(self, marker: str, colour: str, fill: Fill) -> dict[str, Any]:
        """Return the look of a marker with a fill for the verdict on the claim."""
        wide = fill != "full"
        look: dict[str, Any] = {"marker": marker, "ls": "", "color": colour, "mec": colour if wide else _PAGE}
        look |= {"ms": self.marker * (1.35 if wide else 1.15), "mew": self.line_width * (0.8 if wide else 0.4)}
        more = {"left": {"fillstyle": "left", "mfcalt": _PAGE}, "none": {"mfc": _PAGE}}
        return {**look, **more.get(fill, {})}

    def _dashes(self, line: Line) -> Any:  # noqa: ANN401 - as matplotlib takes them
        return _DASHES.get(line.model, _OTHER_DASHES)

    def _weight(self, line: Line) -> float:
        return _THIN if line.noise else 1.0

    def write_labels(self, axes: Axes, panel: Panel, later: Sequence[Panel | None]) -> None:
        """Write the labels of a panel right of it, but for those that a later panel of the row has."""
        ends = [(line.label, float(line.y[-1]), self.colour(line)) for line in self.own_labels(panel, later)]
        shown_later = any(each is not None and math.isfinite(each.unlearned) for each in later)
        if math.isfinite(panel.unlearned) and not shown_later:
            ends.append(("no learning", panel.unlearned, _FAINT))
        size, low, high = 0.88 * self.style.text, *self.chart.y.limits
        for text, value, colour in ends:
            words = self.labels.get(text, ", ".join(self.labels.get(part, part) for part in text.split(", ")))
            told = "\n".join(textwrap.wrap(words, self.longest, break_on_hyphens=False)) or words
            share = (
                math.log(max(value, low) / low) / math.log(high / low)
                if self.chart.y.log
                else (value - low) / (high - low)
            )
            share = min(max(float(share), 0.0), 1.0)
            dark = label_colour(colour)
            written = axes.annotate(
                told,
                (1.0, share),
                (0.19 * 72 * self.style.text / 8, 0),
                xycoords="axes fraction",
                textcoords="offset points",
                va="center",
                fontsize=size,
                color=dark,
                annotation_clip=False,
            )
            (leader,) = axes.plot((), (), transform=axes.transAxes, color=colour, lw=self.hair, clip_on=False)
            leader.set_in_layout(False)
            self._placed.setdefault(axes, []).append((written, leader, share))

    def label_share(self, axes: Axes) -> float:
        """Return the height of all labels of a panel as a share of the panel."""
        heights = [text.get_window_extent().height + 1.5 for text, *_ in self._placed.get(axes, [])]
        return float(sum(heights) / axes.get_window_extent().height)

    def spread_labels(self, axes: Axes) -> None:
        """Move labels apart where they overlap, with a leader from each to its line's end."""
        placed = sorted(self._placed.get(axes, []), key=lambda each: each[2])
        box = axes.get_window_extent()
        heights = [(each.get_window_extent().height + 1.5) / box.height for each, *_ in placed]
        unit = 72 * self.style.text / 8 * self.style.dpi / 72 / box.width
        for (text, leader, share), place in zip(placed, spread([s for *_, s in placed], heights), strict=True):
            text.xy = (1.0, place)
            leader.set_data((1 + 0.02 * unit, 1 + 0.09 * unit, 1 + 0.16 * unit), (share, place, place))

    def key(self, figure: Figure) -> None:
        """Explain fills of markers below the panels, unless all claims hold."""
        fills = {fill for line in self.chart.lines for fill in line.fills}
        if self.chart.kind == "curves" or fills <= {"full"}:
            return
        entries = [(text, self._marked("o", _MUTED, fill)) for text, fill in _KEY.items() if fill in fills]
        handles = [Line2D([], [], **look, label=text) for text, look in entries]
        claim: dict[str, Any] = {"color": _MUTED, "lw": 0.8 * self.line_width, "ls": (0, (1, 1.2))}
        handles.append(Line2D([], [], label="claimed \u03b5 to certified \u03b5", **claim))
        size = 0.82 * self.style.text
        figure.legend(
            handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=size, labelcolor=_MUTED
        )


def _look(line: Line) -> tuple[object, ...]:
    return line.label, line.algorithm, line.model, line.noise, line.tint


def _scaled(colour: str, factor: float, white: float = 0.0) -> str:
    """Return a colour with a share of its light, mixed with white."""
    red, green, blue = (factor * part + white for part in to_rgb(colour))
    return to_hex((red, green, blue))


def label_colour(colour: str) -> str:
    """Return a line's colour, darkened until text in it can be read on the page."""
    found = to_rgb(colour)
    while True:
        light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in found]
        if 1.05 / (0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] + 0.05) >= _CONTRAST:
            return to_hex(found)
        found = (0.95 * found[0], 0.95 * found[1], 0.95 * found[2])


def _place_of(line: Line, lines: Sequence[Line]) -> float:
    """Return the place of a line among those that share an x with another one, symmetrical around 0."""
    near = [
        any(np.isclose(one.x[:, np.newaxis], other.x, rtol=_SAME_X).any() for other in lines if other is not one)
        for one in lines
    ]
    place = next((i for i, each in enumerate(lines) if each is line), 0)
    return sum(near[:place]) - (sum(near) - 1) / 2 if near and near[place] else 0.0


def put_scale(axis: Any, wanted: Axis, *, curves: bool = False) -> None:  # noqa: ANN401  # matplotlib's XAxis or YAxis
    """Put scale, ticks and their texts on one axis."""
    if wanted.log:
        axis._set_axes_scale("log")
    if wanted.ticks:
        low, high = wanted.limits
        scale = math.log if wanted.log else float
        places = [(scale(tick) - scale(low)) / (scale(high) - scale(low)) for tick in wanted.ticks]
        kept = [0]
        for i in range(1, len(places)):  # ticks that touch are left out, but not the last one
            while i == len(places) - 1 and len(kept) > 1 and places[i] - places[kept[-1]] < 0.09:
                kept.pop()
            if places[i] - places[kept[-1]] >= 0.09:
                kept.append(i)
        axis.set_major_locator(FixedLocator([wanted.ticks[i] for i in kept]))
    elif wanted.log:
        wide = curves or wanted.limits[1] > 100.0 * wanted.limits[0]
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=7))
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def tick_text(value: float) -> str:
    """Return a tick's text, e.g. '0.001', '30', '1k' or '2.5M'."""
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    if value != 0 and abs(value) < 1e-4:
        return power_text(value, 1, short=True)
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.3g}"


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return increasing centres near the increasing `wanted` ones, of boxes of these heights that do not overlap.

    They are in [0, 1] if they fit.
    """

    def inside(centre: float, height: float) -> float:
        return min(max(centre, height / 2), max(1.0 - height / 2, height / 2))

    blocks: list[tuple[float, list[float]]] = []
    for want, height in zip(wanted, heights, strict=True):
        blocks.append((inside(want, height), [height]))
        # Overlapping neighbours become one block around the mean of their wanted positions.
        while len(blocks) > 1 and blocks[-1][0] - blocks[-2][0] < (sum(blocks[-1][1]) + sum(blocks[-2][1])) / 2:
            (upper, above), (lower, below) = blocks.pop(), blocks.pop()
            centre = (upper * len(above) + lower * len(below)) / (len(above) + len(below))
            blocks.append((inside(centre, sum(above) + sum(below)), [*below, *above]))
    found = []
    for centre, boxes in blocks:
        ends = np.cumsum([centre - sum(boxes) / 2, *boxes])
        found += ((ends[:-1] + ends[1:]) / 2).tolist()
    return found


@contextmanager
def drawing(size: float = 8.0) -> Iterator[None]:
    """Set matplotlib's parameters for drawing and saving: fonts, and text that stays text in PDF and SVG."""
    installed = {font.name for font in fontManager.ttflist}
    settings: dict[str, Any] = {
        "font.family": [name for name in _FONTS if name in installed],
        "font.size": size,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "dprl",
        "mathtext.default": "regular",
    }
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        yield


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as 'pdf', 'svg' or 'png'; equal figures have equal bytes on one machine.

    Raises ValueError for another kind.
    """
    if kind not in FORMATS:
        raise ValueError(f"kind must be one of {', '.join(FORMATS)}, got {kind!r}")
    content, nothing = io.BytesIO(), {"pdf": "CreationDate", "svg": "Date", "png": "Software"}[kind]
    with drawing():
        figure.savefig(content, format=kind, metadata={nothing: None}, dpi=figure.dpi)
    return content.getvalue()
