"""The figure of a cell: its headline over episodes, and other metrics of its policies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from dprl.algorithms import Metric
from dprl.algorithms.base import REGRET, headline
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.platform.reports.figures.colours import Palette
from dprl.platform.reports.figures.drawing import (
    BAND,
    COLOURS,
    LEGEND_SIZE,
    Margins,
    ValueAxis,
    draw_curve,
    few_ticks,
    listed,
    png,
    put_title,
    wrapped,
)
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.records import (
    SATURATION_NOTE,
    curve,
    full_label,
    is_result,
    learned_nothing,
)
from dprl.platform.reports.verdicts import privacy_text
from dprl.platform.results.summary import per_episode

_WIDTH, _HEIGHT, _LEGEND_LINE = 5.0, 4.4, 0.19
"""Of a panel and of a line of the legend below it, in inches."""
_ALPHA = 0.25
_OF_THE_OUTPUT: tuple[dict[str, Any], ...] = (
    {"color": COLOURS[0], "ls": "-", "lw": 2.2, "alpha": _ALPHA, "zorder": 2.1},
    {"color": COLOURS[1], "ls": (0, (5, 2)), "lw": 1.5, "alpha": _ALPHA, "zorder": 2.1},
    {"color": COLOURS[3], "ls": (0, (8, 2, 2, 2)), "lw": 1.5, "alpha": _ALPHA, "zorder": 2.1},
)
_OF_OTHERS: tuple[dict[str, Any], ...] = (
    {"color": COLOURS[2], "ls": (0, (1, 1)), "lw": 1.5, "alpha": 0.12, "zorder": 2.2},
    {"color": COLOURS[4], "ls": (0, (1, 3)), "lw": 1.5, "alpha": 0.12, "zorder": 2.2},
)
"""Metrics of the output policy, and others, one after the other.

The dashes tell them apart on paper too, and dots are seen on a line that they coincide with. alpha: of the band; those
of others may be wide, as they move with the noise of every episode.
"""


def cell_figure(records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any]) -> bytes:
    """Draw a cell's regret per episode (log x), cumulative regret and bounds (log x), with bands over seeds.

    Each only if the algorithm reports it; of one with another headline that one is drawn, and its results. One that has
    neither has its metrics drawn. Returns a PNG.
    """
    metrics, unit = experiment.metrics, experiment.algorithm.unit
    with_regret = REGRET in metrics
    # What is 0 throughout, as what agents have to learn of public rewards, would be an empty panel.
    drawn = _groups([metric for metric in metrics if metric.headline or records[metric.name].any()])
    if not drawn and not with_regret:
        drawn = [list(metrics)]
    panels = 2 * with_regret + len(drawn)
    below = _LEGEND_LINE * _legend_lines(drawn)
    figure = Figure(figsize=(_WIDTH * panels, _HEIGHT + below))
    every = figure.subplots(1, panels, squeeze=False)[0]
    if with_regret:
        rate, total = every[:2]
        name = experiment.algorithm.name
        colour = Palette.of([name])[name].line
        _draw_rate(rate, records, colour)
        _draw_total(total, records, colour)
    for axes, group in zip(every[2 * with_regret :], drawn, strict=True):
        _draw_values(axes, records, group, f"after the {unit}")
        if with_regret:
            # Regret falls early, which its panels show on this scale; what is beside them has the same.
            axes.set_xscale("log")
    for axes in every:
        axes.set_xlabel(unit)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        few_ticks(axes)
        axes.grid(alpha=0.3)
    title = put_title(figure, [_setting(experiment), privacy_text(certificate)])
    Margins(left=0.95, right=0.15, bottom=0.55 + below, top=0.2 + title, between=1.1).apply(figure, panels)
    return png(figure)


def _groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Return the metrics with a panel beside regret: a headline that is a mean, and last values, by unit."""
    main = headline(metrics)
    means = [metric for metric in metrics if metric is main and metric.over == "mean"]
    values = [metric for metric in metrics if metric.over == "last" and metric.across == "mean"]
    groups: dict[str, list[Metric]] = {}
    for metric in (*means, *(value for value in values if value.unit == "reward" or is_result(value))):
        groups.setdefault(metric.unit, []).append(metric)
    return list(groups.values())


def _setting(experiment: Experiment) -> str:
    flat = experiment.parameters().items()
    settings = [
        f"{key[4:]}={f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in flat
        if key.startswith("env.")
    ]
    return f"{experiment.algorithm.name} on {experiment.env.name} ({', '.join(settings[1:])})"


def _draw_rate(axes: Axes, records: pd.DataFrame, colour: str) -> None:
    """Draw the regret per episode."""
    _draw_regret(axes, curve(records, per_episode(REGRET)), colour)
    axes.set_xscale("log")
    axes.set_ylabel("regret per episode,\nmean over the block (reward)")
    axes.set_ylim(bottom=0)


def _draw_total(axes: Axes, records: pd.DataFrame, colour: str) -> None:
    """Draw the cumulative regret, with the legend of both panels of regret: it grows, so the lower right stays free."""
    _draw_regret(axes, curve(records), colour)
    axes.set_ylabel("cumulative regret (reward)")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(bottom=0)
    seeds = records["seed"].nunique()
    title = counted(seeds, "seed") + ("" if seeds >= FEWEST_SEEDS else ", no band")
    axes.legend(title=title, frameon=False, loc="lower right")
    if learned_nothing(records):
        axes.text(0.03, 0.95, SATURATION_NOTE, transform=axes.transAxes, va="top", color=COLOURS[1])


def _draw_regret(axes: Axes, points: pd.DataFrame, colour: str) -> None:
    axes.plot(points["episode"], points["mean"], color=colour, label="mean over seeds")
    if not points["lower"].isna().all():
        style: dict[str, Any] = {"color": colour, "alpha": _ALPHA, "lw": 0, "label": BAND}
        axes.fill_between(points["episode"], points["lower"], points["upper"], **style)


def _draw_values(axes: Axes, records: pd.DataFrame, metrics: Sequence[Metric], when: str) -> None:
    """Draw metrics over episodes; the legend stands below them, as they may lie anywhere."""
    curves = {metric: curve(records, metric.name) for metric in metrics}
    every = pd.concat(curves.values())
    means = every["mean"].to_numpy()
    units = {metric.unit for metric in metrics}
    unit = units.pop() if len(units) == 1 else ""
    axis = ValueAxis.of(means)
    output, others = itertools.cycle(_OF_THE_OUTPUT), itertools.cycle(_OF_OTHERS)
    for metric, points in curves.items():
        style = next(output if metric.of == "output" or metric.headline else others)
        lowest = 0.0 if math.isfinite(metric.most) else axis.floor if unit else -math.inf
        draw_curve(axes, points, (lowest, metric.most), label=_legend_text(metric), **style)
    main = headline(metrics)
    if unit:
        what = main.label if main is not None else listed([metric.label for metric in metrics])
        axis.apply(axes, wrapped(f"{what} {when}", _HEIGHT), unit, means, every["lower"].to_numpy())
    elif all(metric.most == 1.0 for metric in metrics):
        axes.set_ylabel("share")
        axes.set_ylim(-0.03, 1.03)
    seeds = records["seed"].nunique()
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        frameon=False,
        fontsize=LEGEND_SIZE,
        handlelength=3.0,
        title=counted(seeds, "seed") + (f", {BAND}" if seeds >= FEWEST_SEEDS else ", no band"),
        title_fontsize=LEGEND_SIZE,
    )


def _legend_lines(drawn: Sequence[Sequence[Metric]]) -> int:
    """Return how many lines the longest legend below a panel has, with its title and the space around it."""
    return max((2 + sum(_legend_text(metric).count("\n") + 1 for metric in group) for group in drawn), default=0)


def _legend_text(metric: Metric) -> str:
    """Return the label of a line; for a metric of the run without one of these words, its definition too."""
    if metric.headline:
        return f"{metric.label}, mean over the block"
    if metric.of == "run" and metric.definition:
        return wrapped(f"{metric.label}: {metric.definition}", _WIDTH - 0.6)
    return full_label(metric)
