"""The figures of a cell and of a sweep, in colours that the colour-blind can tell apart."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from dprl.platform.configs.experiment import Experiment, varies
from dprl.platform.errors import counted
from dprl.platform.reports.intervals import CONFIDENCE, FEWEST_SEEDS
from dprl.platform.reports.records import SATURATION_NOTE, always_saturated, curve
from dprl.platform.reports.verdicts import privacy_text

# Okabe and Ito's palette, black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# So that trust models can be told apart on paper too.
_DASHES: dict[str, Any] = {"none": (0, (4, 2)), "jdp": "-", "ldp": (0, (6, 1.5, 1.2, 1.5))}
_MARKERS = ("o", "s", "^", "D", "v", "P")
_MODEL, _DELTA = "privacy.model", "privacy.delta"
_REFERENCE_DASHES: tuple[Any, ...] = (_DASHES["none"], (0, (1, 1.5)), (0, (8, 3)), (0, (8, 2, 2, 2)))
"""Of cells without privacy, which have no marker: one after the other where several have one colour."""
_BAND = f"{CONFIDENCE:.0%} t band over seeds"
_BARS = f"{CONFIDENCE:.0%} t intervals over seeds"
_BAND_ALPHA = 0.15
_MOST_BANDS = 3
"""Lines whose filled bands can still be told apart; with more lines there are error bars only."""
_LINEAR_SPAN = 30.0
"""Largest ratio of two means whose smaller one can still be read off a linear axis."""
_LOG_MARGIN = 1.6
_SMALLEST = 0.1
"""Share of the smallest mean down to which a logarithmic axis follows the ends of the intervals."""
_DPI = 130
_PANELS_PER_ROW = 3
_PANEL_WIDTH, _ONLY_PANEL_WIDTH = 4.6, 6.6
"""In inches."""
_MOST_TICKS = 8
_TICK_GAP = 0.08
"""Least distance of two labels, as a share of the axis."""
_TITLE_SIZE, _LEGEND_SIZE = 10, 9
_HANDLE_LENGTH = 4.0
"""In font sizes: dashes must be seen in the legend, beside a marker."""
_LETTERS_PER_INCH = 10.5
"""Of the titles' font, so many at most."""
_MOST_LEGEND_COLUMNS = 9
_TITLE_LINE, _LEGEND_ROW = 0.17, 0.2
"""Heights in inches."""


def regret_figure(records: pd.DataFrame, experiment: Experiment, certificate: Mapping[str, Any]) -> bytes:
    """Draw a cell's regret per episode (log x) and cumulative regret, with bands over seeds; return a PNG."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(left, curve(records, "regret_per_episode"))
    left.set_xscale("log")
    left.set_ylabel("regret per episode,\nmean over the block (reward)")
    _draw_curve(right, curve(records))
    right.set_ylabel("cumulative regret (reward)")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    for axes in (left, right):
        axes.set_xlabel("episode")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    seeds = records["seed"].nunique()
    # Regret grows, so the lower right corner stays free.
    right.legend(
        title=counted(seeds, "seed") + ("" if seeds >= FEWEST_SEEDS else ", no band"), frameon=False, loc="lower right"
    )
    if always_saturated(records):
        right.text(0.03, 0.95, SATURATION_NOTE, transform=right.transAxes, va="top", color=COLOURS[1])
    _title(figure, [_setting(experiment), privacy_text(certificate)])
    return _png(figure)


def _setting(experiment: Experiment) -> str:
    settings = [f"{key[4:]}={value}" for key, value in experiment.parameters().items() if key.startswith("env.")]
    return f"{experiment.algorithm.name} on {experiment.env.name} ({', '.join(settings[1:])})"


def _draw_curve(axes: Axes, points: pd.DataFrame) -> None:
    axes.plot(points["episode"], points["mean"], color=COLOURS[0], label="mean over seeds")
    if not points["lower"].isna().all():
        axes.fill_between(
            points["episode"],
            points["lower"],
            points["upper"],
            color=COLOURS[0],
            alpha=0.25,
            lw=0,
            label=_BAND,
        )


class _Style(NamedTuple):
    """How a line is drawn; the dashes tell the trust model."""

    colour: str
    marker: str
    dashes: Any


class _Lines(NamedTuple):
    """What the panels share.

    styles: of each line, by its name.
    references: legends of cells without privacy.
    hollow: names of the lines all of whose claims fail.
    filled: whether intervals are filled bands, too.
    """

    styles: Mapping[str, _Style]
    references: Mapping[str, str]
    hollow: frozenset[str]
    filled: bool


def frontier_figure(summary: pd.DataFrame) -> bytes:
    """Draw utility against proved epsilon of a sweep; return a PNG.

    summary: rows of `records.summary_row`. One panel per environment and number of episodes, one line per
    algorithm, trust model and delta (and whatever else varies); cells without privacy are dashed horizontal
    lines. Up to three lines have filled bands, more have error bars only.
    """
    flats = [{key: row[key] for key in row.index if pd.notna(row[key])} for _, row in summary.iterrows()]
    varying = [key for key in _settings(summary) if varies(key, flats)]
    panel_keys = [key for key in varying if key.startswith("env.") or key == "episodes"]
    # The trust model is always named; epsilon is the axis.
    apart = [*panel_keys, _MODEL, "privacy.epsilon", _DELTA]
    line_keys = [_MODEL, *(key for key in varying if key not in apart)]
    line_keys.sort(key=lambda key: key != "algorithm.name")
    if (summary["claimed_delta"] > 0).any():
        line_keys.append(_DELTA)
    panels = list(_groups(summary, panel_keys))
    rows = math.ceil(len(panels) / _PANELS_PER_ROW)
    columns = min(len(panels), _PANELS_PER_ROW)
    width = _PANEL_WIDTH if len(panels) > 1 else _ONLY_PANEL_WIDTH
    figure = Figure(figsize=(1.2 + width * columns, 0.3 + 3.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    groups = list(_groups(summary, line_keys))
    hollow = frozenset(name for name, cells in groups if (cells["verdict"] != "holds").all())
    filled = len(groups) <= _MOST_BANDS
    lines = _Lines(_styles(groups, line_keys), _reference_labels(summary, line_keys), hollow, filled)
    for axes, (title, cells) in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, cells, line_keys, lines)
        axes.set_title(_wrapped(title, 4.0), fontsize=_TITLE_SIZE)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    labels: dict[str, Any] = {}
    for axes in grid.flat:
        labels |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = [lines.references.get(name, name) for name in lines.styles]
    _legend(figure, {label: labels[label] for label in order if label in labels})
    intervals = "" if summary["mean_regret_lower"].isna().all() else f", {_BAND if filled else _BARS}"
    _title(figure, [f"Utility against proved privacy{intervals}{_hollow_text(summary)}", _common_settings(summary)])
    return _png(figure)


def _styles(groups: Sequence[tuple[str, pd.DataFrame]], line_keys: Sequence[str]) -> dict[str, _Style]:
    """Return each line's style: its colour tells the algorithm, or the trust model if there is one algorithm only.

    A further line of the same algorithm and trust model has a marker of its own, and with one algorithm a colour;
    without privacy it has other dashes.
    """
    algorithm = [key for key in line_keys if key.startswith("algorithm.")]
    firsts = {name: cells[[*algorithm, _MODEL]].iloc[0] for name, cells in groups}
    several = len({tuple(map(str, first[algorithm])) for first in firsts.values()}) > 1
    kinds = {name: tuple(map(str, first[algorithm if several else [_MODEL]])) for name, first in firsts.items()}
    numbers = {kind: i for i, kind in enumerate(dict.fromkeys(kinds.values()))}
    further, seen = itertools.count(len(numbers)), Counter[tuple[Any, ...]]()
    styles = {}
    for name, kind in kinds.items():
        model = firsts[name][_MODEL]
        before = seen[kind, model]
        seen[kind, model] += 1
        number = next(further) if before else numbers[kind]
        colour = COLOURS[(numbers[kind] if several else number) % len(COLOURS)]
        reference = _REFERENCE_DASHES[before % len(_REFERENCE_DASHES)]
        dashes = reference if model == "none" else _DASHES.get(model, "-.")
        styles[name] = _Style(colour, _MARKERS[number % len(_MARKERS)], dashes)
    return styles


def _legend(figure: Figure, labels: Mapping[str, Any]) -> None:
    """Put the legend below the panels, in as many rows as its names need."""
    shown = [_wrapped(name, figure.get_figwidth() - 1.0) for name in labels]
    for columns in range(min(_MOST_LEGEND_COLUMNS, len(labels)), 0, -1):
        legend = figure.legend(
            labels.values(),
            shown,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=_LEGEND_SIZE,
            handlelength=_HANDLE_LENGTH,
        )
        if columns == 1 or legend.get_window_extent().width < figure.bbox.width:
            rows = math.ceil(sum(name.count("\n") + 1 for name in shown) / columns)
            figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * rows)
            return
        legend.remove()


def _title(figure: Figure, lines: Sequence[str]) -> None:
    """Put `lines` above the panels, broken where the figure ends."""
    text = "\n".join(_wrapped(line, figure.get_figwidth()) for line in lines)
    figure.set_figheight(figure.get_figheight() + _TITLE_LINE * (text.count("\n") + 1))
    figure.suptitle(text, fontsize=_TITLE_SIZE)


def _wrapped(text: str, inches: float) -> str:
    return textwrap.fill(text, int(_LETTERS_PER_INCH * inches), break_on_hyphens=False)


def _hollow_text(summary: pd.DataFrame) -> str:
    """Return what a hollow marker says, if there is one."""
    failing = set(summary["verdict"][np.isfinite(summary["proved_epsilon"])]) - {"holds"}
    if not failing:
        return ""
    return "; hollow: the pure claim fails" if failing == {"holds_approximately"} else "; hollow: the claim fails"


def _common_settings(summary: pd.DataFrame) -> str:
    """Return algorithm, number of episodes and of seeds, and the scales that are not 1, where all cells agree."""
    words = []
    for key in ["algorithm.name", "episodes", *(key for key in summary.columns if key.endswith("_scale"))]:
        values = set(summary[key].dropna())
        if len(values) == 1 and values != {1.0}:
            words.append(_group_name(["K" if key == "episodes" else key], (values.pop(),)))
    least, most = summary["seeds"].min(), summary["seeds"].max()
    words.append(f"{least} seed{'' if most == 1 else 's'}" if least == most else f"{least} to {most} seeds")
    return ", ".join(words)


def _settings(summary: pd.DataFrame) -> list[str]:
    return [key for key in summary.columns if "." in key or key == "episodes"]


def _groups(summary: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows that agree on `keys` under a readable name; without keys, all rows."""
    if not keys:
        names = sorted(set(summary["env.name"]))
        return [(", ".join(names), summary)]
    found = summary.groupby(list(keys), dropna=False, sort=False)
    return [(_group_name(keys, values), rows) for values, rows in found]


def _group_name(keys: Sequence[str], values: tuple[Any, ...]) -> str:
    words = []
    for key, value in zip(keys, values, strict=True):
        if isinstance(value, float) and math.isnan(value):
            continue
        if key == _DELTA and value == 0.0:
            continue
        last = "\u03b4" if key == _DELTA else key.rpartition(".")[2]
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        words.append(shown if isinstance(value, str) else f"{last}={shown}")
    return " ".join(words)


def _reference_labels(summary: pd.DataFrame, line_keys: Sequence[str]) -> dict[str, str]:
    """Return what the legend says of cells without privacy: their values, one a panel, too small to read off."""
    cells = summary[summary[_MODEL] == "none"]
    labels = {}
    for name, line in _groups(cells, line_keys):
        *others, last = (f"{value:.2g}" for value in line["mean_regret"])
        labels[name] = f"{name}: mean regret {' and '.join([', '.join(others), last] if others else [last])}"
    return labels


def _draw_panel(axes: Axes, cells: pd.DataFrame, line_keys: Sequence[str], lines: _Lines) -> None:
    axis = _RegretAxis.of(cells["mean_regret"].to_numpy())
    for name, line in _groups(cells, line_keys):
        style = lines.styles[name]
        for _, row in line[line[_MODEL] == "none"].iterrows():
            axes.axhline(row["mean_regret"], ls=style.dashes, color=style.colour, label=lines.references[name])
            if lines.filled and math.isfinite(row["mean_regret_lower"]):
                ends = max(row["mean_regret_lower"], axis.floor), row["mean_regret_upper"]
                axes.axhspan(*ends, color=style.colour, alpha=_BAND_ALPHA, lw=0)
        bounded = line[np.isfinite(line["proved_epsilon"])].sort_values("proved_epsilon")
        if len(bounded):
            _draw_line(axes, bounded, name, lines, axis.floor)
    _epsilon_ticks(axes, sorted({value for value in cells["proved_epsilon"] if math.isfinite(value)}))
    axis.apply(axes, cells)
    kind = "at the claimed \u03b4" if (cells["claimed_delta"] > 0).any() else "pure"
    axes.set_xlabel(f"proved \u03b5 ({kind}; smaller is more private)")
    axes.grid(alpha=0.3)


class _RegretAxis(NamedTuple):
    """The scale of a panel's regret: means far apart get a logarithmic one.

    least: the smallest mean above zero. floor: where intervals are cut off below; regret is never negative, which the
    t interval does not know, and a logarithmic axis does not reach zero.
    """

    scale: str
    least: float
    floor: float

    @classmethod
    def of(cls, means: np.ndarray) -> _RegretAxis:
        """Choose for the means of one panel, float64[n]."""
        positive = means[means > 0.0]
        least = float(positive.min()) if len(positive) else 0.0
        if not len(positive) or positive.max() <= _LINEAR_SPAN * least:
            return cls("linear", least, 0.0)
        return cls("symlog", least, 0.0) if len(positive) < len(means) else cls("log", least, _SMALLEST * least)

    def apply(self, axes: Axes, cells: pd.DataFrame) -> None:
        """Set scale, lower limit and label of `axes`, in which `cells` are drawn already."""
        told = {"linear": "", "symlog": f", linear below {self.least:.1g}", "log": ", log"}[self.scale]
        axes.set_ylabel(f"mean regret per episode (reward{told})")
        if self.scale == "linear":
            # A little below zero, so that a line on the axis is seen.
            axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
        elif self.scale == "symlog":
            axes.set_yscale("symlog", linthresh=self.least)
            axes.set_ylim(bottom=min(cells["mean_regret"].min(), 0.0) - _SMALLEST * self.least)
        else:
            axes.set_yscale("log")
            lower = cells["mean_regret_lower"]
            axes.set_ylim(bottom=min([self.least, *lower[lower > self.floor]]) / _LOG_MARGIN)


def _draw_line(axes: Axes, cells: pd.DataFrame, label: str, lines: _Lines, floor: float) -> None:
    """Draw cells of one kind over epsilon with their intervals; a hollow marker says that the claim fails.

    floor: where the intervals are cut off below.
    """
    colour, marker, dashes = lines.styles[label]
    style: dict[str, Any] = {"color": colour, "marker": marker}
    epsilon, mean = cells["proved_epsilon"].to_numpy(), cells["mean_regret"].to_numpy()
    # Few seeds have no interval.
    lower = np.minimum(cells["mean_regret_lower"].fillna(cells["mean_regret"]).clip(lower=floor), mean)
    upper = cells["mean_regret_upper"].fillna(cells["mean_regret"])
    inside = "white" if label in lines.hollow else colour
    spread = np.array([mean - lower, upper - mean])
    axes.errorbar(epsilon, mean, spread, capsize=2, elinewidth=0.8, label=label, ls=dashes, mfc=inside, **style)
    if lines.filled and cells["mean_regret_lower"].notna().any():
        axes.fill_between(epsilon, lower, upper, color=colour, alpha=_BAND_ALPHA, lw=0)
    fails = (cells["verdict"] != "holds").to_numpy()
    axes.plot(epsilon[fails], mean[fails], ls="", markerfacecolor="white", zorder=3, **style)


def _epsilon_ticks(axes: Axes, epsilons: Sequence[float]) -> None:
    """Label the epsilons that occur, not the decades between; a single one still gets an axis around it."""
    if not epsilons or epsilons[0] <= 0.0:
        # Nothing to place, or an epsilon of 0, which has no place on a logarithmic axis.
        axes.set_xticks(epsilons)
        return
    axes.set_xscale("log")
    axes.set_xlim(epsilons[0] / 1.6, epsilons[-1] * 1.6)
    nearest_gap = (epsilons[-1] / epsilons[0]) ** _TICK_GAP
    ticks = [epsilons[0]]
    ticks += [value for before, value in itertools.pairwise(epsilons) if value > before * nearest_gap]
    few = len(ticks) <= _MOST_TICKS
    axes.xaxis.set_major_locator(FixedLocator(ticks) if few else LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=_DPI)
    return content.getvalue()
