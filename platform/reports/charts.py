"""Charts of a report as data: lines of cells over epsilon, the horizon or episodes, in panels by environment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import needed_keys
from dprl.platform.errors import counted, first_of
from dprl.platform.reports.number_texts import epsilon_text, power_text
from dprl.platform.reports.verdicts import trust_word
from dprl.platform.results.cells import (
    EPISODES,
    NAMED,
    NOISE,
    SIZES,
    Cell,
    algorithm_name,
    environment_keys,
    environment_text,
    plain,
    settings_in,
    short_setting,
)
from dprl.platform.results.inference import FEWEST_SEEDS, Scale, estimate, scale_of, scaled_band
from dprl.platform.results.summary import is_final_score, is_gap, results_in, title_of, unit_of, worst_of

MOST_CHARTS = 12
"""Figures of a report; `dprl plot` draws all others."""
MOST_LINES, MOST_PANELS = 8, 6
"""Lines in a panel, and panels in a figure."""
Fill = Literal["full", "left", "none"]
"""Fill of a marker: the claim holds, holds only for delta > 0, fails."""
_FILLS: dict[str, Fill] = {"holds": "full", "holds_approximately": "left"}
MODEL_TITLES = {"jdp": "Central (JDP)", "shuffle": "Shuffle", "ldp": "Local (LDP)"}
COLOURS = ("#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#009E73", "#332288", "#000000", "#7A3B10")
"""Okabe and Ito's palette with indigo and brown for sky blue and yellow, which are too light for text."""
NO_PRIVACY, NEUTRAL = "#8C8C8C", "#B8AD9E"
"""Results without privacy, and nothing else; algorithms beyond the eighth of a report."""
_OWN_COLOURS = {
    **dict(zip(("bernstein_vi", "private_ucb_vi", "private_ucb_po", "pucb", "ldp_obi"), COLOURS, strict=False)),
    "dp_ucbvi": COLOURS[5],
    # These play other kinds of environments, and rarely share a report with the others.
    "dp_nash_vi": COLOURS[0],
    "pgc_a3c": COLOURS[0],
    "ma_ldp": COLOURS[1],
}
_FREE_LINES = 3
_FLOOR = 1e-6
"""Floor of logarithmic axes as a share of the largest value: smaller values, which may be 0, are drawn there."""
_MOST_POINTS, _MOST_BLOCKS = 160, 25
"""Points of a curve of sums, which is smooth between them, and blocks of a curve of means."""
_LIGHTEST = 0.55
"""Tint of the smallest epsilon."""
_SAME = 1.0 + 1e-6
"""Certified epsilons may differ from claimed ones by rounding errors."""
_PRINTED = ("printed", "separate", "binary_tree")
"""Values of settings for noise as the papers print it."""
_HORIZON, _EPSILON, _CALIBRATION = "env.horizon", "privacy.epsilon", "privacy.calibration"


@dataclass(frozen=True)
class Line:
    """Points over x, or a curve over episodes: float64[n] each; NaN ends where there is no interval.

    label: beside its end. fills: of its markers, one a point or none. claimed: the claimed x of each point, NaN where
    the claim holds. noise: index of its noise among those of its trust model, the best first. tint: share of white in
    its colour: more for smaller epsilons of an algorithm. Without privacy, x may be NaN: a level across all x.
    """

    label: str
    algorithm: str
    model: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    noise: int = 0
    fills: tuple[Fill, ...] = ()
    claimed: tuple[float, ...] = ()
    tint: float = 0.0

    @property
    def free(self) -> bool:
        """Whether it is without privacy."""
        return self.model == "none"


@dataclass(frozen=True)
class Panel:
    """Lines on one pair of axes. unlearned: level of a policy that has learned nothing, NaN if unknown."""

    title: str
    lines: tuple[Line, ...]
    unlearned: float = math.nan


class Axis(NamedTuple):
    """One axis of all panels. ticks: its values, () if the style chooses them. limits: its ends."""

    title: str
    log: bool
    limits: tuple[float, float]
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure before it is drawn.

    name: of its file. title: of its section on a page. caption: sentences. kind: 'points' with whiskers (level lines
    without privacy), or 'curves' with bands. grid: rows of panels, None for an empty place. colours: of algorithms.
    """

    name: str
    title: str
    caption: str
    kind: Literal["points", "curves"]
    grid: tuple[tuple[Panel | None, ...], ...]
    x: Axis
    y: Axis
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.grid for panel in row if panel is not None]

    @property
    def lines(self) -> list[Line]:
        """All lines, those of all panels."""
        return [line for panel in self.panels for line in panel.lines]


class _Quantity(NamedTuple):
    """A cell's numbers for a chart. label: of its axis. values: float64[n_seeds], of a cell."""

    metric: Metric
    label: str
    values: Callable[[Cell], np.ndarray]


def report_charts(cells: Sequence[Cell], most: int | None = None) -> list[Chart]:
    """Return the charts of these cells; beyond `most`, curves at some of the epsilons are left out first.

    For games, gaps come first; policy gradients have final scores only. Then come headlines against epsilon, the
    horizon and episodes. Names are unique: charts of every metric after the first end in its name.
    """
    colours = colours_of(cells)
    by_metric: dict[Metric, list[Cell]] = {}
    for cell in cells:
        if cell.metric is not None:
            by_metric.setdefault(cell.metric, []).append(cell)
    keys = {key for cell in cells for key in cell.row}
    gaps, finals, found, curves = results_in(keys, is_gap), list[Chart](), list[Chart](), list[Chart]()
    with_gaps = [cell for cell in cells if gaps and all(metric.name in cell.row for metric in gaps)]
    if any(cell.certified for cell in with_gaps):
        quantities = [_Quantity(metric, metric.label.capitalize(), _last_of(metric)) for metric in gaps]
        title = f"{' and '.join(quantity.label for quantity in quantities)} of the output policy"
        found += _over_epsilon(with_gaps, quantities, "gaps", title)
    for make, name in ((_frontier, "frontier"), (_over_horizons, "horizon")):
        for i, (metric, part) in enumerate(by_metric.items()):
            found += make(part, name if i == 0 else f"{name}_{metric.name}")
    for i, metric in enumerate(results_in(keys, is_final_score)):
        shown = [cell for cell in cells if metric.name in cell.row]
        if any(cell.certified for cell in shown):
            quantity, title = _Quantity(metric, title_of(metric), _last_of(metric)), title_of(metric)
            name = "final" if i == 0 else f"final_{metric.name}"
            finals += _over_epsilon(shown, [quantity], name, f"{title} against certified privacy", metric.definition)
    left = None if most is None else max(1, (most - len(found) - len(finals)) // max(1, len(by_metric)))
    for i, (metric, part) in enumerate(by_metric.items()):
        curves += _curve_charts(part, "curves" if i == 0 else f"curves_{metric.name}", left)
    charts = [*finals, *found, *curves] if len(by_metric) == 1 else [*found, *curves, *finals]
    return [replace(chart, colours=colours) for chart in charts[:most]]


def colours_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the colours of all algorithms of a report, the same in every figure; beyond eight, the best have one."""
    scores: dict[str, float] = {}
    for cell in cells:
        sign = 1.0 if cell.metric is not None and cell.metric.better == "low" else -1.0
        value = math.inf if cell.metric is None else sign * float(np.mean(cell.finals))
        scores[cell.algorithm] = min(value, scores.get(cell.algorithm, value))
    wanted = sorted(scores, key=lambda name: (scores[name], name))[: len(COLOURS)]
    found: dict[str, str] = {}
    for name, colour in _OWN_COLOURS.items():
        if name in wanted and colour not in found.values():
            found[name] = colour
    free = [colour for colour in (COLOURS[5], *reversed(COLOURS)) if colour not in found.values()]
    found |= dict(zip(sorted(name for name in wanted if name not in found), dict.fromkeys(free), strict=False))
    return {name: found.get(name, NEUTRAL) for name in sorted(scores)}


# ---- lines ----


@dataclass(frozen=True)
class _Lines:
    """Assignment of the cells of a chart to named lines. over: the setting that varies along a line."""

    cells: Sequence[Cell]
    over: str = _EPSILON

    @cached_property
    def _needed(self) -> dict[tuple[str, str, str], list[str]]:
        """The settings that distinguish cells of an algorithm, trust model and label, besides those of every line.

        The calibration is one of them wherever it varies: a line never joins certified and printed noise.
        """
        found = {}
        for key in dict.fromkeys(map(_family, self.cells)):
            rows = [cell.row for cell in self.cells if _family(cell) == key]
            always = [*NAMED, EPISODES, *(name for name in rows[0] if name.startswith("env."))]
            names = dict.fromkeys(name for row in rows for name in row if name.startswith(("algorithm.", *NOISE)))
            varying = [name for name in names if name not in always and len({row.get(name) for row in rows}) > 1]
            kinds = [name for name in varying if name == _CALIBRATION]
            needed = {*kinds, *needed_keys(rows, varying, [*always, *kinds])}
            found[key] = [name for name in varying if name in needed]
        return found

    @cached_property
    def noises(self) -> dict[str, list[tuple[str, ...]]]:
        """The kinds of noise of each trust model, the best available first, the printed one last."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for cell in self.cells:
            if cell.private:
                found.setdefault(cell.model, set()).add(_noise_of(cell))
        printed = {kind: sum(word in _PRINTED for word in kind) for kinds in found.values() for kind in kinds}
        return {model: sorted(kinds, key=lambda kind: (printed[kind], kind)) for model, kinds in found.items()}

    @cached_property
    def deltas(self) -> set[float]:
        """All deltas of cells that certify an epsilon."""
        return {cell.delta for cell in self.cells if cell.certified}

    def words(self, cell: Cell) -> list[str]:
        """Return the settings that distinguish a cell from others of its algorithm, trust model and label."""
        keys = (key for key in self._needed[_family(cell)] if key in cell.row and key != self.over)
        return [short_setting(key, cell.row[key]) for key in keys]

    def label(self, cell: Cell, *, along: bool = True) -> str:
        """Return the name of a cell's line: its label, or what distinguishes it from other lines of the chart.

        along: whether a line joins cells of several epsilons; if not, it is named with epsilon.
        """
        given = str(cell.row.get("cell_label", ""))
        alike = [other for other in self.cells if given and other.row.get("cell_label") == given]
        words = self.words(cell)
        if cell.private:
            if not along and (not given or len({other.proved for other in alike if other.private}) > 1):
                words.append(f"\u03b5 = {epsilon_text(cell.proved, 3)}")
            family = {other.delta for other in self.cells if other.certified and _family(other) == _family(cell)}
            if len(family) > 1 or (len(self.deltas) > 1 and cell.delta > 0.0 and not given):
                words.append(f"\u03b4 = {delta_text(cell.delta)}")
            if not cell.certified:
                words.append("NO PRIVACY")
        model = trust_word(cell.model) if cell.private else "no privacy"
        if given:
            several = len({other.model for other in alike}) > 1
            return ", ".join([given, *([model] if several else []), *words])
        names = {algorithm_name(other.row) for other in self.cells}
        told = [algorithm_name(cell.row)] if len(names) > 1 or "algorithm_label" in cell.row else []
        models = {other.model for other in self.cells if other.private}
        if not cell.private or len(models) > 1 or not (told or words):
            return ", ".join([*told, *([model] if cell.private else []), *words, *([] if cell.private else [model])])
        return ", ".join([*told, *words])

    def by_label(self, cells: Iterable[Cell], *, along: bool = True) -> list[list[Cell]]:
        """Return cells by line, which never joins two algorithms or trust models."""
        found: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            found.setdefault((self.label(cell, along=along), cell.algorithm, cell.model), []).append(cell)
        return list(found.values())

    def line(self, cell: Cell, label: str, x: np.ndarray, numbers: Iterable[np.ndarray], **more: Any) -> Line:  # noqa: ANN401
        """Return the line of a cell, and of those like it, with these numbers: y, low and high."""
        y, low, high = numbers
        noise = self.noises[cell.model].index(_noise_of(cell)) if cell.private else 0
        return Line(label, cell.algorithm, cell.model, x, y, low, high, noise, **more)

    def sentences(self) -> list[str]:
        """Return the caption's words on delta and on the looks of kinds of noise."""
        told = []
        if self.deltas - {0.0}:
            one = f"\u03b4 = {delta_text(min(self.deltas))}."
            told.append(one if len(self.deltas) == 1 else "\u03b4 = 0 unless a label says otherwise.")
        for model, kinds in self.noises.items():
            if len(kinds) > 1:
                shared = set.intersection(*map(set, kinds))
                best, *others = (" ".join(word for word in kind if word not in shared) or "default" for kind in kinds)
                rest = ", ".join(first_of(others, 3))
                told.append(f"Noise, {trust_word(model)}: {best} (heavy lines); {rest} (thin lines, other markers).")
        return told


def _family(cell: Cell) -> tuple[str, str, str]:
    return cell.algorithm, cell.model, str(cell.row.get("cell_label", ""))


def _noise_of(cell: Cell) -> tuple[str, ...]:
    keys = (key for key in cell.row if key.startswith(NOISE) and key not in NAMED and "score" not in key)
    return tuple(short_setting(key, cell.row[key]) for key in sorted(keys))


def delta_text(delta: float) -> str:
    """Return a delta as 0, 10\u207b\u2076 or 2\u00b710\u207b\u2076."""
    return "0" if delta == 0.0 else power_text(delta, short=True)


# ---- values and panels ----


class _Values(NamedTuple):
    """The scale of all values of a chart. floor: smaller values are drawn there; floored: whether there are any."""

    scale: Scale
    floor: float
    floored: bool

    @classmethod
    def of(cls, metric: Metric, values: Sequence[np.ndarray]) -> _Values:
        """Choose a logarithmic scale for amounts that should be small, unless nearly all of them are 0."""
        if metric.better != "low" or not metric.unit:
            return cls("linear", -math.inf, False)
        floor = _FLOOR * max(float(each.max()) for each in values)
        if floor <= 0.0 or not all(np.isfinite(each).all() for each in values):
            return cls("linear", 0.0, False)
        return cls("log", floor, scale_of(*values) != "log" or any(bool((each < floor).any()) for each in values))

    def estimates(self, quantity: _Quantity, cells: Sequence[Cell]) -> np.ndarray:
        """Return centres and ends of intervals, float64[3, n]."""
        each = ((np.maximum(quantity.values(cell), self.floor), cell.range_of(quantity.metric)) for cell in cells)
        return np.array([estimate(values, self.scale, bounds)[:3] for values, bounds in each]).T

    def axis(self, title: str, panels: Sequence[Panel], bounds: tuple[float, float]) -> Axis:
        """Return the axis: of all values, and of intervals that reach half as far again or less; others are cut."""
        lines = [line for panel in panels for line in panel.lines]
        levels = [panel.unlearned for panel in panels if math.isfinite(panel.unlearned)]
        every = np.concatenate([*(line.y for line in lines), levels])
        reach = np.concatenate([*(end for line in lines for end in (line.low, line.high)), every])
        if self.scale == "log":
            # Nothing is drawn below the floor, not even the first loss in an environment without anything to learn.
            every, reach = (np.log(np.maximum(numbers, self.floor)) for numbers in (every, reach))
        low, high = float(every.min()), float(every.max())
        if self.scale == "linear" and math.isfinite(bounds[0]):
            low = min(low, bounds[0])
        span = max(high - low, math.log(10.0)) if self.scale == "log" else (high - low) or abs(high) or 1.0
        least, most = max(float(np.nanmin(reach)), low - span / 2), min(float(np.nanmax(reach)), high + span / 2)
        if self.scale == "log":
            return Axis(title, True, (math.exp(least - 0.1 * span), math.exp(most + 0.1 * span)))
        least = bounds[0] if math.isfinite(bounds[0]) else least
        most = bounds[1] if math.isfinite(bounds[1]) and most > bounds[1] / 2 else most
        room = 0.03 * ((most - least) or 1.0)
        return Axis(title, False, (least - room, most + room))


Columns = dict[tuple[str, ...], str]


def _columns(cells: Sequence[Cell], over: str = "") -> Columns:
    """Return the environments and lengths of these cells, in order, each with its title. over: on the x axis."""
    keys = environment_keys([cell.row for cell in cells], over)

    def word(key: str, value: object) -> str:
        if key == EPISODES:
            return f"K = {int(str(value)):,}"
        return f"{SIZES[key]} = {plain(value)}" if key in SIZES else short_setting(key, value)

    seen = {key: list(dict.fromkeys(plain(cell.row.get(key)) for cell in cells)) for key in keys}

    def order(cell: Cell) -> list[float]:
        values = {key: cell.row.get(key) for key in keys}
        return [
            float(v) if isinstance(v, int | float) else float(seen[key].index(plain(v))) for key, v in values.items()
        ]

    return {_column_of(cell, over): environment_text(cell.row, keys, word) for cell in sorted(cells, key=order)}


def _column_of(cell: Cell, over: str = "") -> tuple[str, ...]:
    keys = sorted(key for key in cell.row if (key.startswith("env.") or key == EPISODES) and key != over)
    return tuple(f"{key}={plain(cell.row.get(key))}" for key in keys)


def _charts(
    cells: Sequence[Cell],
    lines: _Lines,
    panels: Callable[[Sequence[Cell], str], list[Panel]],
    quantity: _Quantity,
    values: _Values,
    about: Mapping[str, Any],
) -> list[Chart]:
    """Return the figure of some cells, as several if it has too many panels.

    There is a column for each environment and length; many lines are split into one row per trust model. Each panel has
    at most eight lines, the best ones. panels: of the cells of a column, with this title. about: fields of the chart,
    the words for an interval, and further sentences of its caption.
    """
    over, along = lines.over if lines.over == _HORIZON else "", about.get("along", True)
    columns = _columns(cells, over)
    parts = {key: [cell for cell in cells if _column_of(cell, over) == key] for key in columns}
    models = sorted({cell.model for cell in cells if cell.private})
    widest = max(len(lines.by_label(part, along=along)) for part in parts.values())
    grid: list[list[Panel | None]] = []
    for model in models if widest > MOST_LINES and len(models) > 1 else [""]:
        row: list[Panel | None] = []
        for key, title in columns.items():
            shown = [cell for cell in parts[key] if not model or not cell.private or cell.model == model]
            full = ", ".join(word for word in (MODEL_TITLES.get(model, model), title) if word)
            row += panels(shown, full) if any(cell.private or not model for cell in shown) else [None]
        grid.append(row)
    low, lost = quantity.metric.better == "low", 0
    for row in grid:
        for i, panel in enumerate(row):
            if panel is not None:
                kept = _fitting(panel.lines, low)
                lost += len(panel.lines) - len(kept)
                if len(grid) > 1:  # the panel's title names the trust model
                    kept = tuple(replace(line, label=_without_model(line)) for line in kept)
                row[i] = replace(panel, lines=kept)
    full_grid = list(zip(*itertools.zip_longest(*grid), strict=True))  # all rows have one length
    drawn = [panel for row in full_grid for panel in row if panel is not None]
    y = values.axis(about["y"], drawn, cells[0].range_of(quantity.metric))
    what, (least, most) = about["what"], y.limits
    cut = any(bool((line.low < least).any() or (line.high > most).any()) for panel in drawn for line in panel.lines)
    told = [
        about.get("meaning", ""),
        _seeds_sentence(cells, values, what),
        f"{what.partition(' ')[0].capitalize()} that reach the ends of the vertical axis go further." if cut else "",
        *lines.sentences(),
        *about.get("told", ()),
        f"{counted(lost, 'line')} of worse values left out: a panel has at most {MOST_LINES}." if lost else "",
    ]
    caption = " ".join(filter(None, told))
    each = math.ceil(len(full_grid[0]) / math.ceil(len(full_grid[0]) / max(1, MOST_PANELS // len(full_grid))))
    firsts = range(0, len(full_grid[0]), each)
    found = []
    for number, first in enumerate(firsts, start=1):
        part = tuple(tuple(row[first : first + each]) for row in full_grid)
        more = f" ({number} of {len(firsts)})" if number > 1 else ""
        name = f"{about['name']}_{number}" if number > 1 else about["name"]
        found.append(Chart(name, f"{about['title']}{more}", caption, about["kind"], part, about["x"], y))
    return found


def _without_model(line: Line) -> str:
    words = [word for word in line.label.split(", ") if line.free or word != trust_word(line.model)]
    return ", ".join(words) or line.label


def _fitting(lines: Sequence[Line], low: bool) -> tuple[Line, ...]:
    """Return at most eight lines: the best ones, with up to three of those without privacy."""
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    ranked = sorted(lines, key=lambda line: line.y[-1] if low else -line.y[-1])
    free = [line for line in ranked if line.free][:_FREE_LINES]
    private = [line for line in ranked if not line.free][: MOST_LINES - len(free)]
    kept = {id(line) for line in (*private, *free)}
    return tuple(line for line in lines if id(line) in kept)


def _seeds_sentence(cells: Sequence[Cell], values: _Values, what: str) -> str:
    """Return the caption's words on means and intervals. what: 'intervals', or a kind of bands."""
    mean = "Geometric mean" if values.scale == "log" else "Mean"
    seeds = sorted({cell.seeds for cell in cells})
    count = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    if seeds[-1] < FEWEST_SEEDS:
        return f"{mean} over {count}; no {what} below {FEWEST_SEEDS} seeds."
    told = f"{mean} over {count} with 95% {what}"
    told += f", none below {FEWEST_SEEDS} seeds" if seeds[0] < FEWEST_SEEDS else ""
    told += ", computed on logs" if values.scale == "log" else ""
    return told + (f"; values below {values.floor:.1g} are drawn at it." if values.floored else ".")


def _unproved_sentence(cells: Sequence[Cell], lines: _Lines) -> str:
    """Return the caption's sentence on cells that ask for privacy but certify none, which no axis can show."""
    names: dict[str, None] = {}
    for cell in cells:
        if cell.private and not cell.certified:
            words = cell.row.get("cell_label") or algorithm_name(cell.row), trust_word(cell.model), *lines.words(cell)
            claim = epsilon_text(float(cell.row.get("claimed_epsilon", math.inf)), 3)
            names[f"{', '.join(words)} (claimed \u03b5 = {claim})"] = None
    return f"NO PRIVACY, so not drawn: {'; '.join(first_of(list(names), 3))}." if names else ""


def _unlearned_level(cells: Sequence[Cell], quantity: _Quantity, every: Sequence[Cell] = ()) -> float:
    """Return the level of a policy that has learned nothing: the largest mean of a sum over a first block.

    For a final score it is that of the first policies without privacy, over `every` cell in their environment.
    """
    if is_final_score(quantity.metric):
        here = _column_of(cells[0], EPISODES)
        free = [cell for cell in every if _column_of(cell, EPISODES) == here and not cell.private]
        firsts = [float(cell.values_of(quantity.metric)[1][:, 0].mean()) for cell in free]
        return float(np.mean(firsts)) if firsts else math.nan
    if quantity.metric.over != "sum":
        return math.nan
    return max(float(np.mean(cell.curves[:, 0])) / float(cell.episodes[0]) for cell in cells)


# ---- kinds of charts ----


def _headline(cell: Cell) -> _Quantity:
    """Return the headline of a run, per episode if it is a sum. Raises ValueError for a cell without a headline."""
    metric = cell.metric
    if metric is None:
        raise ValueError("cell must have a headline, got one without")
    label = metric.label.capitalize()
    if metric.over == "sum":
        each = f"{label} per {unit_of([cell.row])}"
        return _Quantity(metric, each, lambda one: one.finals / int(one.row[EPISODES]))
    return _Quantity(metric, label, lambda one: one.finals)


def _last_of(metric: Metric) -> Callable[[Cell], np.ndarray]:
    return lambda cell: cell.values_of(metric)[1][:, -1]


def _frontier(cells: Sequence[Cell], name: str) -> list[Chart]:
    """Return the headline against certified epsilon, [] without any epsilon."""
    quantity = _headline(cells[0])
    title = f"{quantity.label} against certified privacy"
    return _over_epsilon(cells, [quantity], name, title) if any(cell.certified for cell in cells) else []


def _over_epsilon(
    cells: Sequence[Cell], quantities: Sequence[_Quantity], name: str, title: str, meaning: str = ""
) -> list[Chart]:
    """Return the chart of these quantities against certified epsilon, with levels of runs without privacy."""
    lines, shown = _Lines(cells), [cell for cell in cells if cell.certified or not cell.private]
    values = _Values.of(quantities[0].metric, [each.values(cell) for each in quantities for cell in shown])

    def points(on: Sequence[Cell], quantity: _Quantity) -> Line:
        ordered = sorted(on, key=lambda cell: cell.proved)
        x = np.array([cell.proved if cell.certified else math.nan for cell in ordered])
        marks: dict[str, Any] = {}
        if ordered[0].private:
            claims = [float(cell.row.get("claimed_epsilon", math.nan)) for cell in ordered]
            beyond = [c if cell.proved > c * _SAME else math.nan for cell, c in zip(ordered, claims, strict=True)]
            marks = {"fills": tuple(map(_fill_of, ordered)), "claimed": tuple(beyond)}
        return lines.line(ordered[0], lines.label(ordered[0]), x, values.estimates(quantity, ordered), **marks)

    def panels(part: Sequence[Cell], of: str) -> list[Panel]:
        found = []
        for quantity in quantities:
            words = [word for word in (quantity.label if len(quantities) > 1 else "", of) if word]
            drawn = tuple(points(on, quantity) for on in lines.by_label(part))
            found.append(Panel(", ".join(words), drawn, _unlearned_level(part, quantity, shown)))
        return found

    certified = [cell for cell in shown if cell.certified]
    claims = (float(cell.row.get("claimed_epsilon", cell.proved)) for cell in certified)
    ticks = sorted({float(f"{value:.3g}") for value in (*(cell.proved for cell in certified), *claims)})
    log, at = ticks[0] > 0.0, " at the claimed \u03b4" if any(cell.delta for cell in shown) else ""
    room = max((ticks[-1] / ticks[0]) ** 0.05, 1.25) if log else 0.05 * (ticks[-1] - ticks[0]) or 1.0
    limits = (ticks[0] / room, ticks[-1] * room) if log else (ticks[0] - room, ticks[-1] + room)
    x = Axis(f"Certified \u03b5{at} (left: more private)", log, limits, tuple(ticks))
    labels = [quantity.label for quantity in quantities]
    y = labels[0] if len(labels) == 1 else f"{labels[0]} or {' or '.join(labels[1:]).lower()}"
    told = [_unproved_sentence(cells, lines)]
    meaning = f"{meaning.capitalize()}." if meaning else ""
    about = {"name": name, "title": title, "kind": "points", "x": x, "y": y, "what": "intervals"}
    return _charts(shown, lines, panels, quantities[0], values, {**about, "told": told, "meaning": meaning})


def _fill_of(cell: Cell) -> Fill:
    return _FILLS.get(str(cell.row["verdict"]), "none")


def _over_horizons(cells: Sequence[Cell], name: str) -> list[Chart]:
    """Return the headline against the horizon, of cells that share a headline and all settings but the horizon.

    A line is named after its cell with the largest certified epsilon, because epsilon may differ along it.
    """
    families: dict[Any, list[Cell]] = {}
    settings = ("env.", "algorithm.", *NOISE, EPISODES, "release", "audit", "cell_label")
    for cell in (cell for cell in cells if _HORIZON in cell.row):
        keys = sorted(key for key in cell.row if key.startswith(settings) and key != _HORIZON)
        families.setdefault(settings_in(cell.row, keys), []).append(cell)
    along = [sorted(line, key=lambda cell: cell.row[_HORIZON]) for line in families.values() if len(line) > 1]
    if not along:
        return []
    shown = [cell for line in along for cell in line]
    quantity, lines = _headline(shown[0]), _Lines(shown, _HORIZON)
    values = _Values.of(quantity.metric, [quantity.values(cell) for cell in shown])

    def panels(part: Sequence[Cell], of: str) -> list[Panel]:
        inside, found = {id(cell) for cell in part}, []
        for line in (line for line in along if id(line[0]) in inside):
            worst = line[worst_of([cell.certificate for cell in line])]
            x = np.array([float(cell.row[_HORIZON]) for cell in line])
            fills = tuple(map(_fill_of, line)) if worst.private else ()
            label = lines.label(worst, along=False)
            found.append(lines.line(worst, label, x, values.estimates(quantity, line), fills=fills))
        return [Panel(of, tuple(found))]

    ticks = sorted({float(cell.row[_HORIZON]) for cell in shown})
    room = 0.06 * (ticks[-1] - ticks[0])
    x = Axis("Horizon (steps)", False, (ticks[0] - room, ticks[-1] + room), tuple(ticks))
    about: dict[str, Any] = {"name": name, "title": f"{quantity.label} against the horizon", "kind": "points", "x": x}
    about |= {"y": quantity.label, "what": "intervals", "along": False}
    return _charts(shown, lines, panels, quantity, values, about)


def _curve_charts(cells: Sequence[Cell], name: str, most: int | None) -> list[Chart]:
    """Return the headline over episodes of cells that share a headline, the leading chart first.

    All cells are in one chart if no panel has more than eight lines, else there is one for each certified epsilon, or
    for `most` of them: the leading one, of the most cells and then nearest to 1, and others at even distances.
    """
    lines = _Lines(cells)
    # Without any certified epsilon, all cells are results without privacy.
    drawn = [cell for cell in cells if cell.certified or not cell.private]
    drawn = drawn if any(cell.certified for cell in drawn) else list(cells)
    widest = max(
        len(lines.by_label([cell for cell in drawn if _column_of(cell) == key], along=False)) for key in _columns(drawn)
    )
    certified = [epsilon_text(cell.proved, 3) for cell in drawn if cell.certified]
    epsilons = sorted(set(certified), key=float)
    told = [_unproved_sentence(cells, lines)] if len(drawn) < len(cells) else []
    if widest <= MOST_LINES or len(epsilons) < 2:
        return _curves(drawn, lines, name, epsilons[0] if len(epsilons) == 1 else "", told)
    far = {one: abs(math.log(float(one))) if float(one) > 0.0 else math.inf for one in epsilons}
    first = min(epsilons, key=lambda one: (-certified.count(one), far[one]))
    others = [one for one in epsilons if one != first]
    if most is not None and most <= len(others):
        kept = np.linspace(0, len(others) - 1, most - 1).round().astype(int)
        left_out, others = len(others) - (most - 1), [others[place] for place in kept]
        told.append(f"Curves at {left_out} other certified \u03b5 are left out; dprl plot draws them.")
    found = []
    for one in [first, *others]:
        part = [cell for cell in drawn if not cell.private or epsilon_text(cell.proved, 3) == one]
        own = name if one == first else f"{name}_epsilon_{one}"
        found += _curves(part, _Lines(part), own, one, told if one == first else [])
    return found


def _curves(cells: Sequence[Cell], lines: _Lines, name: str, epsilon: str, told: Sequence[str]) -> list[Chart]:
    """Return the chart of these cells. epsilon: the one that all certify, '' if there are several."""
    quantity = _headline(cells[0])
    metric, along = quantity.metric, bool(epsilon)
    points = {id(cell): curve_of(cell, metric) for cell in cells}
    values = _Values.of(metric, [found for _, found in points.values()])

    def panels(part: Sequence[Cell], of: str) -> list[Panel]:
        found = []
        for cell in itertools.chain(*lines.by_label(part, along=along)):
            episodes, numbers = points[id(cell)]
            band = scaled_band(np.maximum(numbers, values.floor), values.scale, cell.range_of(metric))
            alike = [o for o in part if o.private and (o.algorithm, o.model) == (cell.algorithm, cell.model)]
            levels = sorted({float(f"{other.proved:.3g}") for other in alike})
            place = levels.index(float(f"{cell.proved:.3g}")) / (len(levels) - 1) if len(levels) > 1 else 1.0
            tint = _LIGHTEST * (1 - place) if cell.private else 0.0
            found.append(lines.line(cell, lines.label(cell, along=along), episodes, band, tint=tint))
        return [Panel(of, tuple(found), _unlearned_level(part, quantity))]

    unit, log = unit_of(cell.row for cell in cells), metric.over == "sum"
    starts, ends = zip(*((float(x[0]), float(x[-1])) for x, _ in points.values()), strict=True)
    at = f" (certified \u03b5 = {epsilon})" if epsilon else ""
    x = Axis(f"{unit.capitalize()}s{at}", log, (min(starts) if log else 0.0, max(ends)))
    blocks = "so far" if log else f"of blocks of {unit}s, at most {_MOST_BLOCKS} a run, drawn at their ends"
    title = f"{quantity.label} over {unit}s" + (f" at certified \u03b5 = {epsilon}" if epsilon else "")
    about: dict[str, Any] = {
        "name": name,
        "title": title,
        "kind": "curves",
        "x": x,
        "y": quantity.label,
        "told": told,
        "along": along,
    }
    about |= {"what": "bands of whole curves", "meaning": f"Mean {metric.label} {blocks}."}
    return _charts(cells, lines, panels, quantity, values, about)


def curve_of(cell: Cell, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Return episodes, int64[T], and a sum's running mean there or a mean's long blocks, float64[n_seeds, T].

    Blocks at the start of a run are single episodes, whose means show mostly the noise of a few users.
    """
    episodes, curves = cell.episodes, cell.curves
    if metric.over != "sum":
        wanted = np.linspace(0, episodes[-1], _MOST_BLOCKS + 1)[1:]
        ends = np.unique(np.searchsorted(episodes, wanted).clip(0, len(episodes) - 1))
        sums = np.cumsum(curves * np.diff(episodes, prepend=0), axis=1)[:, ends]
        return episodes[ends], np.diff(sums, prepend=0.0) / np.diff(episodes[ends], prepend=0)
    places = np.arange(len(episodes))
    if len(episodes) > _MOST_POINTS:  # evenly spaced on the logarithmic axis, both ends included
        wanted = np.geomspace(max(float(episodes[0]), 1.0), float(episodes[-1]), _MOST_POINTS)
        places = np.unique([0, *np.searchsorted(episodes, wanted).clip(0, len(episodes) - 1), len(episodes) - 1])
    return episodes[places], curves[:, places] / episodes[places]
