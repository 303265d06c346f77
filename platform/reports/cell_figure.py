"""The figure of a cell: its regret and, of an algorithm that reports them, its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.platform.reports.drawing import BAND, COLOURS, LEGEND_SIZE, ValueAxis, draw_curve, png, put_title
from dprl.platform.reports.intervals import FEWEST_SEEDS
from dprl.platform.reports.records import GAPS, SATURATION_NOTE, always_saturated, curve
from dprl.platform.reports.verdicts import privacy_text

_WIDTH, _HEIGHT, _GAPS_LEGEND = 5.0, 4.4, 0.7
"""Of a panel and of the legend below it, in inches."""
_ALPHA = 0.25
_GAPS_STYLES: tuple[dict[str, Any], ...] = (
    {"color": COLOURS[2], "ls": (0, (1, 1)), "lw": 1.5, "alpha": 0.12, "zorder": 2.2},
    {"color": COLOURS[0], "ls": "-", "lw": 2.2, "alpha": _ALPHA, "zorder": 2.1},
    {"color": COLOURS[1], "ls": (0, (5, 2)), "lw": 1.5, "alpha": _ALPHA, "zorder": 2.1},
)
"""As in `GAPS`: the dashes tell them apart on paper too, and dots are seen on a line that they coincide with.

alpha: of the band; that of the gap is wide, as the gap moves with the noise of every episode.
"""


def cell_figure(records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any]) -> bytes:
    """Draw a cell's regret per episode (log x), cumulative regret and gaps (log x), with bands over seeds.

    Gaps only if the algorithm reports any. Returns a PNG.
    """
    gaps = [metric.name for metric in experiment.algorithm.metrics if metric.name in GAPS]
    panels = 3 if gaps else 2
    figure = Figure(figsize=(_WIDTH * panels, _HEIGHT + (_GAPS_LEGEND if gaps else 0.0)), layout="constrained")
    left, right, *others = figure.subplots(1, panels)
    _draw_regret(left, curve(records, "regret_per_episode"))
    left.set_xscale("log")
    left.set_ylabel("regret per episode,\nmean over the block (reward)")
    _draw_regret(right, curve(records))
    right.set_ylabel("cumulative regret (reward)")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    for axes in others:
        _draw_gaps(axes, records, gaps)
    for axes in (left, right, *others):
        axes.set_xlabel("episode")
        axes.grid(alpha=0.3)
    seeds = records["seed"].nunique()
    # Regret grows, so the lower right corner stays free.
    right.legend(
        title=counted(seeds, "seed") + ("" if seeds >= FEWEST_SEEDS else ", no band"), frameon=False, loc="lower right"
    )
    if always_saturated(records):
        right.text(0.03, 0.95, SATURATION_NOTE, transform=right.transAxes, va="top", color=COLOURS[1])
    put_title(figure, [_setting(experiment), privacy_text(certificate)])
    return png(figure)


def _setting(experiment: Experiment) -> str:
    settings = [f"{key[4:]}={value}" for key, value in experiment.parameters().items() if key.startswith("env.")]
    return f"{experiment.algorithm.name} on {experiment.env.name} ({', '.join(settings[1:])})"


def _draw_regret(axes: Axes, points: pd.DataFrame) -> None:
    axes.plot(points["episode"], points["mean"], color=COLOURS[0], label="mean over seeds")
    if not points["lower"].isna().all():
        style: dict[str, Any] = {"color": COLOURS[0], "alpha": _ALPHA, "lw": 0, "label": BAND}
        axes.fill_between(points["episode"], points["lower"], points["upper"], **style)


def _draw_gaps(axes: Axes, records: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw gaps over episodes; the legend stands below them, as they may lie anywhere."""
    curves = {name: curve(records, name) for name in names}
    every = pd.concat(curves.values())
    axis = ValueAxis.of(every["mean"].to_numpy())
    styles = dict(zip(GAPS, _GAPS_STYLES, strict=True))
    for name, points in curves.items():
        draw_curve(axes, points, axis.floor, label=GAPS[name], **styles[name])
    axes.set_xscale("log")
    axis.apply(axes, "gap and exploitability", every["mean"].to_numpy(), every["lower"].to_numpy())
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize=LEGEND_SIZE, handlelength=3.0)
