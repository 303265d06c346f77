"""Costs of privacy as points with intervals on one logarithmic axis, a strip for each row of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from dprl.platform.reports.documents.blocks import Rich
from dprl.platform.reports.inference.effects import Effect
from dprl.platform.reports.number_texts import rounded

_WIDTH, _HEIGHT, _EDGE = 112, 16, 8
_MOST_TICKS = 3
_NOTHING = Rich("", Markup(""))


class Strips:
    """The common axis of a table's costs that are ratios."""

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
