"""Colours of algorithms, and dashes, markers and line weights of trust models and noise, for all figures and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Shades(NamedTuple):
    """One hue as '#RRGGBB', for lines and for text, whose contrast with white is at least 4.5 to 1."""

    line: str
    text: str


BLUE = Shades("#0072B2", "#00609A")
VERMILION = Shades("#D55E00", "#B04A00")
PINK = Shades("#CC79A7", "#A14B83")
ORANGE = Shades("#E69F00", "#8A5F00")
GREEN = Shades("#009E73", "#00704F")
INDIGO = Shades("#332288", "#332288")
BROWN = Shades("#7A3B10", "#7A3B10")
BLACK = Shades("#000000", "#000000")
HUES = (BLUE, VERMILION, PINK, ORANGE, GREEN, INDIGO, BLACK, BROWN)
"""Okabe and Ito's palette with indigo and brown for sky blue and yellow: text in a light hue would have to be darkened
until it is too similar to that of another hue.
"""
NO_PRIVACY = Shades("#8C8C8C", "#6A6A6A")
"""Grey: results without privacy, and nothing else."""
NEUTRAL = Shades("#B8AD9E", "#6E6455")
"""Algorithms beyond the eighth of a report."""

_OF_ALGORITHMS = {
    "bernstein_vi": BLUE,
    "private_ucb_vi": VERMILION,
    "private_ucb_po": PINK,
    "pucb": ORANGE,
    "ldp_obi": GREEN,
    "dp_ucbvi": INDIGO,
    # These play other kinds of environments, and rarely share a report with the others.
    "dp_nash_vi": BLUE,
    "pgc_a3c": BLUE,
    "ma_ldp": VERMILION,
}
_FOR_OTHERS = (INDIGO, BLACK, BROWN, GREEN, ORANGE, PINK, VERMILION, BLUE)
"""For algorithms of plugins, and if two algorithms of a report would have the same colour."""


Palette = Mapping[str, Shades]
"""Colours of all algorithms of a report, so that each has the same one in every panel, figure and table."""


def colours_of(algorithms: Iterable[str], leading: Sequence[str] = ()) -> dict[str, Shades]:
    """Return the colours of these algorithms, independent of their order.

    leading: of more than eight algorithms, the first eight of these have colours (by default the first eight by name),
    and the others are `NEUTRAL`.
    """
    names = set(algorithms)
    wanted = [name for name in dict.fromkeys([*leading, *sorted(names)]) if name in names][: len(HUES)]
    found: dict[str, Shades] = {}
    for name, hue in _OF_ALGORITHMS.items():
        if name in wanted and hue not in found.values():
            found[name] = hue
    free = [hue for hue in _FOR_OTHERS if hue not in found.values()]
    others = sorted(name for name in wanted if name not in found)
    found |= dict(zip(others, free, strict=False))
    return {name: found.get(name, NEUTRAL) for name in sorted(names)}


class Look(NamedTuple):
    """Dashes, marker and relative width of a line, as matplotlib takes them."""

    dashes: Any
    marker: str
    weight: float


_DASHES: Mapping[str, Any] = {"none": "-", "jdp": "-", "shuffle": (0, (1, 1.4)), "ldp": (0, (3.6, 1.8))}
_OTHER_DASHES = (0, (5, 1.5, 1.2, 1.5))
_MARKERS: Mapping[str, Sequence[str]] = {"jdp": ("o", "^", "v", "h"), "ldp": ("s", "D", "d", "p")}
_OTHER_MARKERS = ("P", "X", "*", "8")
MARKER_WORDS = {"o": "circles", "s": "squares", "P": "plus signs"}
"""Names of the markers of the best noise of each trust model."""
_THIN = 0.62


def look(model: str, noise: int = 0) -> Look:
    """Return the look of a trust model's line.

    noise: index of its noise in the figure; 0 is the best available, with a heavy line. Others are thin and have other
    markers. Results without privacy have no marker.
    """
    if model == "none":
        return Look(_DASHES["none"], "", 1.0)
    markers = _MARKERS.get(model, _OTHER_MARKERS)
    return Look(_DASHES.get(model, _OTHER_DASHES), markers[noise % len(markers)], _THIN if noise else 1.0)
