"""The second figure of a sweep of games: how small a gap the output policies have, and how exploitable they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dprl.platform.reports.drawing import TITLE_SIZE, ValueAxis, draw_curve, png, put_legend, put_title, wrapped
from dprl.platform.reports.panels import (
    BAND_ALPHA,
    MODEL,
    MOST_BANDS,
    Plan,
    Series,
    Style,
    common_settings,
    epsilon_axis,
    failing_text,
)
from dprl.platform.reports.records import EXPLOITABILITY, OF_THE_OUTPUT, SMALLEST_GAP
from dprl.platform.reports.verdicts import number

_NAMES = {SMALLEST_GAP: "smallest gap", EXPLOITABILITY: "exploitability"}
_EXPLOITED: dict[str, Any] = {"marker": "X", "width": 0.8, "size": 6.0}
_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_MARGIN = 5.6, 3.9, 0.9
"""In inches; the margin is what axes leave of a panel's height to names."""
_LABEL_SIZE = 8
_LABEL_LINE = 0.14
"""Height of a line of a label, in inches."""
_LABEL_WIDTH = 3.0
_LABEL_AT = 1.04
"""Where labels begin, in widths of the axes: right of the end of their lines."""
_LABEL_GAP = 0.03
"""Between labels and the panel right of them, as a share of a panel."""


class _Label(NamedTuple):
    """What stands beside the end of a curve. at: the end's height, as a share of the axes."""

    text: str
    at: float
    style: Style


def gaps_figure(summary: pd.DataFrame, curves: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw the smallest gap over episodes, and it and the exploitability against proved epsilon; return a PNG.

    summary: rows of `records.summary_row` with both. curves: of each cell's smallest gap, by its digest, as
    `records.curve` gives them. A row of panels per environment and number of episodes.
    """
    plan = Plan.of(summary)
    most = max(len(cells) for _, cells in plan.panels)
    # Names of lines that differ in three settings or more take two lines.
    height = max(_PANEL_HEIGHT, _PANEL_MARGIN + _LABEL_LINE * most * (1 + (len(plan.line_keys) > 2)))
    layout = ConstrainedLayoutEngine(wspace=_LABEL_GAP)
    figure = Figure(figsize=(1.6 + 2 * _PANEL_WIDTH, 0.3 + height * len(plan.panels)), layout=layout)
    references = {name: plan.references(summary, name, text) for name, text in _NAMES.items()}
    labels: dict[str, Any] = {}
    for (title, cells), (left, right) in zip(
        plan.panels, figure.subplots(len(plan.panels), 2, squeeze=False), strict=True
    ):
        _draw_curves(left, cells, plan, curves, height - _PANEL_MARGIN)
        _draw_finals(right, cells, plan, references)
        for axes in (left, right):
            axes.set_title(wrapped(title, 4.5), fontsize=TITLE_SIZE)
            axes.grid(alpha=0.3)
        labels |= dict(zip(*reversed(right.get_legend_handles_labels()), strict=True))
    order = [_label(name, column, references) for name in plan.styles for column in OF_THE_OUTPUT]
    put_legend(figure, {label: labels[label] for label in order if label in labels}, together=len(OF_THE_OUTPUT))
    told = f"{plan.intervals(summary[f'{SMALLEST_GAP}_lower'])}{failing_text(summary)}"
    put_title(figure, [f"Gap and exploitability of the output policy{told}", common_settings(summary)])
    return png(figure)


def _label(line: str, column: str, references: Mapping[str, Mapping[str, str]]) -> str:
    """Return what the legend says of a line of the right panel."""
    return references[column].get(line, f"{line}: {_NAMES[column]}")


def _draw_finals(axes: Axes, cells: pd.DataFrame, plan: Plan, references: Mapping[str, Mapping[str, str]]) -> None:
    """Draw both numbers after the last episode against proved epsilon: exploitability thin, its markers are crosses."""
    means, lower = (np.concatenate([cells[f"{name}{end}"] for name in OF_THE_OUTPUT]) for end in ("", "_lower"))
    axis = ValueAxis.of(means)
    for name, line in plan.lines(cells):
        style = plan.styles[name]
        for column, drawn in zip(OF_THE_OUTPUT, (style, style._replace(**_EXPLOITED)), strict=True):
            label = _label(name, column, references)
            series = Series(column, label, drawn, name in plan.hollow, plan.filled, axis.floor)
            series.draw_references(axes, line[line[MODEL] == "none"])
            series.draw(axes, line)
    epsilon_axis(axes, cells)
    axis.apply(axes, "after the last episode", means, lower)


def _draw_curves(
    axes: Axes, cells: pd.DataFrame, plan: Plan, curves: Mapping[str, pd.DataFrame], inches: float
) -> None:
    """Draw the smallest gap over episodes, a line a cell, its name beside its end, where no legend covers data.

    inches: the height of the axes, about.
    """
    every = pd.concat([curves[digest] for digest in cells["cell"]])
    means = every["mean"].to_numpy()
    axis = ValueAxis.of(means)
    alpha = BAND_ALPHA if len(cells) <= MOST_BANDS else 0.0
    for name, line in plan.lines(cells):
        style = plan.styles[name]
        for digest in line["cell"]:
            draw_curve(axes, curves[digest], axis.floor, alpha, color=style.colour, ls=style.dashes)
    axes.set_xscale("log")
    axes.set_xlim(1, every["episode"].max())
    axes.set_xlabel("episode")
    axis.apply(axes, "smallest gap of the output policy", means, every["lower"].to_numpy())
    axes.autoscale(enable=False)
    _name_ends(axes, cells, plan, curves, inches)


def _name_ends(axes: Axes, cells: pd.DataFrame, plan: Plan, curves: Mapping[str, pd.DataFrame], inches: float) -> None:
    """Mark the end of every curve and write its name beside it, once the axes have their final limits."""
    labels = []
    lines = plan.lines(cells)
    models = Counter(line[MODEL].iloc[0] for _, line in lines)
    for name, line in lines:
        # The legend has the name in full.
        model = line[MODEL].iloc[0]
        short = model if models[model] == 1 else name
        for _, row in line.iterrows():
            last = curves[row["cell"]].iloc[-1]
            end = last["episode"], last["mean"]
            height = axes.transAxes.inverted().transform(axes.transData.transform(end))[1]
            labels.append(_Label(_cell_name(short, row), float(height), plan.styles[name]))
            if row[MODEL] != "none":
                _mark_end(axes, end, plan.styles[name], row["verdict"] == "holds")
    _write_labels(axes, labels, inches)


def _mark_end(axes: Axes, at: tuple[float, float], style: Style, holds: bool) -> None:
    """Put the marker of the right panel at the end of a curve; hollow where the claim fails."""
    inside = style.colour if holds else "white"
    axes.plot(*at, ls="", marker=style.marker, color=style.colour, mfc=inside, clip_on=False, zorder=3)


def _cell_name(line: str, row: pd.Series[Any]) -> str:
    """Return what tells the line, and the epsilon that is proved, whatever was claimed."""
    if row[MODEL] == "none":
        return line
    epsilon = row["proved_epsilon"]
    return f"{line} \u03b5={number(epsilon) if math.isfinite(epsilon) else chr(0x221E)}"


def _write_labels(axes: Axes, labels: Sequence[_Label], inches: float) -> None:
    """Write names right of the axes, moved apart where they would lie on each other, each with a line to its end."""
    ordered = sorted(labels, key=lambda label: label.at)
    texts = [wrapped(label.text, _LABEL_WIDTH) for label in ordered]
    heights = [(text.count("\n") + 1) * _LABEL_LINE / inches for text in texts]
    places = _apart([label.at for label in ordered], heights)
    for label, text, place in zip(ordered, texts, places, strict=True):
        axes.text(_LABEL_AT, place, text, va="center", fontsize=_LABEL_SIZE, transform=axes.transAxes)
        style: dict[str, Any] = {"color": label.style.colour, "lw": 0.6, "clip_on": False, "zorder": 1}
        axes.plot((1.0, _LABEL_AT - 0.005), (label.at, place), transform=axes.transAxes, **style)


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return places near the `wanted`, rising ones, such that texts of these heights about them do not overlap."""
    places: list[float] = []
    for want, height in zip(wanted, heights, strict=True):
        least = places[-1] + (heights[len(places) - 1] + height) / 2 if places else want
        places.append(max(want, least))
    # From the top down: what was pushed above the axes goes back, and pushes what is below it.
    ceiling = 1.0
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], ceiling - heights[i] / 2)
        ceiling = places[i] - heights[i] / 2
    return places
