"""How the cells of a sweep become panels and lines over the proved epsilon."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from dprl.platform.configs.experiment import NEEDS_ITS_NAME, varies
from dprl.platform.reports.cell_texts import needed_keys
from dprl.platform.reports.figures.drawing import BAND, BARS, COLOURS, ValueAxis, listed, png, put_legend, put_title
from dprl.platform.reports.records import shared_unit

# So that trust models can be told apart on paper too.
DASHES: dict[str, Any] = {"none": (0, (4, 2)), "jdp": "-", "ldp": (0, (6, 1.5, 1.2, 1.5))}
MARKERS = ("o", "s", "^", "D", "v", "P")
MODEL = "privacy.model"
_ALGORITHM = "algorithm."
_DELTA = "privacy.delta"
_EPISODES = "episodes"
_CLAIMS = ("claimed_epsilon", "claimed_delta", "proved_epsilon", "theorem")
_REFERENCE_DASHES: tuple[Any, ...] = (DASHES["none"], (0, (1, 1.5)), (0, (9, 4)), (0, (8, 2, 2, 2)), (0, (2, 5)))
"""Of cells without privacy, which have no marker: one after the other."""
BAND_ALPHA = 0.15
MOST_BANDS = 3
"""Lines whose filled bands can still be told apart; with more lines there are error bars only."""
_COLUMN_STYLES: tuple[dict[str, Any], ...] = ({}, *({"marker": marker, "width": 0.8} for marker in ("X", "*", "P")))
"""Of columns in one figure; all but the first are thin."""
_MOST_TICKS = 8
_TICK_GAP = 0.08
"""Least distance of two labels, as a share of the axis."""


class Style(NamedTuple):
    """How a line is drawn; the dashes tell the trust model. Sizes in points."""

    colour: str
    marker: str
    dashes: Any
    width: float = 1.5
    size: float = 6.0


class Panels(NamedTuple):
    """What the panels of a sweep are, and what their lines share.

    titled: the cells of each by its title: one per environment and number of episodes. line_keys: the settings that
    tell its lines apart. styles: of each line, by its name. hollow: names of the lines all of whose claims fail.
    filled: whether intervals are filled bands, too.
    """

    titled: list[tuple[str, pd.DataFrame]]
    line_keys: list[str]
    styles: dict[str, Style]
    hollow: frozenset[str]
    filled: bool

    @classmethod
    def of(cls, summary: pd.DataFrame) -> Panels:
        """Return those of rows of `records.summary_row`.

        A line per algorithm, trust model, delta and whatever else varies.
        """
        flats = [{key: row[key] for key in row.index if pd.notna(row[key])} for _, row in summary.iterrows()]
        settings = [key for key in summary.columns if "." in key or key == _EPISODES]
        varying = [key for key in settings if varies(key, flats)]
        panel_keys = [key for key in varying if key.startswith("env.") or key == _EPISODES]
        # The trust model is always named; epsilon is the axis.
        apart = [*panel_keys, MODEL, "privacy.epsilon", _DELTA]
        # A scale that goes with the algorithm tells no lines apart.
        scales = [key for key in varying if key.startswith(_ALGORITHM) and key != _ALGORITHM + "name"]
        needed = needed_keys(flats, scales, [*panel_keys, _ALGORITHM + "name"])
        line_keys = [MODEL, *(key for key in varying if key not in apart and (key not in scales or key in needed))]
        line_keys.sort(key=lambda key: key != "algorithm.name")
        if (summary["claimed_delta"] > 0).any():
            line_keys.append(_DELTA)
        lines = groups(summary, line_keys)
        hollow = frozenset(name for name, cells in lines if (cells["verdict"] != "holds").all())
        titled = groups(summary, panel_keys)
        return cls(titled, line_keys, _styles(lines, line_keys), hollow, len(lines) <= MOST_BANDS)

    def lines(self, cells: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
        """Return those of `cells` that are on one line, by its name."""
        return groups(cells, self.line_keys)

    def references(self, summary: pd.DataFrame, column: str, what: str) -> dict[str, str]:
        """Return what the legend says of cells without privacy: their values, one a panel, too small to read off."""
        labels = {}
        for name, line in self.lines(summary[_unproved(summary)]):
            claimed = list(dict.fromkeys(f"{value:g}" for value in line["claimed_epsilon"].dropna()))
            lacks = f", NO PRIVACY (claimed \u03b5 = {listed(claimed)})" if claimed else ""
            labels[name] = f"{name}{lacks}: {what} {listed([f'{value:.2g}' for value in line[column]])}"
        return labels

    def intervals(self, column: pd.Series[float]) -> str:
        """Return what the title says of the intervals whose lower ends are `column`."""
        return "" if column.isna().all() else f", {BAND if self.filled else BARS}"


class Column(NamedTuple):
    """A column of the summary, to be drawn over epsilon.

    labels: in the legend, by the name of the line. changes: what tells its lines from those of other columns. unit: of
    its values, with what else the axis says of it.
    """

    name: str
    labels: dict[str, str]
    changes: Mapping[str, Any]
    unit: str = "reward"

    @classmethod
    def only(cls, panels: Panels, cells: pd.DataFrame, name: str, label: str, unit: str = "reward") -> Column:
        """Return the only column of the panels of these cells, whose lines need no further name."""
        return cls(name, {line: line for line in panels.styles} | panels.references(cells, name, label), {}, unit)

    @classmethod
    def several(cls, panels: Panels, summary: pd.DataFrame, labels: Mapping[str, str]) -> list[Column]:
        """Return columns of one figure, by their names, of which the legend names every line."""
        found = []
        for (name, label), changes in zip(labels.items(), itertools.cycle(_COLUMN_STYLES)):
            lines = {line: f"{line}: {label}" for line in panels.styles}
            found.append(cls(name, lines | panels.references(summary, name, label), changes))
        return found


class Series(NamedTuple):
    """One line over epsilon: a column of the summary.

    label: in the legend. hollow: whether the legend's marker is. filled: whether intervals are filled bands, too.
    floor: where the intervals are cut off below.
    """

    column: str
    label: str
    style: Style
    hollow: bool
    filled: bool
    floor: float

    def draw(self, axes: Axes, cells: pd.DataFrame) -> None:
        """Draw private cells with their intervals; a hollow marker says that the claim fails."""
        bounded = cells[np.isfinite(cells["proved_epsilon"])].sort_values("proved_epsilon")
        if bounded.empty:
            return
        colour, marker, dashes, width, size = self.style
        style: dict[str, Any] = {"color": colour, "marker": marker, "ms": size}
        epsilon, mean = bounded["proved_epsilon"].to_numpy(), bounded[self.column].to_numpy()
        ends = bounded[f"{self.column}_lower"], bounded[f"{self.column}_upper"]
        # Few seeds have no interval.
        lower = np.minimum(ends[0].fillna(bounded[self.column]).clip(lower=self.floor), mean)
        upper = ends[1].fillna(bounded[self.column])
        inside = "white" if self.hollow else colour
        spread = np.array([mean - lower, upper - mean])
        bars: dict[str, Any] = {"capsize": 2, "elinewidth": 0.8, "label": self.label, "ls": dashes, "lw": width}
        axes.errorbar(epsilon, mean, spread, mfc=inside, **bars, **style)
        if self.filled and ends[0].notna().any():
            axes.fill_between(epsilon, lower, upper, color=colour, alpha=BAND_ALPHA, lw=0)
        fails = (bounded["verdict"] != "holds").to_numpy()
        axes.plot(epsilon[fails], mean[fails], ls="", markerfacecolor="white", zorder=3, **style)

    def draw_references(self, axes: Axes, cells: pd.DataFrame) -> None:
        """Draw cells without privacy, whatever epsilon."""
        style = self.style
        for _, row in cells.iterrows():
            axes.axhline(row[self.column], ls=style.dashes, color=style.colour, lw=style.width, label=self.label)
            if self.filled and math.isfinite(row[f"{self.column}_lower"]):
                ends = max(row[f"{self.column}_lower"], self.floor), row[f"{self.column}_upper"]
                axes.axhspan(*ends, color=style.colour, alpha=BAND_ALPHA, lw=0)


def completed(rows: pd.DataFrame, drawn: Sequence[str]) -> pd.DataFrame:
    """Return `rows` with the ends of intervals of the columns `drawn` and what is claimed: NaN where no cell has it."""
    ends = [f"{column}{end}" for column in drawn for end in ("_lower", "_upper")]
    return rows.reindex(columns=list(dict.fromkeys([*rows.columns, *ends, *_CLAIMS])))


def _unproved(cells: pd.DataFrame) -> pd.Series[bool]:
    """Return which cells have no epsilon to be drawn at: those without privacy, asked for or not."""
    return cells["proved_epsilon"].map(math.isinf)


def draw_over_epsilon(axes: Axes, cells: pd.DataFrame, panels: Panels, columns: Sequence[Column], what: str) -> None:
    """Draw the cells of a panel over proved epsilon, those without privacy as horizontal lines.

    what: is drawn; all columns have the unit of the first.
    """
    means, lower = (np.concatenate([cells[f"{column.name}{end}"] for column in columns]) for end in ("", "_lower"))
    axis = ValueAxis.of(means)
    for name, line in panels.lines(cells):
        for column in columns:
            style = panels.styles[name]._replace(**column.changes)
            label = column.labels[name]
            series = Series(column.name, label, style, name in panels.hollow, panels.filled, axis.floor)
            series.draw_references(axes, line[_unproved(line)])
            series.draw(axes, line)
    _epsilon_axis(axes, cells)
    axis.apply(axes, what, columns[0].unit, means, lower)
    axes.grid(alpha=0.3)


def with_legend_and_title(
    figure: Figure, summary: pd.DataFrame, panels: Panels, columns: Sequence[Column], title: str, together: int = 1
) -> bytes:
    """Put the legend below the panels of `figure` and the title above them, and return all as a PNG.

    together: so many columns share every panel.
    """
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = [column.labels[name] for name in panels.styles for column in columns]
    put_legend(figure, {label: handles[label] for label in order if label in handles}, together=together)
    lower = pd.concat([summary[f"{column.name}_lower"] for column in columns])
    told = f"{panels.intervals(lower)}{_failing_text(summary)}"
    put_title(figure, [f"{title}{told}", _common_settings(summary)])
    return png(figure)


def _epsilon_axis(axes: Axes, cells: pd.DataFrame) -> None:
    """Name the axis and label the epsilons that occur, not the decades between.

    A single one still gets an axis around it.
    """
    kind = "at the claimed \u03b4" if (cells["claimed_delta"] > 0).any() else "pure"
    axes.set_xlabel(f"proved \u03b5 ({kind}; smaller is more private)")
    epsilons = sorted({value for value in cells["proved_epsilon"] if math.isfinite(value)})
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


def _failing_text(summary: pd.DataFrame) -> str:
    """Return what a hollow marker says, if there is one."""
    failing = set(summary["verdict"][np.isfinite(summary["proved_epsilon"])]) - {"holds"}
    if not failing:
        return ""
    return "; hollow: the pure claim fails" if failing == {"holds_approximately"} else "; hollow: the claim fails"


def _common_settings(summary: pd.DataFrame) -> str:
    """Return algorithm, number of episodes and of seeds, and the scales that are not 1, where all cells agree."""
    words = []
    for key in ["algorithm.name", _EPISODES, *(key for key in summary.columns if key.endswith("_scale"))]:
        values = set(summary[key].dropna())
        if len(values) == 1 and values != {1.0}:
            value = values.pop()
            words.append(_group_name([key], (value,)) if key != _EPISODES else _length(int(value), summary))
    least, most = summary["seeds"].min(), summary["seeds"].max()
    words.append(f"{least} seed{'' if most == 1 else 's'}" if least == most else f"{least} to {most} seeds")
    return ", ".join(words)


def _length(episodes: int, summary: pd.DataFrame) -> str:
    """Return how long the runs of a sweep are."""
    unit = shared_unit(summary["algorithm.name"])
    return f"K = {episodes:,}" if unit == "episode" else f"{episodes:,} {unit}s"


def groups(summary: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
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
        shown = f"{value:g}" if isinstance(value, float) else f"{int(value):,}" if key == _EPISODES else str(value)
        alone = isinstance(value, str) and key not in NEEDS_ITS_NAME
        words.append(shown if alone else f"{last}={shown}")
    return " ".join(words)


def _styles(lines: Sequence[tuple[str, pd.DataFrame]], line_keys: Sequence[str]) -> dict[str, Style]:
    """Return each line's style: its colour tells the algorithm, or the trust model if there is one algorithm only.

    A further line of the same algorithm and trust model has a marker of its own, and with one algorithm a colour;
    without privacy it has other dashes.
    """
    algorithm = [key for key in line_keys if key.startswith("algorithm.")]
    firsts = {name: cells[[*algorithm, MODEL]].iloc[0] for name, cells in lines}
    several = len({tuple(map(str, first[algorithm])) for first in firsts.values()}) > 1
    kinds = {name: tuple(map(str, first[algorithm if several else [MODEL]])) for name, first in firsts.items()}
    numbers = {kind: i for i, kind in enumerate(dict.fromkeys(kinds.values()))}
    further, seen = itertools.count(len(numbers)), Counter[tuple[Any, ...]]()
    references = 0
    styles, unproved = {}, {name for name, cells in lines if _unproved(cells).all()}
    for name, kind in kinds.items():
        model = "none" if name in unproved else firsts[name][MODEL]
        before = seen[kind, model]
        seen[kind, model] += 1
        number = next(further) if before else numbers[kind]
        colour = COLOURS[(numbers[kind] if several else number) % len(COLOURS)]
        dashes = DASHES.get(model, "-.")
        if model == "none":
            # Without markers only dashes tell these apart in grey.
            dashes = _REFERENCE_DASHES[references % len(_REFERENCE_DASHES)]
            references += 1
        styles[name] = Style(colour, MARKERS[number % len(MARKERS)], dashes)
    return styles
