"""The figures on [TH23] from our runs: regret over users, and R_K of every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dprl.platform.reports.figures.drawing import COLOURS, png, put_title
from dprl.platform.reports.inference.intervals import bands
from dprl.platform.reports.verdicts import epsilon_sign, standing
from dprl.platform.reproductions.ma_ldp.orders import FIGURE
from dprl.platform.reproductions.ma_ldp.published import BOUNDED, GAUSSIAN, LAPLACE, NAMES, UNIFORM, Side
from dprl.platform.reproductions.ma_ldp.runs import (
    GROUPS,
    ILLUSTRATIONS,
    NO_NOISE,
    ONE_BIT,
    PRINTED,
    VOTES,
    Key,
    Levels,
    Runs,
)
from dprl.platform.reproductions.resampling import estimate, mean

_WIDTH, _HEIGHT = 4.1, 4.4
"""Of a panel with its legend, in inches."""
_ALPHA = 0.2
_SOLID, _DASHED = "-", (0, (5, 1.5))
_STYLES: dict[tuple[str, float], dict[str, Any]] = {
    (side.mechanism, side.epsilon): {
        "color": COLOURS[0] if side.mechanism == LAPLACE else COLOURS[1],
        "ls": _DASHED if side.epsilon == 0.2 else _SOLID,
        "lw": 1.2 if side.mechanism == LAPLACE else 2.2,
    }
    for side in FIGURE
}
"""Colour and width say the mechanism, so that it can be told in grey; dashes the larger epsilon."""
_BIT_STYLES = [
    {"color": colour, "ls": dashes, "lw": 1.6}
    for colour, dashes in zip(
        (COLOURS[6], COLOURS[1], COLOURS[0], COLOURS[2], COLOURS[3]),
        (_SOLID, _DASHED, (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 1, 2))),
        strict=True,
    )
]
_MARKERS = {LAPLACE: "o", GAUSSIAN: "s", UNIFORM: "D", BOUNDED: "^", NO_NOISE: "x", ONE_BIT: "P"}
_MARKER_COLOURS = dict(zip(_MARKERS, (0, 1, 2, 3, 6, 4), strict=True))
_ROW_HEIGHT = 0.155


def regret_figure(runs: Mapping[Key, Runs], levels: Levels) -> bytes:
    """Draw Figure 1, the regret over users, as a PNG: as printed, of one bit a user, and what its order needs."""
    figure = Figure(figsize=(4 * _WIDTH, _HEIGHT), layout="constrained")
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    for side in FIGURE:
        style = _STYLES[side]
        _draw(panels[0], runs.get(Key(PRINTED, *side)), side.label, style)
        for axes, group in zip(panels[2:], ILLUSTRATIONS, strict=True):
            weak = runs.get(Key(group, *side))
            if weak is not None:
                _draw(axes, weak, weak_label(side, weak), style)
    bits = sorted((key for key in runs if key.group == VOTES), key=lambda key: key.epsilon)
    for key, style in zip(bits, _BIT_STYLES, strict=False):
        _draw(panels[1], runs[key], f"\u03b5={key.epsilon:g}, proved", style)
    told = (
        "Figure 1: MA-LDP as printed\n(\u03b5 is claimed; none is proved)",
        "Ours: one randomised bit a user\n(\u03b5 is proved)",
        "NOT PRIVATE, an illustration, V of joint actions:\nhardly any noise, bonus and shift",
        "NOT PRIVATE, an illustration, V of maxmin:\nhardly any noise, bonus and shift",
    )
    for axes, title in zip(panels, told, strict=True):
        axes.set_title(title, fontsize=10, weight="bold" if title.startswith("NOT") else "normal")
        _frame(axes, levels, max((cell.episodes for cell in runs.values()), default=1))
    for axes in panels[2:]:
        axes.set_facecolor("#f2f2f2")
        where = {"transform": axes.transAxes, "ha": "center", "va": "top"}
        axes.text(0.5, 0.93, "NOT PRIVATE", fontsize=15, weight="bold", **where)
    panels[0].set_ylabel("regret summed over users (reward)")
    counts = sorted({cell.count for cell in runs.values()})
    put_title(figure, [f"Mean of {_told(counts)} runs; bands: 95 % t intervals over runs (pointwise)"])
    return png(figure)


def cells_figure(runs: Mapping[Key, Runs], levels: Levels) -> bytes:
    """Draw R_K of every cell with its interval, group by group, as a PNG."""
    groups = [(group, [key for key in runs if key.group == group.name]) for group in GROUPS]
    groups = [(group, keys) for group, keys in groups if keys]
    rows = sum(len(keys) + 1 for _, keys in groups)
    figure = Figure(figsize=(8.6, 1.1 + _ROW_HEIGHT * rows), layout="constrained")
    axes = figure.subplots()
    at, labels = 0, []
    for group, keys in groups:
        labels.append((at, group.words, True))
        for row, key in enumerate(keys, at + 1):
            _draw_cell(axes, runs[key], row, key, group.private)
            labels.append((row, row_label(key, runs[key]), False))
        if not group.private:
            axes.axhspan(at - 0.5, at + len(keys) + 0.5, color="0.93", zorder=0)
        at += len(keys) + 1
    for level, name in ((levels.uniform, "at random"), (levels.half, "half of random's"), (0.0, "best")):
        axes.axvline(level, color="0.3", lw=0.9, ls=":" if level else "-", zorder=1)
        axes.text(level, -0.9, name, ha="center", va="bottom", fontsize=8)
    axes.set_yticks([row for row, _, _ in labels], [text for _, text, _ in labels], fontsize=7.5)
    for tick, (_, _, head) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set_fontweight("bold" if head else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(at - 0.3, -0.8)
    axes.set_xlim(left=-150.0)
    axes.grid(axis="x", alpha=0.25)
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlabel("R_K (reward), mean over runs with its 95 % bootstrap interval")
    put_title(figure, ["Regret of all cells; grey: NOT PRIVATE. Labels have the \u03b5 that is claimed", ""])
    return png(figure)


def weak_label(side: Side, cell: Runs) -> str:
    """Return what pages call a cell of too little noise: by what that proves."""
    at = f" at \u03b4={cell.certificate['claimed']['delta']:g}" if cell.certificate["claimed"]["delta"] else ""
    return f"{side.label}'s scale \u00f7 10,000: proves \u03b5={epsilon_sign(standing(cell.certificate).proved)}{at}"


def row_label(key: Key, cell: Runs) -> str:
    """Return what tells a cell from others of its group."""
    if key.group in ILLUSTRATIONS:
        return weak_label(Side(key.mechanism, key.epsilon), cell)
    if key.mechanism == NO_NOISE:
        return f"c = {key.setting:g}"
    name = NAMES.get(key.mechanism, "one bit")
    bound = f" B={key.setting:g}b" if key.mechanism == BOUNDED else ""
    return f"{name}{bound} \u03b5={key.epsilon:g}"


def _draw(axes: Axes, cell: Runs | None, label: str, style: Mapping[str, Any]) -> None:
    if cell is None:
        return
    ends = np.r_[0, cell.ends]
    middle, half = (np.r_[0.0, part] for part in bands(cell.curves.T))
    axes.plot(ends, middle, label=label, **style)
    if not np.isnan(half).any():
        axes.fill_between(ends, np.maximum(0.0, middle - half), middle + half, color=style["color"], alpha=_ALPHA, lw=0)


def _frame(axes: Axes, levels: Levels, episodes: int) -> None:
    """Draw what policies that learn nothing would lose, and put axes and legend."""
    for level, label, dashes in (
        (levels.worst, "the worst policy", (0, (1, 2))),
        (levels.uniform, "actions at random", (0, (4, 2, 1, 2))),
        (0.0, "the best policy", _SOLID),
    ):
        # Above curves that lie on it, but for those near zero.
        above = 2.5 if level else 1.5
        axes.plot([0, episodes], [0.0, level], color="0.2", label=label, zorder=above, lw=1.2, ls=dashes)
    axes.set_xlim(0, episodes)
    axes.set_ylim(-0.02 * levels.worst, 1.02 * levels.worst)
    axes.set_xlabel("users")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_thousands))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False, fontsize=8, handlelength=3.6)


def _draw_cell(axes: Axes, cell: Runs, row: int, key: Key, private: bool) -> None:
    found = estimate(cell.regret, mean)
    colour = COLOURS[_MARKER_COLOURS[key.mechanism]]
    if not math.isnan(found.lower):
        axes.plot([found.lower, found.upper], [row, row], color=colour, lw=1.4, zorder=2)
    face = colour if private else "white"
    axes.plot(found.value, row, _MARKERS[key.mechanism], color=colour, mfc=face, ms=4.5, zorder=3)


def _told(counts: Sequence[int]) -> str:
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"
