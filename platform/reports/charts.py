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
from dprl.platform.reports.number_texts import delta_number, number
from dprl.platform.reports.templates import sentence
from dprl.platform.reports.verdicts import trust_word
from dprl.platform.results.cells import (
    EPISODES,
    NOISE,
    SIZES,
    Cell,
    algorithm_name,
    environment_keys,
    environment_name,
    environment_text,
    setting_text,
    settings_in,
)
from dprl.platform.results.compare import naming_keys
from dprl.platform.results.inference import Scale, estimate, scaled_band
from dprl.platform.results.summary import headline_label, is_final_score, is_gap, results_in, title_of, unit_of

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
_FREE_LINES = 3  # lines without privacy that a panel with too many lines keeps
_FLOOR = 1e-6
"""Floor of logarithmic axes as a share of the largest value: smaller values, which may be 0, are drawn there."""
_MOST_BLOCKS = 25  # blocks of a curve of means
_LIGHTEST = 0.55  # tint of the smallest epsilon
_CALIBRATION = "privacy.calibration"


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
    * raised: whether a seed has a value below the floor of a logarithmic axis, 0 for example, and is drawn there
    * first_policy: the panel's level of the first policy, NaN if unknown
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
    """A cell's numbers for charts. label: of their axis. values: float64[n_seeds], of a cell."""

    metric: Metric
    label: str
    values: Callable[[Cell], np.ndarray]


def report_charts(cells: Sequence[Cell], most: int | None = None) -> list[Chart]:
    """Return the charts of these cells, at most `most`.

    For games, gaps come first; policy gradients have final scores only. Then come headlines against epsilon, against
    sizes that vary, and over episodes. Names are unique: charts of every metric after the first end in its name.
    """
    keys = {key for cell in cells for key in cell.row}
    by_metric: dict[Metric, list[Cell]] = {}
    for cell in cells:
        if cell.metric is not None:
            by_metric.setdefault(cell.metric, []).append(cell)
    gaps, finals, frontiers, sizes, curves = (list[Chart]() for _ in range(5))
    for metric in results_in(keys, is_gap):
        gaps += _over_epsilon(metric.name, [cell for cell in cells if metric.name in cell.row], _last_of(metric))
    for i, metric in enumerate(results_in(keys, is_final_score)):
        part, name = [cell for cell in cells if metric.name in cell.row], f"final_{metric.name}" if i else "final"
        finals += _over_epsilon(name, part, _last_of(metric), f"{metric.definition.capitalize()}. ".lstrip(". "))
    for i, (metric, part) in enumerate(by_metric.items()):
        end, quantity = f"_{metric.name}" if i else "", _headline(metric, part)
        frontiers += _over_epsilon(f"frontier{end}", part, quantity)
        for key in environment_keys([cell.row for cell in part]):
            sizes += _over_size(f"{key.rpartition('.')[2]}{end}", key, part, quantity) if key in SIZES else []
        curves += _over_episodes(f"curves{end}", part, quantity)
    others = [*gaps, *frontiers, *sizes, *curves]
    ordered = [*finals, *others] if len(by_metric) == 1 else [*others, *finals]
    return [replace(chart, colours=colours_of(cells)) for chart in ordered][:most]


def colours_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the colours of all algorithms of a report, the same in every figure; the ninth and later are neutral."""
    names = sorted({cell.algorithm for cell in cells})
    return {name: COLOURS[i] if i < len(COLOURS) else NEUTRAL for i, name in enumerate(names)}


def _headline(metric: Metric, cells: Sequence[Cell]) -> _Quantity:
    """Return the headline of a run, per episode if it is a sum."""
    label = headline_label(metric, unit_of(cell.row for cell in cells))
    return _Quantity(metric, label, lambda one: one.finals / (int(one.row[EPISODES]) if metric.over == "sum" else 1))


def _last_of(metric: Metric) -> _Quantity:
    label = title_of(metric) if is_final_score(metric) else f"{metric.label.capitalize()} of the output policy"
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
        words = [name if len(owners[name]) == 1 else f"{name} ({cell.algorithm})"]
        if model and cell.private and len(models) > 1:
            words.append(trust_word(cell.model))
        words += [setting_text(key, cell.row[key]) for key in keys[name, cell.algorithm, cell.model] if key in cell.row]
        if cell.private and len(deltas) > 1:
            words.append(f"\u03b4 = {delta_number(cell.delta)}")
        if not cell.certified:
            words.append("NO PRIVACY" if cell.private else "no privacy")
        at = [f"\u03b5 = {number(epsilon(cell))}"] if epsilon is not None and cell.private else []
        found.append((", ".join(words), ", ".join(words + at)))
    return found


# ---- kinds of charts ----


def _over_epsilon(name: str, cells: Sequence[Cell], quantity: _Quantity, meaning: str = "") -> list[Chart]:
    """Return the chart of a quantity against certified epsilon, with levels of runs without privacy."""
    certified = [cell for cell in cells if cell.certified]
    if not certified:
        return []
    shown = sorted((cell for cell in cells if cell.certified or not cell.private), key=lambda cell: cell.proved)
    floor = _floor(quantity.metric, [quantity.values(cell) for cell in shown])
    points = []
    for cell in shown:
        found = _interval(cell, quantity, floor) | {"first_policy": _first_policy(cell, quantity.metric)}
        if cell.private:
            found |= {"x": cell.proved, "fill": _FILLS.get(str(cell.row["verdict"]), "none")}
        points.append(found)
    label = "Certified \u03b5 at the claimed \u03b4" if any(cell.delta for cell in certified) else "Certified \u03b5"
    x = _ticked(f"{label} (left: more private)", {cell.proved for cell in certified})
    title = f"{quantity.label} against certified privacy"
    return _charts(name, title, "points", x, floor, quantity, shown, points, every=cells, meaning=meaning)


def _over_size(name: str, key: str, cells: Sequence[Cell], quantity: _Quantity) -> list[Chart]:
    """Return the chart of a quantity against a size, of cells that share all other settings.

    A line is named after its largest certified epsilon, because epsilon may differ along it.
    """
    lines: dict[Any, list[Cell]] = {}
    settings = ("env.", "algorithm.", *NOISE, EPISODES, "release", "audit", "cell_label")
    for cell in (cell for cell in cells if key in cell.row):
        others = sorted(other for other in cell.row if other.startswith(settings) and other != key)
        lines.setdefault(settings_in(cell.row, others), []).append(cell)
    along = [line for line in lines.values() if len(line) > 1]
    if not along:
        return []
    largest = {id(cell): max(other.proved for other in line) for line in along for cell in line}
    shown = sorted((cell for line in along for cell in line), key=lambda cell: float(cell.row[key]))
    floor = _floor(quantity.metric, [quantity.values(cell) for cell in shown])
    points = []
    for cell in shown:
        fill = _FILLS.get(str(cell.row["verdict"]), "none") if cell.private else ""
        points.append({**_interval(cell, quantity, floor), "x": float(cell.row[key]), "fill": fill})
    x = _ticked(SIZES[key].capitalize(), {float(cell.row[key]) for cell in shown}, log=key == EPISODES)
    more: dict[str, Any] = {"epsilon": lambda cell: largest[id(cell)], "besides": key}
    title = f"{quantity.label} against the {SIZES[key]}"
    return _charts(name, title, "points", x, floor, quantity, shown, points, **more)


def _over_episodes(name: str, cells: Sequence[Cell], quantity: _Quantity) -> list[Chart]:
    """Return the headline over episodes."""
    metric, unit = quantity.metric, unit_of(cell.row for cell in cells)
    # Without any certified epsilon, all cells are results without privacy.
    certified = any(cell.certified for cell in cells)
    shown = [cell for cell in cells if cell.certified or not cell.private] if certified else list(cells)
    curves = [curve_of(cell, metric) for cell in shown]
    floor, points = _floor(metric, [values for _, values in curves]), []
    for cell, (episodes, values) in zip(shown, curves, strict=True):
        numbers, scale, raised = _scaled(values, floor)
        y, low, high = scaled_band(numbers, scale, metric.range(cell.horizon))
        about = {"first_policy": _first_policy(cell, metric), "raised": raised}
        points.append({"x": episodes, "y": y, "low": low, "high": high, **about})
    log, ends = metric.over == "sum", [episode for episodes, _ in curves for episode in episodes[[0, -1]]]
    x = Axis(f"{unit.capitalize()}s", log, (float(min(ends)) if log else 0.0, float(max(ends))))
    blocks = "so far" if log else f"of blocks of {unit}s, at most {_MOST_BLOCKS} a run, drawn at their ends"
    title, meaning = f"{quantity.label} over {unit}s", f"Mean {metric.label} {blocks}."
    more: dict[str, Any] = {"epsilon": lambda cell: cell.proved, "every": cells if certified else []}
    return _charts(name, title, "curves", x, floor, quantity, shown, points, **more, meaning=meaning)


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
    return episodes, curves / episodes


# ---- numbers of cells ----


def _floor(metric: Metric, values: Sequence[np.ndarray]) -> float | None:
    """Return the floor of a logarithmic axis, for amounts that should be small; None for a linear axis."""
    if metric.better != "low" or not metric.unit or not all(np.isfinite(each).all() for each in values):
        return None
    return _FLOOR * max(float(each.max()) for each in values) or None


def _scaled(values: np.ndarray, floor: float | None) -> tuple[np.ndarray, Scale, bool]:
    """Return the values as drawn, the scale of their axis, and whether some lie below the floor and are drawn there."""
    if floor is None:
        return values, "linear", False
    return np.maximum(values, floor), "log", bool((values < floor).any())


def _interval(cell: Cell, quantity: _Quantity, floor: float | None) -> dict[str, Any]:
    values, scale, raised = _scaled(quantity.values(cell), floor)
    found = estimate(values, scale, quantity.metric.range(cell.horizon))
    return {"y": found.value, "low": found.lower, "high": found.upper, "raised": raised}


def _first_policy(cell: Cell, metric: Metric) -> float:
    """Return the level of the first policy: the mean of a sum over the first block, or a score without privacy."""
    if is_final_score(metric) and not cell.private:
        return float(cell.values_of(metric)[1][:, 0].mean())
    return float(np.mean(cell.curves[:, 0])) / float(cell.episodes[0]) if metric.over == "sum" else math.nan


# ---- panels and axes ----


def _charts(
    name: str,
    title: str,
    kind: Literal["points", "curves"],
    x: Axis,
    floor: float | None,
    quantity: _Quantity,
    cells: Sequence[Cell],
    points: Sequence[Mapping[str, Any]],
    *,
    epsilon: Callable[[Cell], float] | None = None,
    every: Sequence[Cell] = (),
    besides: str = "",
    meaning: str = "",
) -> list[Chart]:
    """Return the chart of these cells, as several if it has too many panels.

    There is a panel for each environment and length. If one has more than eight lines, there is one for each trust
    model, too, and of curves for each certified epsilon; then it has the eight best lines. points: columns of `Chart`,
    of each cell. every: cells of which those that certify nothing are named in the caption. epsilon: of a cell, for its
    label. besides: the setting on the x axis.
    """
    curves = kind == "curves"
    lines = _lines(cells, line_labels(cells, epsilon=epsilon), besides)
    if (lines.groupby("panel")["line"].nunique() > MOST_LINES).any():
        several = len({cell.model for cell in cells if cell.private}) > 1
        titles = [_MODEL_TITLES.get(cell.model, cell.model) if several else "" for cell in cells]
        epsilons = [float(f"{cell.proved:.3g}") if curves else None for cell in cells]
        labels = line_labels(cells, model=False, epsilon=None if curves else epsilon)
        lines = _lines(cells, labels, besides, list(zip(titles, epsilons, strict=True)))
    if not curves:
        lines["tint"] = 0.0
    missing = {"x": math.nan, "fill": "", "first_policy": math.nan}
    parts = [pd.DataFrame({"cell": i, **missing, **each}, range(np.size(each["y"]))) for i, each in enumerate(points)]
    table = lines.merge(pd.concat(parts), on="cell", sort=False)
    level = table.groupby("panel")["first_policy"].transform("max")
    table["first_policy"] = level.where(level > (-math.inf if floor is None else floor))  # 0 would stretch a log axis
    kept = pd.concat([_best_lines(each, quantity.metric) for _, each in table.groupby("panel", sort=False)])
    claimed = line_labels(every, epsilon=lambda cell: float(cell.row.get("claimed_epsilon", math.inf)))
    unproved = [label for one, (_, label) in zip(every, claimed, strict=True) if one.private and not one.certified]
    caption = sentence(
        "caption",
        meaning=meaning,
        log=floor is not None,
        seeds=sorted({cell.seeds for cell in cells}),
        interval="bands of whole curves" if curves else "intervals",
        deltas=sorted({cell.delta for cell in cells if cell.certified}) or [0.0],
        floor=floor if kept["raised"].any() else None,
        unproved=first_of(list(dict.fromkeys(unproved)), 3),
        lost=len(table[["panel", "line"]].drop_duplicates()) - len(kept[["panel", "line"]].drop_duplicates()),
    )
    y, panels = _fitted(quantity.label, kept, floor), list(dict.fromkeys(kept["panel"]))
    each = math.ceil(len(panels) / math.ceil(len(panels) / MOST_PANELS))
    found = []
    for i, start in enumerate(range(0, len(panels), each), start=1):
        part = kept[kept["panel"].isin(panels[start : start + each])].reset_index(drop=True)
        names = (name, title) if i == 1 else (f"{name}_{i}", f"{title} ({i})")
        found.append(Chart(*names, caption, kind, part, x, y))
    return found


def _lines(
    cells: Sequence[Cell],
    labels: Sequence[tuple[str, str]],
    besides: str,
    parts: Sequence[tuple[str, float | None]] | None = None,
) -> pd.DataFrame:
    """Return a row for each line of a cell in a panel: the cell's place, and columns of `Chart`.

    labels: of the cells' lines, without and with epsilon. parts: trust model and epsilon of the cells, if they have
    panels of their own; runs without privacy are in all of these.
    """
    keys = environment_keys([cell.row for cell in cells], besides)
    private = sorted({part for cell, part in zip(cells, parts, strict=True) if cell.private}) if parts else []
    names, rows = list(dict.fromkeys(environment_name(cell.row) for cell in cells)), []
    for i, (cell, (without, label)) in enumerate(zip(cells, labels, strict=True)):
        sizes = [size if isinstance(size := cell.row.get(key), int | float) else 0.0 for key in keys]
        row = {"cell": i, "line": label, "algorithm": cell.algorithm, "model": cell.model, "kind": without}
        row |= {"epsilon": float(f"{cell.proved:.3g}")}
        for model, epsilon in ([parts[i]] if cell.private else private) if parts else [("", None)]:
            at = "" if epsilon is None else f"\u03b5 = {number(epsilon)}"
            panel = ", ".join(filter(None, [model, at, environment_text(cell.row, keys, ", ")]))
            place = model, epsilon or 0.0, names.index(environment_name(cell.row)), *sizes
            rows.append({**row, "panel": panel, "place": place})
    lines = pd.DataFrame(rows).sort_values("place", kind="stable")
    alike = lines.groupby(["algorithm", "model"])
    lines["variant"] = alike["kind"].transform(lambda kinds: pd.factorize(kinds)[0])
    rank, most = alike["epsilon"].rank("dense"), alike["epsilon"].transform("nunique")
    lines["tint"] = (_LIGHTEST * (most - rank) / (most - 1).clip(lower=1)).where(lines["line"] != lines["kind"], 0.0)
    return lines.drop(columns=["kind", "epsilon", "place"])


def _best_lines(panel: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return at most eight lines of a panel: the best ones, with up to three of those without privacy."""
    last = panel.drop_duplicates("line", keep="last").sort_values("y", ascending=metric.better == "low")
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
    reach = pd.concat([points[name] for name in ("y", "low", "high", "first_policy")]).dropna()
    if floor is None:
        room = 0.05 * (float(np.ptp(reach)) or abs(float(reach.max())) or 1.0)
        return Axis(title, False, (float(reach.min()) - room, float(reach.max()) + room))
    low, high = max(float(reach.min()), floor), max(float(reach.max()), floor)
    room = max((high / low) ** 0.1, 1.25)
    return Axis(title, True, (low / room, high * room))
