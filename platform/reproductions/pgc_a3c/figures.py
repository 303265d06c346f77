"""Figures 2 and 3 of [OT20] from our trials: scores and success ratios over submissions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dprl.platform.reports.figures.drawing import COLOURS, png, put_legend, put_title
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reproductions.pgc_a3c.published import BUFFERS, EPSILONS, LAPLACE, PROJECTED, TARGET
from dprl.platform.reproductions.pgc_a3c.trials import ELEMENTWISE, MECHANISMS, NOISE, Key, Trials
from dprl.platform.reproductions.resampling import share as share_of

_WIDTH, _HEIGHT = 3.4, 2.7
"""Of a panel, in inches."""
_ALPHA = 0.2
_POINTS = 200
_MOST_SCORE = 200.0
_STYLES: dict[str, dict[str, Any]] = {
    LAPLACE: {"color": COLOURS[0], "ls": "-", "lw": 1.8},
    PROJECTED: {"color": COLOURS[1], "ls": (0, (5, 1.5)), "lw": 1.8},
    ELEMENTWISE: {"color": COLOURS[6], "ls": (0, (1, 1.2)), "lw": 1.4},
}
"""Dashes and widths tell the lines apart in grey, too."""
_NOISE_STYLES: dict[str, dict[str, Any]] = {
    LAPLACE: {"color": COLOURS[0], "ls": (0, (8, 2, 1.5, 2)), "lw": 0.9},
    PROJECTED: {"color": COLOURS[1], "ls": (0, (2.5, 2.5)), "lw": 0.9},
}
_BUFFER_STYLES: dict[int, dict[str, Any]] = {
    1: {"color": COLOURS[0], "ls": "-", "lw": 1.6},
    100: {"color": COLOURS[4], "ls": (0, (5, 1.5)), "lw": 1.6},
}


def scores_figure(trials: Mapping[Key, Trials], readings: Sequence[str]) -> bytes:
    """Draw Figure 2, mean scores over submissions at epsilon 1 with and without buffering, as a PNG.

    A row of panels for each reading, a panel for each mechanism; bands hold the middle half of the trials.
    """
    figure, panels = _panels(len(readings), len(BUFFERS))
    for row, reading in zip(panels, readings, strict=True):
        for axes, mechanism in zip(row, BUFFERS, strict=True):
            for buffer_size, style in _BUFFER_STYLES.items():
                cell = trials.get(Key(reading, mechanism, 1.0, buffer_size))
                if cell is not None:
                    _draw_scores(axes, cell, f"|B| = {buffer_size}", style)
            axes.axhline(TARGET, color="0.4", lw=0.8, ls=":", label=f"target {TARGET:g}")
            axes.set_ylim(0.0, _MOST_SCORE * 1.04)
            axes.set_title(f"{reading}: {MECHANISMS[mechanism]}", fontsize=10)
        row[0].set_ylabel("score (steps)")
    about = f"mean score over {_stretch(trials)} submissions, {_counted(trials)}"
    return _finished(figure, panels, [f"Figure 2, \u03b5 = 1: {about}; band: the middle half of the trials"])


def success_figure(trials: Mapping[Key, Trials], readings: Sequence[str]) -> bytes:
    """Draw Figure 3, the success ratio over submissions for each epsilon, as a PNG.

    A row of panels for each reading, a panel for each epsilon; bands are pointwise 95 % intervals of the ratio.
    """
    figure, panels = _panels(len(readings), len(EPSILONS))
    for row, reading in zip(panels, readings, strict=True):
        for axes, epsilon in zip(row, EPSILONS, strict=True):
            for mechanism, buffer_size in BUFFERS.items():
                name, style = MECHANISMS[mechanism], _STYLES[mechanism]
                key = Key(reading, mechanism, epsilon, buffer_size)
                _draw_success(axes, trials.get(key), name, style, _ALPHA)
                control = trials.get(key._replace(reports=NOISE))
                _draw_success(axes, control, f"{name}, noise only", _NOISE_STYLES[mechanism])
            without = trials.get(Key(reading, ELEMENTWISE, math.inf, BUFFERS[LAPLACE]))
            _draw_success(axes, without, "no privacy, |B| = 1", _STYLES[ELEMENTWISE])
            axes.set_ylim(0.0, 1.02)
            axes.set_title(f"{reading}: \u03b5 = {epsilon:g}", fontsize=10)
        row[0].set_ylabel("success ratio")
    about = f"share of trials with a first success by then, {_counted(trials)}"
    return _finished(figure, panels, [f"Figure 3: {about}; bands: 95 % intervals (Clopper and Pearson)"])


def _panels(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(max(2, columns) * _WIDTH, rows * _HEIGHT), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def _draw_scores(axes: Axes, cell: Trials, label: str, style: Mapping[str, Any]) -> None:
    axes.plot(cell.ends, cell.scores.mean(axis=0), label=label, **style)
    if cell.count >= FEWEST_SEEDS:
        low, high = np.quantile(cell.scores, (0.25, 0.75), axis=0)
        axes.fill_between(cell.ends, low, high, color=style["color"], alpha=_ALPHA, lw=0)


def _draw_success(axes: Axes, cell: Trials | None, label: str, style: Mapping[str, Any], alpha: float = 0.0) -> None:
    """Draw a step at every first success; the band, if alpha is above 0, on a grid."""
    if cell is None:
        return
    times = np.sort(cell.first_success[np.isfinite(cell.first_success)])
    steps = np.arange(len(times) + 1) / cell.count
    x, y = np.r_[0.0, times, cell.submissions], np.r_[steps, steps[-1]]
    axes.plot(x, y, drawstyle="steps-post", label=label, **style)
    if alpha > 0.0 and cell.count >= FEWEST_SEEDS:
        grid = np.linspace(0.0, cell.submissions, _POINTS)
        ends = np.array([share_of(cell.succeeded_by(submission))[1:] for submission in grid])
        axes.fill_between(grid, ends[:, 0], ends[:, 1], color=style["color"], alpha=alpha, lw=0)


def _counted(trials: Mapping[Key, Trials]) -> str:
    counts = sorted({cell.count for cell in trials.values()})
    return f"{counts[0]} trials" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} trials"


def _stretch(trials: Mapping[Key, Trials]) -> str:
    """Return how many submissions a point of a curve is the mean of."""
    lengths = {int(np.diff(cell.ends, prepend=0).max()) for cell in trials.values()}
    return f"{max(lengths):,}"


def _finished(figure: Figure, panels: np.ndarray, title: Sequence[str]) -> bytes:
    for axes in panels[-1]:
        axes.set_xlabel("submissions")
    handles: dict[str, Any] = {}
    for axes in panels.flat:
        axes.set_xlim(left=0.0)
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.grid(alpha=0.3)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    put_legend(figure, handles)
    put_title(figure, title)
    return png(figure)


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"
