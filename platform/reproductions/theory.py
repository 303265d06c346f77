"""Page of a reproduction with slopes of regret beside the exponents of a paper's bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, Float64Array
from dprl.platform.configs.experiment import Scalar
from dprl.platform.reports.figures.charts import Axis, Chart, Line
from dprl.platform.reports.figures.colours import Look
from dprl.platform.reports.inference.effects import Estimate, estimate
from dprl.platform.reproductions import tables
from dprl.platform.reproductions.claims import UNKNOWN, Cells, Key, Measure, PaperCell
from dprl.platform.reproductions.engine import PageData, Paper, PaperGroup
from dprl.platform.reproductions.figures import DOTTED, SHADES, chart, curve, draw_charts
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed, standing

Term = Mapping[str, float]
"""A product of powers, by the exponents of K, epsilon, H, S, A, B and A+B."""

FINAL = Measure("regret", "regret", decimals=0)
MODELS = {"none": "no privacy", "jdp": "central", "ldp": "local"}
WITHOUT = "none"
_HALVINGS, _BENT, _LATE = 8, 0.5, 0.9
_FEWEST_POINTS = 3
_FEW = 8
"""Maximum of x values that are all labelled."""
_ROOM = 1.7
"""Ratio of the ends of an axis to the extreme values."""
_RUNS, _UPPER, _LOWER = (Look(dashes, "", 0.9) for dashes in ("-", DOTTED, (0, (6, 2, 1, 2))))
_VERDICTS = ("consistent", "below the term", "above the term", "not measurable")


class _Fit(NamedTuple):
    """Slope of log y against log x, over the usable points.

    slope: mean of the seeds' least-squares slopes with Student's 95 % interval; NaN below 3 points or 3 seeds.
    points, of: number of points used, and in total. predicted: the exponent of the bound.
    """

    slope: Estimate
    points: int
    of: int
    predicted: float

    @property
    def verdict(self) -> str:
        """Position of the interval, one of _VERDICTS. A slope below that of an upper bound agrees with it."""
        if not self.slope.has_interval:
            return "not measurable"
        if self.slope.upper < self.predicted:
            return "below the term"
        return "above the term" if self.slope.lower > self.predicted else "consistent"


class _Row(NamedTuple):
    """One slope. quantity: regret, or its excess over the run without privacy. axis: x. where: fixed settings."""

    algorithm: str
    model: str
    quantity: str
    axis: str
    where: str
    found: _Fit


def value(term: Term, sizes: Mapping[str, float]) -> float:
    """Return a term of a bound, with 1 for its constant and its logarithms."""
    return float(math.prod(sizes[name] ** power for name, power in term.items()))


def has_bent(cell: PaperCell, episode: float = math.inf) -> bool:
    """Return whether regret per episode before `episode` is below half of its largest value in the run."""
    mean, ends = cell.curves.mean(axis=0), cell.ends.astype(float)
    rates = np.diff(mean, prepend=0.0) / np.diff(ends, prepend=0.0)
    last = min(int(np.searchsorted(ends, episode)), len(ends) - 1)
    first = min(int(np.searchsorted(ends, _LATE * ends[last])), last - 1) if last else 0
    late = (mean[last] - mean[first]) / (ends[last] - ends[first]) if last > first else rates[last]
    return bool(late < _BENT * rates.max())


class TheoryPaper(Paper):
    """Paper with regret bounds and no experiments.

    Args:
        name: of the sweep.
        names: of the algorithms on its page.
        axes: parameters of the environment by the letters of the bounds.
        base: sizes of which one at a time is varied.
        terms: of every algorithm's bound: the one without privacy, and that added by each trust model.
        least: the same for the lower bounds, which hold for every algorithm.
    """

    runs, measures = 3, (FINAL,)

    def __init__(
        self,
        name: str,
        names: Mapping[str, str],
        axes: Mapping[str, str],
        base: Mapping[str, int],
        terms: Mapping[str, Mapping[str, Term]],
        least: Mapping[str, Term],
    ) -> None:
        self.name = self.config = name
        self.groups = tuple(PaperGroup(each, words, {"algorithm.name": each}) for each, words in names.items())
        self.names = {**MODELS, **names}
        self.axes, self.base, self.terms, self.least = axes, base, terms, least

    def key(self, group: str, flat: Mapping[str, Scalar]) -> Key:
        """Return the key of a cell: algorithm, trust model, epsilon, episodes and sizes."""
        sizes = " ".join(f"{axis}{flat[parameter]}" for axis, parameter in self.axes.items())
        epsilon = float(flat.get("privacy.epsilon", math.inf))
        return Key(group, str(flat["privacy.model"]), epsilon, float(flat["episodes"]), sizes)

    def read(self, results: CellResults) -> PaperCell:
        """Return the cumulative regret of a cell's runs, and their curves."""
        ends, regrets = by_seed(results.records, REGRET.name)
        curves = regrets.T
        return PaperCell({FINAL.values: curves[:, -1]}, ends, curves, results.certificate)

    def slopes(self, cells: Cells) -> list[_Row]:
        """Return all slopes."""
        found: list[_Row] = []
        for algorithm, terms in self.terms.items():
            found += self._against_episodes(cells, algorithm, terms[WITHOUT])
            for model in terms:
                if model != WITHOUT:
                    found += self._of_privacy(cells, algorithm, model, terms[model])
        return found

    def _against_episodes(self, cells: Cells, algorithm: str, term: Term) -> Iterator[_Row]:
        for key, cell in cells.items():
            if (key.group, key.mechanism, key.control) == (algorithm, WITHOUT, self.sized(self.base)):
                x, bent = _halvings(cell)
                found = fit(x, _at(cell, x), bent, term["K"])
                yield _Row(algorithm, WITHOUT, "regret", "K", f"K \u2264 {cell.episodes:.0e}", found)

    def _of_privacy(self, cells: Cells, algorithm: str, model: str, term: Term) -> Iterator[_Row]:
        """Yield the slopes of the excess over the runs without privacy, with the same seeds and episodes."""
        pairs = {
            key: (cell, cells[free])
            for key, cell in cells.items()
            if (key.group, key.mechanism) == (algorithm, model)
            and (free := key._replace(mechanism=WITHOUT, epsilon=math.inf)) in cells
        }
        at_base = {key: pair for key, pair in pairs.items() if key.control == self.sized(self.base)}
        yield _Row(algorithm, model, "excess", "epsilon", "", _across(at_base, [key.epsilon for key in at_base], -1.0))
        for key, (cell, without) in at_base.items():
            x, bent = _halvings(cell)
            found = fit(x, _at(cell, x) - _at(without, x), bent, term.get("K", 0.0))
            yield _Row(algorithm, model, "excess", "K", f"\u03b5 = {key.epsilon:g}", found)
        for axis in self.axes:
            varied = {
                key: pair
                for key, pair in pairs.items()
                if key.epsilon == 1.0 and self.sized({**self.base, axis: self.size(key, axis)}) == key.control
            }
            if len(varied) > 1:
                sizes = [float(self.size(key, axis)) for key in varied]
                yield _Row(algorithm, model, "excess", axis, "\u03b5 = 1", _across(varied, sizes, term[axis]))

    def sized(self, sizes: Mapping[str, int]) -> str:
        """Return the name of a size, e.g. 'H4 S3 A2'."""
        return " ".join(f"{axis}{sizes[axis]}" for axis in self.axes)

    def size(self, key: Key, axis: str) -> int:
        """Return one size of a cell."""
        return int(key.control.split()[list(self.axes).index(axis)].removeprefix(axis))

    def blocks(self, found: PageData) -> dict[str, str]:
        """Return the tables of a page: slopes, and algorithms at equal noise at the base sizes."""
        rows = self.slopes(found.cells)
        ranges: dict[tuple[str, str, str], list[_Fit]] = {}
        for row in rows:
            if row.found.slope.has_interval:
                ranges.setdefault((MODELS[row.model], row.quantity, row.axis), []).append(row.found)
        counts = {text: sum(row.found.verdict == text for row in rows) for text in _VERDICTS}
        lines = [f"Of {len(rows)} slopes: {', '.join(f'{count} {text}' for text, count in counts.items())}. By axis:"]
        lines += [f"* {model}, {what} against {axis}: {_range(found)}" for (model, what, axis), found in ranges.items()]
        return {
            **super().blocks(found),
            "slopes": tables.table(map(_texts, rows)),
            "summary": "\n".join([lines[0], "", *lines[1:]]),
            "noise": tables.table(self._noise_rows(found.cells)),
        }

    def _noise_rows(self, cells: Cells) -> Iterator[dict[str, str]]:
        order = sorted(cells, key=lambda key: (list(MODELS).index(key.mechanism), key.epsilon, key.setting))
        for key in order:
            if key.control != self.sized(self.base) or key.epsilon not in (1.0, math.inf):
                continue
            cell = cells[key]
            regret = estimate(cell.values[FINAL.values], "linear")
            yield {
                "trust model": MODELS[key.mechanism],
                "claimed \u03b5": tables.epsilon_text(key.epsilon),
                "certified \u03b5": tables.epsilon_text(standing(cell.certificate).proved),
                "algorithm": self.names.get(key.group, key.group),
                "K": f"{cell.episodes:.0e}",
                "regret [95 %]": f"{regret.value:,.0f} [{regret.lower:,.0f}, {regret.upper:,.0f}]",
            }

    def figures(self, found: PageData) -> dict[str, bytes]:
        """Return the figure of the first algorithm: regret over episodes, excess over epsilon, and the bounds."""
        algorithm = next(iter(self.terms))
        cells, terms = found.cells, self.terms[algorithm]
        at_base = {
            key: cell for key, cell in cells.items() if (key.group, key.control) == (algorithm, self.sized(self.base))
        }
        curves, costs = list[Line](), list[Line]()
        for shades, (model, term) in zip(SHADES, terms.items(), strict=False):
            keys = sorted((each for each in at_base if each.mechanism == model), key=lambda each: each.epsilon)
            key = max(keys, key=lambda each: (each.setting, -each.epsilon))
            key = key if model == WITHOUT else key._replace(epsilon=1.0)
            cell, x = at_base[key], at_base[key].ends.astype(np.float64)
            sizes: dict[str, float] = {**self.base, "A+B": self.base["A"] + self.base.get("B", 0.0), "epsilon": 1.0}
            curves.append(curve(MODELS[model], x, cell.curves.mean(axis=0), (shades, _RUNS)))
            for bound, look in ((terms, _UPPER), (self.least, _LOWER)):
                parts = [bound[each] for each in dict.fromkeys((WITHOUT, model))]
                y = [sum(value(part, {**sizes, "K": k}) for part in parts) for k in x]
                curves.append(curve("", x, y, (shades, look)))
            if model != WITHOUT:
                epsilons = [each.epsilon for each in keys]
                free = at_base[key._replace(mechanism=WITHOUT, epsilon=math.inf)]
                excess = [float((at_base[each].curves[:, -1] - free.curves[:, -1]).mean()) for each in keys]
                costs.append(curve(MODELS[model], epsilons, excess, (shades, _RUNS)))
                for part, look in ((term, _UPPER), (self.least[model], _LOWER)):
                    y = [value(part, {**sizes, "K": key.setting, "epsilon": each}) for each in epsilons]
                    costs.append(curve("", epsilons, y, (shades, look)))
        charts = [
            _log_chart("regret at \u03b5 = 1", curves, ("episodes", "regret")),
            _log_chart("cost of privacy", costs, ("\u03b5", "extra regret")),
        ]
        title = (
            "dotted: upper bounds, dash-dotted: lower bounds on the worst case,\nwith 1 for constants and logarithms"
        )
        return {f"{self.name}_slopes.png": draw_charts([charts], title)}

    def verdicts(self, found: PageData) -> list[list[str]]:
        """Return a table for a terminal: slopes with their verdicts. The first row has the headers."""
        rows = [*map(_texts, self.slopes(found.cells))]
        return [[*rows[0]], *([*row.values()] for row in rows)]

    def data(self, found: PageData) -> dict[str, Any]:
        """Return all numbers of the page as plain data."""
        rows = [{**row._asdict(), "found": row.found._asdict()} for row in self.slopes(found.cells)]
        for row in rows:
            row["found"]["slope"] = row["found"]["slope"]._asdict()
        return {**super().data(found), "slopes": rows}


def _log_chart(title: str, lines: Sequence[Line], names: tuple[str, str]) -> Chart:
    """Return a chart with logarithmic axes of these names; few values of x are all ticks."""
    at = np.unique(np.concatenate([line.x for line in lines]))
    values = np.concatenate([line.y[line.y > 0.0] for line in lines])
    ticks = tuple(at.tolist()) if len(at) <= _FEW else ()
    x = Axis(names[0], names[0], True, (float(at[0]), float(at[-1])), ticks, counts=not ticks)
    limits = float(values.min()) / _ROOM, float(values.max()) * _ROOM
    return chart(title, lines, x, Axis(names[1], names[1], True, limits, counts=True))


def _texts(row: _Row) -> dict[str, str]:
    """Return a line of the table of slopes."""
    found, slope = row.found, row.found.slope
    return {
        "algorithm": row.algorithm,
        "trust model": MODELS[row.model],
        "quantity": row.quantity,
        "against": row.axis,
        "at": row.where,
        "points": f"{found.points} of {found.of}",
        "exponent of the term": f"{found.predicted:g}",
        "slope [95 %]": tables.interval(slope, 2) if slope.has_interval else "",
        "reading": found.verdict,
    }


def _halvings(cell: PaperCell) -> tuple[Float64Array, np.ndarray]:
    """Return the episodes K, K/2, K/4, ... of a run and whether its curve has bent there."""
    x = cell.episodes / 2.0 ** np.arange(_HALVINGS)
    places = np.unique(np.searchsorted(cell.ends, x).clip(max=len(cell.ends) - 1))
    found = cell.ends[places].astype(np.float64)
    return found, np.array([has_bent(cell, each) for each in found])


def _at(cell: PaperCell, episodes: Float64Array) -> Float64Array:
    """Return the regret of all n runs after each of m numbers of episodes, float64[n, m]."""
    return np.asarray(cell.curves[:, np.searchsorted(cell.ends, episodes).clip(max=len(cell.ends) - 1)])


def _across(pairs: Mapping[Key, tuple[PaperCell, PaperCell]], x: Sequence[float], predicted: float) -> _Fit:
    """Return the fit of the final excess of several cells, one point per cell."""
    excess = np.stack([cell.curves[:, -1] - free.curves[:, -1] for cell, free in pairs.values()], axis=1)
    bent = np.array([has_bent(cell) for cell, _ in pairs.values()])
    return fit(np.array(x), excess, bent, predicted)


def _range(fits: Sequence[_Fit]) -> str:
    slopes, powers = [one.slope.value for one in fits], sorted({one.predicted for one in fits})
    found = f"{min(slopes):.2f}" if len(slopes) == 1 else f"{min(slopes):.2f} to {max(slopes):.2f}"
    return f"{found} (term: {', '.join(f'{power:g}' for power in powers)})"


def fit(x: Float64Array, y: Float64Array, bent: np.ndarray, predicted: float) -> _Fit:
    """Return the fit of y against x.

    x: float64[m], positive. y: float64[n, m], of n seeds; a point is used only if all seeds are positive. bent:
    bool[m], whether a point's curve has bent, so that it says something about the rate.
    """
    enters = bent & np.all(y > 0.0, axis=0)
    points = int(enters.sum())
    if points < _FEWEST_POINTS:
        return _Fit(UNKNOWN, points, len(x), predicted)
    logs = np.log(x[enters])
    away = logs - logs.mean()
    slopes = np.log(y[:, enters]) @ away / (away @ away)
    return _Fit(estimate(slopes, "linear"), points, len(x), predicted)
