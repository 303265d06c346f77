"""Sizes, colours of the frame, and fonts of figures: for a paper, for slides, and for pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager

from dprl.platform.errors import broken_rule
from dprl.platform.reports.figures.colours import NO_PRIVACY

FORMATS = ("pdf", "svg", "png")
LENGTHS = 1.5, 40.0
"""Limits of the width and height of figures, in inches."""
_FONTS = ("Arial", "Helvetica", "Liberation Sans", "DejaVu Sans")
"""The first one installed is used; the last one comes with matplotlib and has every glyph."""
INK, AXIS, FAINT, RULE, PAGE, MUTED = "#1D1D1F", "#444444", "#A8A8A8", "#ECECEC", "#FFFFFF", NO_PRIVACY.text
"""Colours of titles, axes and ticks, the level without learning, gridlines, the page behind a figure (inside hollow
markers and around filled ones), and notes."""
_POINTS = 72
_LINE_HEIGHT = 1.2
"""Line height as a multiple of the font size."""


@dataclass(frozen=True)
class Style:
    """Sizes of a figure.

    width, height: in inches; without a height, it is the one that suits the panels. text, ticks, labels, small: font
    sizes in points, of titles, ticks, direct labels and the key. line: width of curves. hair: width of axes and ticks.
    marker: diameter, all in points. dpi: of a PNG.
    """

    name: str
    width: float
    text: float
    ticks: float
    labels: float
    small: float
    line: float
    hair: float
    marker: float
    dpi: int
    height: float | None = None

    @property
    def inch(self) -> float:
        """Length of a paper figure's inch in this style: lengths are given for a font of 8 points and scale with it."""
        return self.text / 8.0


STYLES = {
    "paper": Style("paper", 5.5, 8.0, 7.5, 7.0, 6.5, 1.2, 0.6, 3.6, 300),
    "slides": Style("slides", 11.0, 16.0, 15.0, 14.0, 13.0, 2.4, 1.0, 7.2, 200),
    # One point is one pixel of a page if the SVG has its natural size: 1100 pixels.
    "page": Style("page", 1100 / _POINTS, 13.0, 12.0, 12.0, 12.0, 2.0, 1.0, 6.5, 110),
}


def style_of(name: str, width: float | None = None, height: float | None = None) -> Style:
    """Return the style of that name, with another width and height (in inches) if given."""
    found = STYLES[name]
    return replace(found, width=found.width if width is None else width, height=height)


def checked_style(name: str, width: float | None, height: float | None) -> Style:
    """Return the style that a caller asks for. Raises UserError."""
    if name not in ("paper", "slides"):
        raise broken_rule("style", "must be paper or slides", name, "leave it out")
    for key, length in (("width", width), ("height", height)):
        if length is not None and not (isinstance(length, int | float) and LENGTHS[0] <= length <= LENGTHS[1]):
            raise broken_rule(key, f"must be a number of inches in {LENGTHS}", length, "leave it out")
    return style_of(name, width=width, height=height)


@cache
def font_families() -> list[str]:
    """Return the fonts to use, only those that are installed."""
    installed = {font.name for font in fontManager.ttflist}
    return [name for name in _FONTS if name in installed]


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a text of one or several lines, in inches."""
    font = FontProperties(family=font_families(), size=size, weight="bold" if bold else "normal")
    widths = (_renderer().get_text_width_height_descent(line, font, False)[0] for line in text.split("\n"))
    return float(max(widths)) / _POINTS


def text_height(text: str, size: float) -> float:
    """Return the height of a text of one or several lines, in inches."""
    return (text.count("\n") + 1) * size * _LINE_HEIGHT / _POINTS


@cache
def _renderer() -> Any:  # noqa: ANN401 - matplotlib's class has no types
    renderer: Any = RendererAgg
    return renderer(1, 1, _POINTS)


@contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib's parameters for drawing and saving: fonts, and text that stays text in PDF and SVG."""
    settings = {
        "font.family": font_families(),
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "dprl",
        "axes.unicode_minus": True,
        "mathtext.default": "regular",
        "path.simplify": True,
    }
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        yield


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as 'pdf', 'svg' or 'png'; equal figures have equal bytes on one machine.

    Raises ValueError for another kind.
    """
    content, dots = io.BytesIO(), figure.dpi
    with drawing():
        if kind == "pdf":
            FigureCanvasPdf(figure).print_pdf(content, metadata={"CreationDate": None})  # type: ignore[no-untyped-call]
        elif kind == "svg":
            FigureCanvasSVG(figure).print_svg(content, metadata={"Date": None})  # type: ignore[no-untyped-call]
        elif kind == "png":
            FigureCanvasAgg(figure).print_png(content, metadata={"Software": None})  # type: ignore[no-untyped-call]
        else:
            raise ValueError(f"kind must be one of {', '.join(FORMATS)}, got {kind!r}")
    figure.dpi = dots  # PDF and SVG set their own
    return content.getvalue()
