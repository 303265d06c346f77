"""Draws charts with matplotlib: panels, direct labels at the ends of lines, and a key where claims fail."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation
from scipy.optimize import isotonic_regression

from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reports.charts import NO_PRIVACY, Axis, Chart
from dprl.platform.reports.number_texts import power_text

FORMATS = ("pdf", "svg", "png")
LENGTHS = 1.5, 40.0
"""Limits of the width and height of figures, in inches."""
_FONTS = ("Arial", "Helvetica", "Liberation Sans", "DejaVu Sans")
"""The first one installed is used; the last one comes with matplotlib and has every glyph."""
_INK, _AXIS, _FAINT, _RULE, _MUTED = "#1D1D1F", "#444444", "#A8A8A8", "#ECECEC", "#6A6A6A"
"""Colours of titles, axes and ticks, the level of the first policy, gridlines, and notes."""
_DASHES: Mapping[str, Any] = {"none": "-", "jdp": "-", "shuffle": (0, (1, 1.4)), "ldp": (0, (3.6, 1.8))}
_MARKERS = {"jdp": "o^vh", "ldp": "sDdp", "shuffle": "PX*8"}
_THIN, _BAND = 0.62, 0.16  # weight of lines of a second kind of an algorithm, and opacity of bands
_TEXT_LIGHT = 0.66  # share of its light that a colour keeps in labels, so that all of them can be read on white
_COLUMNS, _NARROWEST, _LONGEST = 3, 11.0, 28
"""Most panels side by side, their least width in ems, and most letters in a line of a label."""
_KEY = {"full": "claim holds", "left": "holds only for \u03b4 > 0", "none": "claim fails"}
_DOTS = (0, (1, 1.4))


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

    colours: of algorithms, by name, instead of the chart's. labels: other words for labels of lines, by the words that
    they replace. Every artist of a line has its label before that as `get_label()`, so it can be restyled. Raises
    UserError for names that the figure does not have.
    """
    lines = list(dict.fromkeys(chart.points["line"]))
    unknown = [("colours", name, list(chart.colours)) for name in colours or {} if name not in chart.colours]
    unknown += [("labels", words, lines) for words in labels or {} if not any(words in line for line in lines)]
    for key, name, known in unknown:
        what = "algorithms of the figure" if key == "colours" else "words of the figure's labels"
        raise broken_rule(key, f"must name {what}", name, suggestion(name, known))
    panels = [panel for _, panel in chart.points.groupby("panel", sort=False)]
    columns = _columns(panels, style)
    rows = math.ceil(len(panels) / columns)
    words = re.compile("|".join(re.escape(each) for each in sorted(labels or {}, key=len, reverse=True)))
    em, used = style.text / 72, {**chart.colours, **(colours or {})}
    height = rows * min(max(0.6 * style.width / columns, 12.2 * em), 21.0 * em) + 6.5 * em
    with drawing(style.text):
        figure = Figure(
            figsize=(style.width, style.height or height),
            dpi=style.dpi,
            facecolor="white",
            layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, hspace=0.03, wspace=0.03),
        )
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        written = [list[_Label]() for _ in panels]
        for i, panel in enumerate(panels):
            _draw_frame(axes[i], chart, style)
            if len(panels) > 1:
                title = textwrap.fill(f"{'abcdef'[i]}  {panel['panel'].iloc[0]}", int(1.4 * style.width / em / columns))
                axes[i].set_title(title, loc="left", fontsize=style.text, color=_INK)
            axes[i].tick_params(labelbottom=i + columns >= len(panels), labelleft=i % columns == 0)
            # A label stands beside the last panel of a row that has its line.
            later = pd.concat([panel[:0], *panels[i + 1 : (i // columns + 1) * columns]])
            for label, line in panel.groupby("line", sort=False):
                colour = NO_PRIVACY if line["model"].iloc[0] == "none" else used[line["algorithm"].iloc[0]]
                _draw_line(axes[i], chart, style, line, _mixed(colour, white=float(line["tint"].iloc[0])), panel)
                if label not in set(later["line"]):
                    text = words.sub(lambda found: (labels or {})[found[0]], str(label)) if labels else str(label)
                    end = float(line["y"].iloc[-1])
                    written[i].append(_write(axes[i], chart.y, style, text, str(label), end, colour))
            if math.isfinite(level := panel["first_policy"].iloc[0]):
                axes[i].axhline(level, color=_FAINT, lw=0.08 * style.text, ls=_DOTS, zorder=1, label="first policy")
                if later["first_policy"].isna().all():
                    written[i].append(_write(axes[i], chart.y, style, "first policy", "first policy", level, _FAINT))
        for empty in axes[len(panels) :]:  # the labels of the last panel have their place
            empty.set_axis_off()
            for beside in written[-1]:
                beside.text.set_in_layout(False)
        figure.supxlabel(chart.x.title, fontsize=style.text, color=_INK)
        figure.supylabel(chart.y.title, fontsize=style.text, color=_INK)
        _explain_fills(figure, style, set(chart.points["fill"]))
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        needed = max(sum(label.height() for label in each) for each in written) / axes[0].get_window_extent().height
        if needed > 1.0:  # labels need a higher figure
            more = rows * axes[0].get_window_extent().height / figure.dpi * (1.05 * needed - 1.0)
            figure.set_size_inches(style.width, figure.get_size_inches()[1] + more)
            figure.draw_without_rendering()
        for each, placed in zip(axes, written, strict=False):
            _spread_labels(each, sorted(placed, key=lambda label: label.end), 9.0 * em * style.dpi)
    return figure


def _columns(panels: Sequence[pd.DataFrame], style: Style) -> int:
    """Return the number of panels side by side: as many as are wide enough beside their labels."""
    em, names = style.text / 72, [frozenset(panel["line"]) for panel in panels]
    labels = (0.5 * min(max(len(name) for each in names for name in each), _longest(style)) + 2.5) * em
    # Labels stand between the panels, too, if some of their lines are not in the last panel.
    beside, between = (0.0, labels) if any(each - names[-1] for each in names) else (labels, 0.0)
    most = int((style.width - 5 * em - beside) / (_NARROWEST * em + between))
    return math.ceil(len(panels) / math.ceil(len(panels) / max(1, min(most, _COLUMNS))))


def _longest(style: Style) -> int:
    """Return the most letters in a line of a label."""
    return min(_LONGEST, int(0.41 * style.width * 72 / (0.44 * style.text)))


def _draw_frame(axes: Axes, chart: Chart, style: Style) -> None:
    """Draw axes, ticks and gridlines of a panel."""
    hair = 0.07 * style.text
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=_AXIS, linewidth=hair)
    scales: list[tuple[Any, Axis]] = [(axes.xaxis, chart.x), (axes.yaxis, chart.y)]
    for axis, wanted in scales:
        if wanted.log:
            axis._set_axes_scale("log")
        low, high = wanted.limits
        if wanted.ticks:
            scale, kept = math.log if wanted.log else float, list[float]()
            for tick in wanted.ticks:  # ticks that would touch the one before are left out
                if not kept or scale(tick) - scale(kept[-1]) >= 0.09 * (scale(high) - scale(low)):
                    kept.append(tick)
            axis.set_major_locator(FixedLocator(kept))
        elif wanted.log:
            axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100.0 * low else (1.0, 2.0, 5.0), numticks=7))
        else:
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axes.set(xlim=chart.x.limits, ylim=chart.y.limits, axisbelow=True)
    axes.tick_params(color=_AXIS, width=hair, length=4 * hair, labelcolor=_MUTED)
    axes.tick_params(labelsize=0.93 * style.text, pad=3 * hair)
    axes.grid(axis="y", color=_RULE, lw=hair)


def _draw_line(axes: Axes, chart: Chart, style: Style, line: pd.DataFrame, colour: str, panel: pd.DataFrame) -> None:
    """Draw a line of a panel: a curve with its band, a level across all x, or markers with whiskers."""
    first = line.iloc[0]
    look: dict[str, Any] = {"color": colour, "label": first["line"]}
    width, free = 0.15 * style.text * (_THIN if first["variant"] else 1.0), first["model"] == "none"
    x, y, low, high = (line[name].to_numpy() for name in ("x", "y", "low", "high"))
    dashes = _DASHES.get(first["model"], _DOTS)
    if chart.kind == "curves":
        axes.plot(x, y, ls=dashes, lw=width * (0.8 if free else 1.25), zorder=3, **look)
        axes.fill_between(x, low, high, alpha=_BAND, lw=0, zorder=2, **look)
        return
    if math.isnan(first["x"]):
        axes.axhline(first["y"], lw=0.9 * width, zorder=2, **look)
        axes.axhspan(first["low"], first["high"], alpha=_BAND, lw=0, zorder=1, **look)
        return
    # Lines that share an x are drawn beside each other; the shift is in points, so that data stay data.
    private = panel[panel["model"] != "none"]
    names, shift = list(dict.fromkeys(private["line"])), 0.0
    if not free and private["x"].map("{:.2g}".format).duplicated().any():
        shift = 0.45 * style.text * (names.index(first["line"]) - (len(names) - 1) / 2)
    beside = axes.transData + ScaledTranslation(shift / 72, 0.0, axes.figure.dpi_scale_trans)
    axes.plot(x, y, ls=dashes, lw=width, zorder=3, transform=beside, **look)
    axes.vlines(x, low, high, lw=0.9 * width, zorder=3, transform=beside, **look)
    markers = _MARKERS.get(first["model"], "o")
    marker = markers[first["variant"] % len(markers)]
    for fill, points in line[line["fill"] != ""].groupby("fill"):
        shape = _marker(style, str(fill), marker, colour)
        axes.plot(points["x"], points["y"], clip_on=False, zorder=4, transform=beside, label=first["line"], **shape)


def _marker(style: Style, fill: str, marker: str, colour: str) -> dict[str, Any]:
    """Return the look of a marker with a fill for the verdict on the claim."""
    look: dict[str, Any] = {"marker": marker, "ls": "", "color": colour, "markerfacecoloralt": "white"}
    if fill == "full":
        return {**look, "ms": 0.52 * style.text, "mew": 0.06 * style.text, "mec": "white"}
    return {**look, "ms": 0.6 * style.text, "mew": 0.12 * style.text, "fillstyle": fill, "mec": colour}


class _Label(NamedTuple):
    """A label beside a panel, its leader to the end of the line, and the height of that end in the panel, 0 to 1."""

    text: Annotation
    leader: Line2D
    end: float

    def height(self) -> float:
        """Return the height of the text in pixels."""
        return float(self.text.get_window_extent().height) + 1.5


def _write(axes: Axes, scale: Axis, style: Style, text: str, label: str, value: float, colour: str) -> _Label:
    """Write a label beside the end of its line, and return it."""
    place = np.log if scale.log else np.asarray
    low, high, at = place([*scale.limits, max(value, scale.limits[0])])
    end = float(np.clip((at - low) / (high - low), 0.0, 1.0))
    lines = textwrap.wrap(text.replace(" = ", "\u00a0=\u00a0"), _longest(style), break_on_hyphens=False)
    written = axes.annotate(
        "\n".join(lines),
        (1.0, end),
        (1.7 * style.text, 0.0),
        xycoords="axes fraction",
        textcoords="offset points",
        va="center",
        fontsize=0.88 * style.text,
        color=_mixed(colour, light=_TEXT_LIGHT),
        annotation_clip=False,
        label=label,
    )
    (leader,) = axes.plot((), (), transform=axes.transAxes, color=colour, lw=0.07 * style.text, label=label)
    leader.set(clip_on=False, in_layout=False)
    return _Label(written, leader, end)


def _spread_labels(axes: Axes, labels: Sequence[_Label], unit: float) -> None:
    """Move labels apart where they overlap. unit: of the leaders' width, in pixels."""
    box = axes.get_window_extent()
    places = spread([label.end for label in labels], [label.height() / box.height for label in labels])
    for label, place in zip(labels, places, strict=True):
        label.text.xy = (1.0, place)
        x = 1.0 + np.array([0.02, 0.09, 0.16]) * unit / box.width
        label.leader.set_data(x, (label.end, place, place))


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return centres nearest to the increasing `wanted` ones, of boxes of these heights that do not overlap.

    They are in [0, 1] if they fit. The bottom of a box less the heights below it must not decrease.
    """
    if not len(wanted):
        return []
    below = np.cumsum(heights) - np.asarray(heights) / 2
    found = isotonic_regression(np.asarray(wanted) - below).x
    return list(np.clip(found, 0.0, max(0.0, 1.0 - sum(heights))) + below)


def _explain_fills(figure: Figure, style: Style, fills: set[str]) -> None:
    """Explain fills of markers above the panels, unless all claims hold."""
    if fills <= {"full", ""}:
        return
    handles = [Line2D([], [], **_marker(style, fill, "o", _MUTED), label=_KEY[fill]) for fill in _KEY if fill in fills]
    look: dict[str, Any] = {"frameon": False, "fontsize": 0.82 * style.text, "labelcolor": _MUTED}
    columns = 2 if style.width < 36 * style.text / 72 else 4
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, **look)


def _mixed(colour: str, *, light: float = 1.0, white: float = 0.0) -> str:
    """Return a colour with a share of its light, mixed with a share of white."""
    red, green, blue = (light * part * (1.0 - white) + white for part in to_rgb(colour))
    return to_hex((red, green, blue))


def tick_text(value: float) -> str:
    """Return a tick's text, e.g. '0.001', '30', '1k' or '2.5M'."""
    if 0.0 < abs(value) < 1e-4:
        return power_text(value, 1)
    return EngFormatter(sep="")(value) if abs(value) >= 1000.0 else f"{value:g}"


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
