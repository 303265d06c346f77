"""Charts of a report as data: a table of points by panel and line, over epsilon, the horizon or episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.errors import first_of
from dprl.platform.reports.number_texts import delta_number, epsilon_text
from dprl.platform.reports.templates import sentence
from dprl.platform.reports.verdicts import trust_word
from dprl.platform.results.cells import (
    EPISODES,
    NOISE,
    Cell,
    algorithm_name,
    environment_keys,
    environment_name,
    environment_text,
    setting_text,
    settings_in,
)
from dprl.platform.results.compare import SAME_EPSILON, naming_keys
from dprl.platform.results.inference import Scale, estimate, scaled_band
from dprl.platform.results.summary import is_final_score, is_gap, results_in, title_of, unit_of

MOST_CHARTS = 12
"""Figures of a report; `dprl plot` draws all others."""
MOST_LINES, MOST_PANELS = 8, 6
"""Lines in a panel, and panels in a figure."""
COLOURS = ("#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#009E73", "#000000", "#7A3B10", "#332288")
"""Okabe and Ito's palette with indigo and brown for sky blue and yellow, which are too light for text."""
NO_PRIVACY, NEUTRAL = "#8C8C8C", "#B8AD9E"
"""Results without privacy, and nothing else; algorithms beyond the eighth of a report."""
_MODEL_TITLES = {"jdp": "Central (JDP)", "shuffle": "Shuffle", "ldp": "Local (LDP)"}
_FILLS = {"holds": "full", "holds_approximately": "left"}
_FREE_LINES = 3
"""Lines without privacy that a panel with too many lines keeps."""
_FLOOR = 1e-6
"""Floor of logarithmic axes as a share of the largest value: smaller values, which may be 0, are drawn there."""
_MOST_POINTS, _MOST_BLOCKS = 160, 25
"""Points of a curve of sums, which is smooth between them, and blocks of a curve of means."""
_LIGHTEST = 0.55
"""Tint of the smallest epsilon."""
_HORIZON, _CALIBRATION = "env.horizon", "privacy.calibration"


class Axis(NamedTuple):
    """One axis of all panels. limits: its ends. ticks: its values, () if the style chooses them."""

    title: str
    log: bool
    limits: tuple[float, float]
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure before it is drawn.

    name: of its file. title: of its section on a page. kind: 'points' with whiskers, or 'curves' with bands. colours:
    of algorithms. points: one row for each, in the order of panels and lines:

    * panel, line: title of the panel and label of the line; algorithm, model: of the line
    * variant: 0 for the first kind of line of an algorithm and trust model, 1 for the second, ...
    * tint: share of white in the line's colour, more for smaller epsilons of an algorithm
    * x, y, low, high: x is NaN for a level across all x, low and high are NaN where there is no interval
    * fill: 'full', 'left' or 'none' where the claim holds, holds only for delta > 0, or fails; '' without a marker
    * claimed: the claimed x where the claim fails, else NaN
    * unlearned: the panel's level of a policy that has learned nothing, NaN if unknown
    """

    name: str
    title: str
    caption: str
    kind: Literal["points", "curves"]
    points: pd.DataFrame
    x: Axis
    y: Axis
    colours: Mapping[str, str] = field(default_factory=dict)


class _Quantity(NamedTuple):
    """A cell's numbers for a chart. label: of its axis. values: float64[n_seeds], of a cell."""

    metric: Metric
    label: str
    values: Callable[[Cell], np.ndarray]


def report_charts(cells: Sequence[Cell], most: int | None = None) -> list[Chart]:
    """Return the charts of these cells, at most `most`.

    For games, gaps come first; policy gradients have final scores only. Then come headlines against epsilon, the
    horizon and episodes. Names are unique: charts of every metric after the first end in its name.
    """
    keys = {key for cell in cells for key in cell.row}
    by_metric: dict[Metric, list[Cell]] = {}
    for cell in cells:
        if cell.metric is not None:
            by_metric.setdefault(cell.metric, []).append(cell)
    found, horizons, curves, finals = list[Chart](), list[Chart](), list[Chart](), list[Chart]()
    if gaps := results_in(keys, is_gap):
        with_gaps = [cell for cell in cells if all(metric.name in cell.row for metric in gaps)]
        quantities = [_last_of(metric, metric.label.capitalize()) for metric in gaps]
        title = f"{' and '.join(quantity.label for quantity in quantities)} of the output policy"
        found += _over_epsilon("gaps", title, with_gaps, quantities)
    for i, (metric, part) in enumerate(by_metric.items()):
        end, quantity = f"_{metric.name}" if i else "", _headline(part[0])
        found += _over_epsilon(f"frontier{end}", f"{quantity.label} against certified privacy", part, [quantity])
        horizons += _over_horizons(f"horizon{end}", f"{quantity.label} against the horizon", part, quantity)
        curves += _over_episodes(f"curves{end}", part, quantity)
    for i, metric in enumerate(results_in(keys, is_final_score)):
        quantity, part = _last_of(metric, title_of(metric)), [cell for cell in cells if metric.name in cell.row]
        name, title = f"final_{metric.name}" if i else "final", f"{quantity.label} against certified privacy"
        finals += _over_epsilon(name, title, part, [quantity], f"{metric.definition.capitalize()}. ".lstrip(". "))
    ordered = [finals, found, horizons, curves] if len(by_metric) == 1 else [found, horizons, curves, finals]
    return [replace(chart, colours=colours_of(cells)) for charts in ordered for chart in charts][:most]


def colours_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the colours of all algorithms of a report, the same in every figure; the ninth and later are neutral."""
    names = sorted({cell.algorithm for cell in cells})
    return {name: COLOURS[i] if i < len(COLOURS) else NEUTRAL for i, name in enumerate(names)}


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


def _last_of(metric: Metric, label: str) -> _Quantity:
    return _Quantity(metric, label, lambda cell: cell.values_of(metric)[1][:, -1])


# ---- labels of lines ----


def line_labels(
    cells: Sequence[Cell], *, model: bool = True, epsilon: Callable[[Cell], float] | None = None
) -> list[tuple[str, str]]:
    """Return the label of every cell's line without and with epsilon: what distinguishes it from other lines.

    It is the cell's label of the config or the algorithm, then the trust model, settings and delta where they differ. A
    line never joins certified and printed noise. model: whether the trust model may be named. epsilon: of a cell; None
    for lines over epsilon.
    """
    names = [str(cell.row.get("cell_label") or algorithm_name(cell.row)) for cell in cells]
    models, deltas = ({getattr(cell, key) for cell in cells if cell.private} for key in ("model", "delta"))
    owners: dict[str, set[str]] = {}
    families: dict[tuple[str, str, str], list[Cell]] = {}
    for cell, name in zip(cells, names, strict=True):
        owners.setdefault(name, set()).add(cell.algorithm)
        families.setdefault((name, cell.algorithm, cell.model), []).append(cell)
    keys = {family: naming_keys(alike) for family, alike in families.items()}
    for family, alike in families.items():
        if len({cell.row.get(_CALIBRATION) for cell in alike}) > 1:
            keys[family] = list(dict.fromkeys([_CALIBRATION, *keys[family]]))

    found = []
    for cell, name in zip(cells, names, strict=True):
        words = [name] if len(owners) > 1 or name != cell.algorithm else []
        if len(owners[name]) > 1:
            words = [f"{name} ({cell.algorithm})"]
        if model and cell.private and len(models) > 1:
            words.append(trust_word(cell.model))
        words += [setting_text(key, cell.row[key]) for key in keys[name, cell.algorithm, cell.model] if key in cell.row]
        if cell.private and len(deltas) > 1:
            words.append(f"\u03b4 = {delta_number(cell.delta)}")
        if not cell.certified:
            words.append("NO PRIVACY" if cell.private else "no privacy")
        without = ", ".join(words)
        if epsilon is not None and cell.private:
            words.append(f"\u03b5 = {epsilon_text(epsilon(cell), 3)}")
        found.append((without, ", ".join(words) or trust_word(cell.model)))
    return found


# ---- kinds of charts ----


class _Item(NamedTuple):
    """A cell's points of one quantity, as columns of `Chart`; those that it lacks are missing values."""

    cell: Cell
    quantity: _Quantity
    points: Mapping[str, Any]


def _over_epsilon(
    name: str, title: str, cells: Sequence[Cell], quantities: Sequence[_Quantity], meaning: str = ""
) -> list[Chart]:
    """Return the chart of these quantities against certified epsilon, with levels of runs without privacy."""
    certified = [cell for cell in cells if cell.certified]
    if not certified:
        return []
    shown = [cell for cell in cells if cell.certified or not cell.private]
    floor = _floor(quantities[0].metric, [quantity.values(cell) for quantity in quantities for cell in shown])
    items = []
    for quantity in quantities:
        for cell in sorted(shown, key=lambda cell: cell.proved):
            points: dict[str, Any] = _interval(cell, quantity, floor)
            points["unlearned"] = _unlearned(cell, quantity.metric)
            if cell.private:
                claimed = float(cell.row.get("claimed_epsilon", math.nan))
                fails = cell.proved > claimed * SAME_EPSILON
                points |= {"x": cell.proved, "fill": _fill(cell), "claimed": claimed if fails else math.nan}
            items.append(_Item(cell, quantity, points))
    ends = {cell.proved for cell in certified}
    ends |= {float(cell.row.get("claimed_epsilon", cell.proved)) for cell in certified}
    label = "Certified \u03b5 at the claimed \u03b4" if any(cell.delta for cell in certified) else "Certified \u03b5"
    x = _ticked(f"{label} (left: more private)", ends)
    return _charts(name, title, "points", x, floor, items, cells, meaning=meaning)


def _over_horizons(name: str, title: str, cells: Sequence[Cell], quantity: _Quantity) -> list[Chart]:
    """Return the headline against the horizon, of cells that share all settings but the horizon.

    A line is named after its largest certified epsilon, because epsilon may differ along it.
    """
    lines: dict[Any, list[Cell]] = {}
    settings = ("env.", "algorithm.", *NOISE, EPISODES, "release", "audit", "cell_label")
    for cell in (cell for cell in cells if _HORIZON in cell.row):
        keys = sorted(key for key in cell.row if key.startswith(settings) and key != _HORIZON)
        lines.setdefault(settings_in(cell.row, keys), []).append(cell)
    along = [line for line in lines.values() if len(line) > 1]
    if not along:
        return []
    largest = {id(cell): max(other.proved for other in line) for line in along for cell in line}
    shown = sorted((cell for line in along for cell in line), key=lambda cell: float(cell.row[_HORIZON]))
    floor = _floor(quantity.metric, [quantity.values(cell) for cell in shown])
    items = []
    for cell in shown:
        points = {**_interval(cell, quantity, floor), "x": float(cell.row[_HORIZON])}
        items.append(_Item(cell, quantity, {**points, "fill": _fill(cell) if cell.private else ""}))
    x = _ticked("Horizon (steps)", {float(cell.row[_HORIZON]) for cell in shown}, log=False)
    labels: dict[str, Any] = {"epsilon": lambda cell: largest[id(cell)], "besides": _HORIZON}
    return _charts(name, title, "points", x, floor, items, [], **labels)


def _over_episodes(name: str, cells: Sequence[Cell], quantity: _Quantity) -> list[Chart]:
    """Return the headline over episodes."""
    metric, unit = quantity.metric, unit_of(cell.row for cell in cells)
    # Without any certified epsilon, all cells are results without privacy.
    certified = any(cell.certified for cell in cells)
    shown = [cell for cell in cells if cell.certified or not cell.private] if certified else list(cells)
    curves = [curve_of(cell, metric) for cell in shown]
    floor, items = _floor(metric, [values for _, values in curves]), []
    for cell, (episodes, values) in zip(shown, curves, strict=True):
        numbers, scale = _scaled(values, floor)
        y, low, high = scaled_band(numbers, scale, cell.range_of(metric))
        points = {"x": episodes, "y": y, "low": low, "high": high, "unlearned": _unlearned(cell, metric)}
        items.append(_Item(cell, quantity, points))
    log, ends = metric.over == "sum", [episode for episodes, _ in curves for episode in episodes[[0, -1]]]
    x = Axis(f"{unit.capitalize()}s", log, (float(min(ends)) if log else 0.0, float(max(ends))))
    blocks = "so far" if log else f"of blocks of {unit}s, at most {_MOST_BLOCKS} a run, drawn at their ends"
    title, meaning = f"{quantity.label} over {unit}s", f"Mean {metric.label} {blocks}."
    others = cells if certified else []
    return _charts(name, title, "curves", x, floor, items, others, epsilon=lambda cell: cell.proved, meaning=meaning)


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


# ---- numbers of cells ----


def _floor(metric: Metric, values: Sequence[np.ndarray]) -> float | None:
    """Return the floor of a logarithmic axis, for amounts that should be small; None for a linear axis."""
    if metric.better != "low" or not metric.unit or not all(np.isfinite(each).all() for each in values):
        return None
    return _FLOOR * max(float(each.max()) for each in values) or None


def _scaled(values: np.ndarray, floor: float | None) -> tuple[np.ndarray, Scale]:
    return (values, "linear") if floor is None else (np.maximum(values, floor), "log")


def _interval(cell: Cell, quantity: _Quantity, floor: float | None) -> dict[str, float]:
    found = estimate(*_scaled(quantity.values(cell), floor), cell.range_of(quantity.metric))
    return {"y": found.value, "low": found.lower, "high": found.upper}


def _fill(cell: Cell) -> str:
    return _FILLS.get(str(cell.row["verdict"]), "none")


def _unlearned(cell: Cell, metric: Metric) -> float:
    """Return the level of the first policy: the mean of a sum over the first block, or a score without privacy."""
    if is_final_score(metric) and not cell.private:
        return float(cell.values_of(metric)[1][:, 0].mean())
    return float(np.mean(cell.curves[:, 0])) / float(cell.episodes[0]) if metric.over == "sum" else math.nan


def _unproved(cells: Sequence[Cell]) -> list[str]:
    """Return the labels of the first cells that ask for privacy but certify none, which no axis can show."""
    labels = line_labels(cells, epsilon=lambda cell: float(cell.row.get("claimed_epsilon", math.inf)))
    named = [label for cell, (_, label) in zip(cells, labels, strict=True) if cell.private and not cell.certified]
    return first_of(list(dict.fromkeys(named)), 3)


# ---- panels and axes ----


def _charts(
    name: str,
    title: str,
    kind: Literal["points", "curves"],
    x: Axis,
    floor: float | None,
    items: Sequence[_Item],
    every: Sequence[Cell],
    *,
    epsilon: Callable[[Cell], float] | None = None,
    besides: str = "",
    meaning: str = "",
) -> list[Chart]:
    """Return the chart with these points, as several if it has too many panels.

    There is a panel for each quantity, environment and length. If one has more than eight lines, there is one for each
    trust model, too, and of curves for each certified epsilon; then it has the eight best lines. every: cells of which
    those that certify nothing are named in the caption. epsilon: of a cell, for its label. besides: the setting on the
    x axis.
    """
    curves, cells, metric = kind == "curves", [item.cell for item in items], items[0].quantity.metric
    lines = _lines(items, line_labels(cells, epsilon=epsilon), besides)
    if (lines.groupby("panel")["line"].nunique() > MOST_LINES).any():
        several = len({cell.model for cell in cells if cell.private}) > 1
        titles = [_MODEL_TITLES.get(cell.model, cell.model) if several else "" for cell in cells]
        epsilons = [float(f"{cell.proved:.3g}") if curves else None for cell in cells]
        labels = line_labels(cells, model=False, epsilon=None if curves else epsilon)
        lines = _lines(items, labels, besides, list(zip(titles, epsilons, strict=True)))
    if not curves:
        lines["tint"] = 0.0
    points = [
        pd.DataFrame({"item": i, **_MISSING, **item.points}, np.arange(np.size(item.points["y"])))
        for i, item in enumerate(items)
    ]
    table = lines.merge(pd.concat(points), on="item", sort=False)
    table["unlearned"] = table.groupby("panel")["unlearned"].transform("max")
    kept = pd.concat([_best_lines(panel, metric.better == "low") for _, panel in table.groupby("panel", sort=False)])
    caption = sentence(
        "caption",
        meaning=meaning,
        log=floor is not None,
        seeds=sorted({cell.seeds for cell in cells}),
        interval="bands of whole curves" if curves else "intervals",
        deltas=sorted({cell.delta for cell in cells if cell.certified}) or [0.0],
        unproved=_unproved(every),
        lost=len(table[["panel", "line"]].drop_duplicates()) - len(kept[["panel", "line"]].drop_duplicates()),
    )
    first, *more = dict.fromkeys(item.quantity.label for item in items)
    y = _fitted(" or ".join([first, *map(str.lower, more)]), kept, floor)
    panels = list(dict.fromkeys(kept["panel"]))
    each = math.ceil(len(panels) / math.ceil(len(panels) / MOST_PANELS))
    found = []
    for i, start in enumerate(range(0, len(panels), each), start=1):
        part = kept[kept["panel"].isin(panels[start : start + each])].reset_index(drop=True)
        names = (name, title) if i == 1 else (f"{name}_{i}", f"{title} ({i})")
        found.append(Chart(*names, caption, kind, part, x, y))
    return found


_MISSING = {"x": math.nan, "fill": "", "claimed": math.nan, "unlearned": math.nan}
"""Columns that the points of some kinds of charts lack."""


def _lines(
    items: Sequence[_Item],
    labels: Sequence[tuple[str, str]],
    besides: str,
    parts: Sequence[tuple[str, float | None]] | None = None,
) -> pd.DataFrame:
    """Return a row for each line of a cell in a panel: number of its item, and columns of `Chart`.

    labels: of the items' lines, without and with epsilon. parts: trust model and epsilon of the items, if they have
    panels of their own; runs without privacy are in all of these.
    """
    cells = [item.cell for item in items]
    keys = environment_keys([cell.row for cell in cells], besides)
    names = list(dict.fromkeys(environment_name(cell.row) for cell in cells))

    private = sorted({part for cell, part in zip(cells, parts, strict=True) if cell.private}) if parts else []
    quantities, rows = list(dict.fromkeys(item.quantity.label for item in items)), []
    for i, (item, (without, label)) in enumerate(zip(items, labels, strict=True)):
        cell = item.cell
        sizes = [cell.row.get(key) for key in keys]
        order = names.index(environment_name(cell.row)), *(x if isinstance(x, int | float) else 0.0 for x in sizes)
        row = {"item": i, "line": label, "algorithm": cell.algorithm, "model": cell.model, "kind": without}
        row |= {"epsilon": float(f"{cell.proved:.3g}")}
        for model, epsilon in ([parts[i]] if cell.private else private) if parts else [("", None)]:
            at = "" if epsilon is None else f"\u03b5 = {epsilon_text(epsilon, 3)}"
            words = [
                item.quantity.label if len(quantities) > 1 else "",
                model,
                at,
                environment_text(cell.row, keys, ", "),
            ]
            place = quantities.index(item.quantity.label), model, epsilon or 0.0, order
            rows.append((place, {**row, "panel": ", ".join(filter(None, words))}))
    lines = pd.DataFrame([row for _, row in sorted(rows, key=lambda each: each[0])])
    alike = lines.groupby(["algorithm", "model"])
    lines["variant"] = alike["kind"].transform(lambda kinds: pd.factorize(kinds)[0])
    rank, most = alike["epsilon"].rank("dense"), alike["epsilon"].transform("nunique")
    lines["tint"] = (_LIGHTEST * (most - rank) / (most - 1).clip(lower=1)).where(lines["line"] != lines["kind"], 0.0)
    return lines.drop(columns=["kind", "epsilon"])


def _best_lines(panel: pd.DataFrame, low: bool) -> pd.DataFrame:
    """Return at most eight lines of a panel: the best ones, with up to three of those without privacy."""
    last = panel.drop_duplicates("line", keep="last").sort_values("y", ascending=low)
    free = last["model"] == "none"
    kept = list(last.loc[free, "line"][:_FREE_LINES]) if len(last) > MOST_LINES else list(last.loc[free, "line"])
    kept += list(last.loc[~free, "line"][: MOST_LINES - len(kept)])
    return panel[panel["line"].isin(kept)]


def _ticked(title: str, values: Collection[float], *, log: bool = True) -> Axis:
    """Return the x axis of points with a tick at each of the values."""
    ticks = sorted({float(f"{value:.3g}") for value in values})
    if log and ticks[0] > 0.0:
        room = max((ticks[-1] / ticks[0]) ** 0.05, 1.25)
        return Axis(title, True, (ticks[0] / room, ticks[-1] * room), tuple(ticks))
    room = 0.06 * (ticks[-1] - ticks[0]) or 1.0
    return Axis(title, False, (ticks[0] - room, ticks[-1] + room), tuple(ticks))


def _fitted(title: str, points: pd.DataFrame, floor: float | None) -> Axis:
    """Return the y axis of all values and intervals."""
    reach = pd.concat([points[name] for name in ("y", "low", "high", "unlearned")]).dropna()
    if floor is None:
        room = 0.05 * (float(np.ptp(reach)) or abs(float(reach.max())) or 1.0)
        return Axis(title, False, (float(reach.min()) - room, float(reach.max()) + room))
    low, high = max(float(reach.min()), floor), max(float(reach.max()), floor)
    room = max((high / low) ** 0.1, 1.25)
    return Axis(title, True, (low / room, high * room))
