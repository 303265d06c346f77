"""Figures on [TH23] from our runs: regret over users, and R_K of every cell."""

from __future__ import annotations

import numpy as np

from dprl.platform.reports.figures.charts import Axis, Chart, Line
from dprl.platform.reports.figures.colours import BLACK, Look, Shades
from dprl.platform.reports.inference.intervals import bands
from dprl.platform.reproductions import figures as plots
from dprl.platform.reproductions import ma_ldp
from dprl.platform.reproductions.claims import Cells, Key, PaperCell, Side
from dprl.platform.reproductions.engine import PageData
from dprl.platform.reproductions.tables import longest, proved_text, run_counts

FIGURES = ("ma_ldp_figure_1.png", "ma_ldp_cells.png")
_MARKERS = {
    ma_ldp.LAPLACE: "o",
    ma_ldp.GAUSSIAN: "s",
    ma_ldp.UNIFORM: "D",
    ma_ldp.BOUNDED: "^",
    ma_ldp.NO_NOISE: "x",
}
_MARKER_COLOURS = dict(zip(_MARKERS, (0, 1, 2, 3, 6), strict=True))


def weak_label(side: Side, cell: PaperCell) -> str:
    """Return the name of a cell with too little noise, including its guarantee."""
    proved = proved_text(cell).replace(", ", " at ")
    return f"{side.label}'s scale \u00f7 10,000: proves \u03b5={proved}"


def row_label(name: Key, cell: PaperCell) -> str:
    """Return the name of a cell within its group."""
    if name.mechanism == ma_ldp.NO_NOISE:
        return f"c = {name.setting:g}"
    bound = f" B={name.setting:g}b" if name.mechanism == ma_ldp.BOUNDED else ""
    label = f"{ma_ldp.NAMES[name.mechanism]}{bound} \u03b5={name.epsilon:g}"
    return weak_label(Side(label, name), cell) if name.group in ma_ldp.ILLUSTRATIONS else label


def figures(found: PageData) -> dict[str, bytes]:
    """Return Figure 1, the regret over users, and R_K of every cell."""
    cells, levels = found.cells, ma_ldp.Levels.of(longest(found.cells))
    points = [
        (group.words, group.private, [_point(name, cell) for name, cell in cells.items() if name.group == group.name])
        for group in ma_ldp.GROUPS
    ]
    return {
        FIGURES[0]: plots.draw_charts(
            [_regret_charts(cells, levels)],
            f"Mean of {run_counts(cells)} runs; bands: 95 % t intervals over runs (pointwise)",
        ),
        FIGURES[1]: plots.draw_points(
            points,
            [(levels.uniform, "at random"), (levels.half, "half of random's"), (0.0, "best")],
            "Regret of all cells; grey: NOT PRIVATE. Labels have the \u03b5 that is claimed",
            "R_K (reward), mean over runs with its 95 % bootstrap interval",
        ),
    }


def _regret_charts(cells: Cells, levels: ma_ldp.Levels) -> list[Chart]:
    """Return Figure 1 as printed and of the illustrations."""
    title = "Figure 1: MA-LDP as printed\n(\u03b5 is claimed; none is proved)"
    shown = [(title, _figure_lines(ma_ldp.PRINTED, cells), "")]
    for group, value in zip(ma_ldp.ILLUSTRATIONS, ("joint actions", "maxmin"), strict=True):
        title = f"NOT PRIVATE, an illustration, V of {value}:\nhardly any noise, bonus and shift"
        shown.append((title, _figure_lines(group, cells), "NOT PRIVATE"))
    episodes, title = longest(cells), "regret summed over users (reward)"
    x = Axis("users", "users", False, (0.0, 1.02 * episodes), counts=True)
    y = Axis(title, title, False, (-0.02 * levels.worst, 1.02 * levels.worst), counts=True)
    best, *known = (
        plots.curve(label, [0, episodes], [0.0, level], (BLACK, Look(dashes, "", 0.6)))
        for level, label, dashes in (
            (0.0, "the best policy", plots.SOLID),
            (levels.worst, "the worst policy", (0, (1, 2))),
            (levels.uniform, "actions at random", (0, (4, 2, 1, 2))),
        )
    )
    # The others are above curves that lie on them.
    return [plots.chart(title, [best, *lines, *known], x, y, warning) for title, lines, warning in shown]


def _figure_lines(group: str, cells: Cells) -> list[Line]:
    """Return the lines of Figure 1: colour and width show the mechanism, also in grey; dashes the larger epsilon."""
    lines = []
    for side in ma_ldp.FIGURE:
        cell, laplace = cells[side.key.of(group)], side.key.mechanism == ma_ldp.LAPLACE
        dashes = plots.DASHED if side.key.epsilon == 0.2 else plots.SOLID
        label = weak_label(side, cell) if group in ma_ldp.ILLUSTRATIONS else side.label
        look = plots.SHADES[0 if laplace else 1], Look(dashes, "", 0.7 if laplace else 1.3)
        lines.append(_regret_line(cell, label, look))
    return lines


def _regret_line(cell: PaperCell, label: str, look: tuple[Shades, Look]) -> Line:
    middle, half = (np.r_[0.0, part] for part in bands(cell.curves.T))
    band = None if np.isnan(half).any() else np.array([np.maximum(0.0, middle - half), middle + half])
    return plots.curve(label, np.r_[0, cell.ends], middle, look, band)


def _point(name: Key, cell: PaperCell) -> plots.Point:
    colour = plots.SHADES[_MARKER_COLOURS[name.mechanism]].line
    return plots.Point(row_label(name, cell), ma_ldp.R_K.estimate(cell), colour, _MARKERS[name.mechanism])
