"""Small parts of a report: numbers with intervals, names with swatches, badges of claims, strips of costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as MarkerPath

from dprl.platform.reports.cell_texts import algorithm_name
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Inline, Rich, beside, styled
from dprl.platform.reports.figures.colours import Palette, Shades, look
from dprl.platform.reports.inference.effects import Effect
from dprl.platform.reports.number_texts import effect_text, rounded
from dprl.platform.results.summary import standing

DASH = "\u2013"
_DASHES = {"none": "", "jdp": "", "shuffle": "2 3", "ldp": "6 4"}
_OTHER_DASHES = "8 2 2 2"
_CODES = {MarkerPath.MOVETO: "M", MarkerPath.LINETO: "L", MarkerPath.CURVE3: "Q", MarkerPath.CURVE4: "C"}
_MARKER_SIZE = 7.5
_WIDTH, _HEIGHT, _EDGE = 112, 16, 8
"""Of a strip."""
_MOST_TICKS = 3
_NOTHING = Rich("", Markup(""))


class _Badge(NamedTuple):
    """A verdict on a claim: a style, an icon as SVG paths, words, and their meaning."""

    css: str
    icon: Markup
    words: str
    meaning: str

    @property
    def inline(self) -> Rich:
        """The badge; styles differ in icon, words, shape and border, not in colour only."""
        drawn = Markup('<svg viewBox="0 0 12 12" aria-hidden="true">{}</svg>').format(self.icon) if self.icon else ""
        return Rich(self.words, Markup('<span class="badge {}">{}{}</span>').format(self.css, drawn, self.words))


_CROSS = Markup('<path d="M3 3l6 6M9 3l-6 6"/>')
BADGES = {
    "holds": _Badge(
        "holds",
        Markup('<path d="M2 6.5l2.7 2.7L10 3.3"/>'),
        "holds",
        "The noise certifies the claimed \u03b5 at the claimed \u03b4.",
    ),
    "delta": _Badge(
        "delta",
        Markup('<circle cx="6" cy="6" r="4.8"/><path d="M6 1.2a4.8 4.8 0 0 0 0 9.6z" fill="currentColor"/>'),
        "holds only for \u03b4 > 0",
        "The claim of pure privacy fails; the same \u03b5 holds at \u03b4 = 10\u207b\u2076.",
    ),
    "fails": _Badge("fails", _CROSS, "FAILS", "The noise certifies only a larger \u03b5."),
    "nothing": _Badge(
        "nothing",
        Markup('<circle cx="6" cy="6" r="4.8"/><path d="M2.7 9.3l6.6-6.6"/>'),
        "NO PRIVACY",
        "The noise certifies no finite \u03b5, although the cell claims one.",
    ),
    "refuted": _Badge(
        "refuted",
        Markup('<path d="M6 1l5 9.5H1zM6 4.5v2.8M6 9v.1"/>'),
        "REFUTED",
        "An audit has measured a larger \u03b5 than the claimed or the certified one.",
    ),
    "reference": _Badge("reference", Markup(""), "reference", "Without privacy."),
}
"""Verdicts on cells, in the order of a page."""


def badge_of(certificate: Mapping[str, Any]) -> str:
    """Return the key of the badge of a certificate."""
    stands = standing(certificate)
    if stands.refuted:
        return "refuted"
    if certificate["claimed"]["epsilon"] is None:
        return "reference"
    if math.isinf(stands.proved):
        return "nothing"
    return {"holds": "holds", "holds_approximately": "delta"}.get(stands.verdict, "fails")


def with_grey_interval(text: str) -> Rich:
    """Return a number with its interval '[a, b]' in grey."""
    value, bracket, interval = text.partition(" [")
    return beside(value, styled(f"[{interval}", "span", "iv")) if bracket else beside(text)


def effect_inline(found: Effect | None) -> Inline:
    """Return a ratio or a difference, in bold, with its interval in grey."""
    if found is None:
        return DASH
    value, bracket, interval = effect_text(found).partition(" [")
    bold = styled(value, "b")
    return beside(bold, styled(f"[{interval}", "span", "iv")) if bracket else bold


@dataclass(frozen=True)
class Names:
    """Names of cells' algorithms with their swatches. cells: all of the report. palette: colours of algorithms."""

    cells: Sequence[ReportCell]
    palette: Palette

    @cached_property
    def shades(self) -> list[Shades]:
        """The shades of classes p0, p1, ..."""
        return list(dict.fromkeys(self.palette[str(cell.row["algorithm.name"])] for cell in self.cells))

    def css(self, cell: ReportCell) -> str:
        """Return the class of a cell's algorithm."""
        return f"p{self.shades.index(self.palette[str(cell.row['algorithm.name'])])}"

    def swatch(self, cell: ReportCell) -> Markup:
        """Return a piece of the cell's line in figures."""
        model = str(cell.row["privacy.model"])
        css = self.css(cell) if cell.private else "free"
        return Markup('<svg class="sw {}" viewBox="0 0 26 12" aria-hidden="true">{}</svg>').format(css, _line(model))

    def with_swatch(self, cell: ReportCell) -> Rich:
        """Return the swatch and the name on one line."""
        name = self.plain(cell)
        return Rich(name.text, Markup('<span class="one">{}{}</span>').format(self.swatch(cell), name))

    def plain(self, cell: ReportCell) -> Rich:
        """Return the name in its colour."""
        return styled(algorithm_name(cell.row), "span", f"nm {self.css(cell)}")


def small(words: Iterable[str]) -> Rich:
    """Return settings in small type, '' without any."""
    return styled(", ".join(words), "small")


def _line(model: str) -> Markup:
    dashes = _DASHES.get(model, _OTHER_DASHES)
    drawn = Markup('<path d="M0 6H26"{}/>').format(
        Markup(' stroke-dasharray="{}"').format(dashes) if dashes else Markup("")
    )
    marker = look(model).marker
    return drawn + Markup('<path class="mk" d="{}"/>').format(_marker_path(marker)) if marker else drawn


def _marker_path(marker: str) -> str:
    """Return a marker of figures as an SVG path in the middle of a swatch."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    words = []
    for points, code in path.iter_segments(simplify=False):
        if code == MarkerPath.CLOSEPOLY:
            words.append("Z")
            continue
        places = (f"{13 + _MARKER_SIZE * x:.1f} {6 - _MARKER_SIZE * y:.1f}" for x, y in points.reshape(-1, 2))
        words.append(f"{_CODES[code]}{' '.join(places)}")
    return "".join(words)


class Strips:
    """Costs of privacy as points with intervals on one logarithmic axis, a strip for each row of a table.

    It has those costs that are ratios.
    """

    def __init__(self, costs: Sequence[Effect | None]) -> None:
        ends = [end for cost in costs for end in _ends(cost)]
        self.low, self.high = (math.log10(min(ends)), math.log10(max(ends))) if ends else (0.0, 0.0)
        powers = range(math.ceil(self.low), math.floor(self.high) + 1)
        self.ticks = [10.0**power for power in powers[:: max(1, math.ceil(len(powers) / _MOST_TICKS))]] if ends else []

    @property
    def drawn(self) -> bool:
        """Whether there is anything to compare."""
        return self.high > self.low

    def header(self) -> Rich:
        """Return the ticks of the axis."""
        if not self.drawn:
            return _NOTHING
        texts = (
            Markup('<text x="{}" y="12">{}\u00d7</text>').format(self._at(tick), rounded(tick, 1))
            for tick in self.ticks
        )
        return _svg(Markup("").join(texts), "")

    def strip(self, cost: Effect | None, css: str) -> Rich:
        """Return the strip of one row in the colour of a class, '' without a ratio."""
        ends = _ends(cost)
        if cost is None or not ends or not self.drawn:
            return _NOTHING
        grid = "".join(f"M{self._at(tick)} 3V13" for tick in self.ticks)
        parts = [Markup('<path class="grid" d="{}"/>').format(grid)]
        if not math.isnan(cost.lower):
            parts.append(Markup('<path d="M{} 8H{}"/>').format(self._at(ends[0]), self._at(ends[-1])))
        parts.append(Markup('<circle cx="{}" cy="8" r="3.2"/>').format(self._at(cost.value)))
        return _svg(Markup("").join(parts), css)

    def _at(self, value: float) -> str:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return f"{_EDGE + share * (_WIDTH - 2 * _EDGE):.1f}"


def _ends(cost: Effect | None) -> list[float]:
    """Return the value of a ratio and the ends of its interval in ascending order, [] for another effect."""
    if cost is None or cost.scale != "log":
        return []
    return [x for x in (cost.lower, cost.value, cost.upper) if math.isfinite(x) and x > 0.0]


def _svg(content: Markup, css: str) -> Rich:
    """Return a drawing that only HTML shows."""
    drawn = Markup('<svg class="{}" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>')
    return Rich("", drawn.format(f"strip {css}".strip(), _WIDTH, _HEIGHT, content))
