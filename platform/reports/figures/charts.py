"""Charts as data: the content of panels, lines and axes, independent of their style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dprl.platform.reports.figures.colours import NO_PRIVACY, Look, Shades

Fill = Literal["full", "left", "none"]
"""Fill of a marker: the claim holds, holds only for delta > 0, fails."""
MOST_LINES = 8
"""Lines in a panel."""
MOST_PANELS = 6
"""Panels in a figure."""


class LineName(NamedTuple):
    """The name of a line.

    model: trust model in one word. words: further settings, such as delta. free: whether it is without privacy. given:
    whether `algorithm` is the config's label of the cell. labelled: whether it is the config's label of the algorithm.
    registered: name of the algorithm, so that no line joins two algorithms with one label.
    """

    algorithm: str
    model: str
    words: tuple[str, ...]
    free: bool
    given: bool = False
    labelled: bool = False
    registered: str = ""


@dataclass(frozen=True)
class Line:
    """Points over epsilon or a curve over episodes: float64[n] each; NaN ends where there is no interval.

    shades: of its algorithm. fills: of its markers, one a point or none. claimed: the claimed x of each point, NaN
    where the claim holds. tint: share of the page's colour in the line's: more for smaller epsilons of an algorithm.
    A result without privacy that has no place on the x axis has x NaN.
    """

    name: LineName
    shades: Shades
    look: Look
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fills: tuple[Fill, ...] = ()
    claimed: tuple[float, ...] = ()
    tint: float = 0.0

    @property
    def ink(self) -> Shades:
        """Colours of the line itself: grey without privacy."""
        return NO_PRIVACY if self.name.free else self.shades

    @property
    def order(self) -> float:
        """Its last value."""
        return float(self.y[-1])


@dataclass(frozen=True)
class Panel:
    """Lines on one pair of axes. unlearned: level of a policy that has learned nothing, NaN if unknown."""

    title: str
    lines: tuple[Line, ...]
    unlearned: float = math.nan


Grid = tuple[tuple[Panel | None, ...], ...]
"""Rows of panels, None for an empty place."""


@dataclass(frozen=True)
class Axis:
    """One axis of all panels. ticks: its values, () if the style chooses them. limits: its ends."""

    title: str
    short: str
    log: bool
    limits: tuple[float, float]
    ticks: tuple[float, ...] = ()
    counts: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure before it is drawn.

    name: of its file. title: of its section on a page. caption: sentences. kind: 'points' with whiskers (level lines
    without privacy), or 'curves' with bands.
    """

    name: str
    title: str
    caption: str
    kind: Literal["points", "curves"]
    grid: Grid
    x: Axis
    y: Axis

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.grid for panel in row if panel is not None]

    @property
    def lines(self) -> list[Line]:
        """All lines, those of all panels."""
        return [line for panel in self.panels for line in panel.lines]

    @property
    def algorithms(self) -> dict[str, Shades]:
        """The algorithms by their labels, with their colours."""
        return {line.name.algorithm: line.shades for line in self.lines if not line.name.given}


def labels_of(chart: Chart, lines: Sequence[Line]) -> list[str]:
    """Return the direct labels of the lines of one panel.

    An algorithm shared by all lines of the chart is left out, unless the config labels it.
    """
    named = len(chart.algorithms) > 1
    models = {line.name.model for line in lines if line.name.model}
    found = []
    for line in lines:
        name = line.name
        if name.given:
            found.append(", ".join(filter(None, (name.algorithm, name.model, *name.words))))
            continue
        words = [name.algorithm] if named or name.labelled else []
        if not name.free and (len(models) > 1 or not (words or name.words)):
            words.append(name.model)
        found.append(", ".join([*words, *name.words, *(["no privacy"] if name.free else [])]))
    return found
