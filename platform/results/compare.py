"""Comparisons of cells, declared before any result is seen, and the best cell at each privacy budget.

Cells of one environment, length and headline are a group. Two cells of a group are compared if they differ in one
factor only: the algorithm, at the same privacy and noise; the noise, for one algorithm at the same privacy; or epsilon,
between neighbouring values. The tests of a group are one family: Welch's test, on logs where values are positive, with
Holm's adjustment.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import needed_keys, varies
from dprl.platform.results.cells import (
    DIGESTS,
    ENV_NAMING,
    EPISODES,
    NAMED,
    NOISE,
    PRIVACY,
    Cell,
    Settings,
    algorithm_name,
    environment_keys,
    environment_name,
    plain,
    setting_text,
    settings_in,
)
from dprl.platform.results.inference import Effect, Estimate, effect, holm, scale_of
from dprl.platform.results.summary import unit_of

Kind = Literal["algorithm", "noise", "epsilon"]
"""The factor in which two cells differ."""
Pair = tuple[int, int]
"""The places of two cells in their group, the smaller first."""
MOST_PAIRS = 200
"""With more comparisons at one privacy, none is declared: after adjustment no test would have power."""
SAME_EPSILON = 1.0 + 1e-6
"""Certified epsilons may exceed a claim by rounding errors."""


class Factors(NamedTuple):
    """The factors of a cell that vary within its group.

    algorithm: its name, with its varying settings if all cells have one algorithm. constants: the algorithm's settings.
    noise: settings of privacy besides model, epsilon and delta. epsilon: the claimed one if the claim holds, else the
    certified one; infinite without privacy. ran: the noise that ran, if there are several algorithms; it follows from
    the other factors, and from the number of releases of the algorithm.
    """

    algorithm: str
    constants: Settings
    noise: Settings
    model: str
    delta: float
    epsilon: float
    ran: Hashable


class Comparison(NamedTuple):
    """A declared comparison. kind: the factor that differs. effect: of the first cell against the second."""

    kind: Kind
    effect: Effect


@dataclass(frozen=True)
class Group:
    """Cells that differ in algorithm, privacy or noise only, the best first, and those without a rank last.

    title: the environment, and the settings specific to this group. metric: their headline.
    """

    title: str
    metric: Metric | None
    cells: tuple[Cell, ...]

    @property
    def unit(self) -> str:
        """The word for an episode here."""
        return unit_of(cell.row for cell in self.cells)

    @property
    def episodes(self) -> int:
        """Number of episodes of a run."""
        return int(self.cells[0].row[EPISODES])

    @cached_property
    def names(self) -> list[str]:
        """Every cell's name within the group: label or algorithm, settings that differ, trust model and epsilon.

        Cells that share a name have the beginning of their digests, too.
        """
        algorithms = {cell.algorithm for cell in self.cells}
        keys = {name: naming_keys([cell for cell in self.cells if cell.algorithm == name]) for name in algorithms}
        found = []
        for cell in self.cells:
            words = [setting_text(key, cell.row[key]) for key in keys[cell.algorithm] if key in cell.row]
            name = str(cell.row.get("cell_label", " ".join([algorithm_name(cell.row), *words])))
            at = f" delta={cell.delta:g}" if cell.private and cell.delta else ""
            found.append(f"{name}, {cell.model} epsilon={cell.proved:.4g}{at}" if cell.private else f"{name}, none")
        return [
            name if found.count(name) == 1 else f"{name} [{str(cell.row['cell'])[:6]}]"
            for name, cell in zip(found, self.cells, strict=True)
        ]

    @cached_property
    def factors(self) -> list[Factors]:
        """The factors of every cell, by its place.

        If all cells have one algorithm, its varying settings play the part of the algorithm; noise that follows from
        them is then no factor of its own.
        """
        rows = [cell.row for cell in self.cells]
        keys = [key for key in dict.fromkeys(key for row in rows for key in row) if varies(key, rows)]
        constants = [key for key in keys if key.startswith("algorithm.") and key != "algorithm.name"]
        noise = [key for key in keys if key.startswith(NOISE) and key not in PRIVACY]
        alone = len({cell.algorithm for cell in self.cells}) == 1
        found = []
        for cell in self.cells:
            name, settings, row = cell.algorithm, settings_in(cell.row, constants), cell.row
            if alone:
                name = " ".join([name, *(f"{key.rpartition('.')[2]}={value}" for key, value in settings)])
                settings = ()
            if not cell.private:
                found.append(Factors(name, settings, (), cell.model, 0.0, math.inf, ()))
                continue
            claimed = float(row.get("claimed_epsilon", 0.0))
            # Without a claim that holds, the certified epsilon is rounded.
            epsilon = claimed if cell.proved <= claimed * SAME_EPSILON else float(f"{cell.proved:.4g}")
            ran = () if alone else _noise_of(cell)
            found.append(Factors(name, settings, settings_in(row, noise), cell.model, cell.delta, epsilon, ran))
        return found

    @cached_property
    def comparisons(self) -> dict[Pair, Comparison]:
        """The declared comparisons: one family of tests."""
        if self.metric is None:
            return {}
        kinds = declared_pairs(self.factors)
        effects = [self.effect(*pair) for pair in kinds]
        adjusted = holm([found.p_value for found in effects])
        tests = (found._replace(adjusted=p) for found, p in zip(effects, adjusted, strict=True))
        return {pair: Comparison(kind, test) for (pair, kind), test in zip(kinds.items(), tests, strict=True)}

    def effect(self, one: int, other: int) -> Effect:
        """Return the effect of a cell against another one, declared or not; its p-value is for a single test."""
        first, second = self.cells[one], self.cells[other]
        scale = scale_of(first.finals, second.finals) if first.positive else "linear"
        return effect(first.finals, second.finals, scale)

    def better(self, pair: Pair) -> int | None:
        """Return the place of the significantly better cell of a declared pair, None if neither is.

        It is not always the cell with the better centre: its geometric mean may be lower and its tested mean higher.
        """
        found = self.comparisons[pair].effect
        if not found.significant or self.metric is None:
            return None
        equal = 1.0 if found.scale == "log" else 0.0
        return pair[0] if (found.value < equal) == (self.metric.better == "low") else pair[1]


def groups_of(cells: Sequence[Cell]) -> list[Group]:
    """Return the groups of `cells`, in their order."""
    rows = [cell.row for cell in cells]
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key.startswith("env.")]
    hidden = ENV_NAMING - (DIGESTS & {*environment_keys(rows)})
    told = [key for key in keys if key not in hidden and varies(key, rows)]
    long = len({row[EPISODES] for row in rows}) > 1
    members: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        key = (*(plain(cell.row.get(name)) for name in keys), cell.row[EPISODES], cell.metric)
        members.setdefault(key, []).append(cell)
    found = []
    for together in members.values():
        alike = together
        row, metric = alike[0].row, alike[0].metric
        words = [environment_name(row), *(setting_text(key, row[key]) for key in told if row.get(key, "") != "")]
        if long:
            words.append(f"K={int(row[EPISODES]):,}")
        if metric is not None:
            sign = 1.0 if metric.better == "low" else -1.0
            alike = [alike[i] for i in np.argsort([sign * cell.estimate.value for cell in alike], kind="stable")]
        found.append(Group(" ".join(words), metric, tuple(alike)))
    return found


def naming_keys(cells: Sequence[Cell]) -> list[str]:
    """Return the fewest settings that distinguish the cells of a group, besides those that are in every name."""
    rows = [cell.row for cell in cells]
    keys = dict.fromkeys(key for row in rows for key in row)
    known = (key for key in keys if ("." in key and not key.startswith("env.")) or key in ("release", "audit"))
    return needed_keys(rows, [key for key in known if key not in NAMED and varies(key, rows)], NAMED)


# ---- declared comparisons ----


def declared_pairs(factors: Sequence[Factors]) -> dict[Pair, Kind]:
    """Return the declared comparisons of a group: pairs of places, with the factor that differs.

    Comparisons of algorithms are not declared if one privacy has more than MOST_PAIRS of them, nor comparisons of noise
    if one algorithm and privacy has. Cells that ask for privacy and prove no finite epsilon are in none. Algorithms are
    compared at equal shared constants, and at others if neither cell has such a pair with the other's algorithm: so
    those that were tuned, each with constants of its own, are compared as they were tuned.
    """
    # [i, j] of every matrix below: whether it holds for cells i and j.
    tested = np.array([each.model == "none" or math.isfinite(each.epsilon) for each in factors])
    codes = {name: _codes([getattr(each, name) for each in factors]) for name in Factors._fields}
    same = {name: np.equal.outer(code, code) for name, code in codes.items()}
    budget = np.logical_and.outer(tested, tested) & same["model"] & same["delta"] & same["epsilon"]
    equal_noise, equal_settings = same["noise"] & same["ran"], same["algorithm"] & same["constants"]

    # A shared constant has different values.
    conflict = np.zeros_like(budget)
    for key in {key for each in factors for key, _ in each.constants}:
        values = [dict(each.constants).get(key) for each in factors]
        known = np.array([value is not None for value in values])
        conflict |= np.logical_and.outer(known, known) & ~np.equal.outer(_codes(values), _codes(values))
    algorithms = budget & equal_noise & ~same["algorithm"]
    # i is compared with a cell of j's algorithm at equal constants.
    served = (algorithms & ~conflict).astype(np.float32) @ same["algorithm"].astype(np.float32) > 0.0
    algorithms &= ~conflict | ~(served | served.T)

    # j has the least epsilon above that of i.
    line = tested & equal_settings & same["noise"] & same["model"] & same["delta"]
    epsilons = np.array([each.epsilon for each in factors])
    larger = np.where(line & np.less.outer(epsilons, epsilons), epsilons, np.inf)
    following = line & np.isfinite(larger) & (larger == larger.min(axis=1, keepdims=True, initial=np.inf))
    kinds: dict[Kind, np.ndarray] = {
        "algorithm": _few(algorithms, budget & equal_noise),
        "noise": _few(budget & equal_settings & ~same["noise"], budget & equal_settings),
        "epsilon": following | following.T,
    }
    return {(i, j): kind for kind, pairs in kinds.items() for i, j in np.argwhere(np.triu(pairs)).tolist()}


def _codes(values: Sequence[Hashable]) -> np.ndarray:
    """Return a number for each value, equal for equal ones."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _few(pairs: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """Return the pairs bool[n, n] in buckets with few of them. bucket: whether i and j share one."""
    ordered = bucket.astype(np.float32) @ pairs.sum(axis=1, dtype=np.float32)
    found: np.ndarray = pairs & (ordered <= 2 * MOST_PAIRS)[:, np.newaxis]
    return found


def _noise_of(cell: Cell) -> Hashable:
    """Return the kinds of noise in a cell's releases, their scale, the noisy sums that a user enters, and their error.

    Scales have six digits, because two calibrations of the same noise may differ in later ones. The error of a count
    has three: counters of equal scale differ in it if they release at other times.
    """
    kinds = frozenset(
        (each.get("mechanism"), float(f"{each.get('scale') or 0.0:.6g}"), each.get("nodes_per_user"))
        for each in cell.certificate.get("noise", ())
    )
    error = cell.row.get("noise_sd")
    return kinds, None if error is None else float(f"{error:.3g}")


# ---- the best cell at each privacy budget ----


class Best(NamedTuple):
    """The best cell of a group within a privacy budget: a trust model, and the largest certified epsilon and delta.

    place: in the group, None if no cell is within the budget. next_best: place of the best of the cells that a declared
    comparison of algorithms or of noise sets against it; lead: the effect of that cell against it, with the adjusted
    p-value. cost: the effect against the cell of the same algorithm without privacy.
    """

    group: Group
    model: str
    epsilon: float
    delta: float
    place: int | None = None
    next_best: int | None = None
    lead: Effect | None = None
    cost: Effect | None = None

    @property
    def cell(self) -> Cell:
        """The best cell. Raises ValueError where there is none."""
        if self.place is None:
            raise ValueError("the budget must have a cell")
        return self.group.cells[self.place]


def best_cells(group: Group) -> list[Best]:
    """Return the best cell at each budget, by trust model, small budgets first, no privacy last; [] without a headline.

    The budgets of a trust model are its cells' claims, and the largest certified epsilon at each delta.
    """
    if group.metric is None:
        return []
    found = []
    for model, delta in {(cell.model, cell.delta) for cell in group.cells if cell.private}:
        alike = [cell for cell in group.cells if (cell.model, cell.delta) == (model, delta)]
        claimed = {float(cell.row["claimed_epsilon"]) for cell in alike if "claimed_epsilon" in cell.row}
        certified = max((cell.proved for cell in alike if cell.certified), default=0.0)
        beyond = {certified} if certified > max(claimed, default=0.0) * SAME_EPSILON else set()
        found += [(model, epsilon, delta) for epsilon in claimed | beyond]
    free = [] if all(cell.private for cell in group.cells) else [("none", math.inf, 0.0)]
    return [_best(group, *budget) for budget in [*sorted(found), *free]]


def _best(group: Group, model: str, epsilon: float, delta: float) -> Best:
    most = epsilon * SAME_EPSILON
    within = [
        i
        for i, cell in enumerate(group.cells)
        if cell.model == model and (not cell.private or (cell.proved <= most and cell.delta <= delta))
    ]
    if not within:
        return Best(group, model, epsilon, delta)

    best = within[0]
    tested = {i: group.comparisons[best, i] for i in within[1:] if (best, i) in group.comparisons}
    rival = next((i for i, comparison in tested.items() if comparison.kind != "epsilon"), None)
    lead = None if rival is None else group.effect(rival, best)._replace(adjusted=tested[rival].effect.adjusted)
    reference = reference_of(group, best) if group.cells[best].private else None
    cost = None if reference is None else group.effect(best, reference)
    return Best(group, model, epsilon, delta, best, rival, lead, cost)


def reference_of(group: Group, place: int) -> int | None:
    """Return the place of the cell without privacy of the same algorithm and constants, None if there is none.

    If the algorithm has only one cell without privacy, it is that one, whatever its constants. It must clip gradients
    alike.
    """
    if group.metric is None:
        return None
    cell, mine = group.cells[place], group.factors[place]
    free = []
    for i, other in enumerate(group.cells):
        alike = other.ball is None or cell.ball is None or other.ball == cell.ball
        if not other.private and other.algorithm == cell.algorithm and alike:
            if group.factors[i][:2] == mine[:2]:  # algorithm and constants
                return i
            free.append(i)
    return free[0] if len(free) == 1 else None


# ---- as data ----


def cell_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per cell: the comparison's own columns first, then those of summary.csv.

    headline: of the whole run, the geometric mean over seeds on the log scale, else the mean. band_lower, band_upper:
    the ends of its 95 % interval. scale: 'log' or 'linear'. rank: 1 for the best of its group.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        for i, cell in enumerate(group.cells):
            about: dict[str, Any] = {"group": group.title, "name": group.names[i], "n_seeds": cell.seeds}
            if group.metric is not None:
                value, lower, upper, scale = cell.estimate
                about |= {"metric": group.metric.name, "unit": group.metric.unit, "rank": i + 1}
                about |= {"headline": value, "band_lower": lower, "band_upper": upper, "scale": scale}
            audit = cell.certificate.get("audit") or {}
            rows.append(about | {"audit_verdict": audit.get("verdict", "")} | dict(cell.row))
    return pd.DataFrame(rows)


def comparison_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per declared comparison of two cells of a group, and its test.

    kind: the factor that differs. difference: of the means, first minus second. effect: the ratio of the first to the
    second on the log scale, their difference on the linear one; effect_lower, effect_upper: the ends of its 95 %
    interval. p_value: of Welch's test on that scale. p_holm: adjusted for the declared comparisons of the group.
    told_apart: whether the difference is significant. better: the better cell, if it is.
    """
    rows = []
    for group in groups:
        for (i, j), (kind, found) in group.comparisons.items():
            one, other, better = group.cells[i], group.cells[j], group.better((i, j))
            row: list[Any] = [group.title, group.names[i], group.names[j], str(one.row["cell"]), str(other.row["cell"])]
            row += [group.metric and group.metric.name, float(one.finals.mean() - other.finals.mean()), found.p_value]
            row += [found.adjusted, found.significant, "" if better is None else group.names[better], i == 0, kind]
            rows.append([*row, found.scale, found.value, found.lower, found.upper])
    columns = ["group", "first", "second", "first_cell", "second_cell", "metric", "difference", "p_value", "p_holm"]
    columns += ["told_apart", "better", "with_the_best", "kind", "scale", "effect", "effect_lower", "effect_upper"]
    return pd.DataFrame(rows, columns=columns)


def best_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the best cell at each budget of all groups as plain data; missing values are None."""

    def numbers(found: Estimate | Effect | None) -> dict[str, Any] | None:
        named = {} if found is None else {key: getattr(found, key) for key in Estimate._fields}
        return {key: None if pd.isna(x) else x for key, x in named.items()} or None

    def next_row(best: Best) -> dict[str, Any] | None:
        if best.next_best is None or best.lead is None:
            return None
        name, cell = best.group.names[best.next_best], str(best.group.cells[best.next_best].row["cell"])
        test = best.lead if best.lead.tested else None
        told = {"significant": test and test.significant, "p_holm": test and test.adjusted}
        return {"name": name, "cell": cell, **told, "effect": numbers(best.lead)}

    rows = []
    for best in (each for group in groups for each in best_cells(group)):
        group, epsilon = best.group, best.epsilon if math.isfinite(best.epsilon) else None
        row: dict[str, Any] = {"group": group.title, "model": best.model, "delta": best.delta, "epsilon": epsilon}
        if best.place is not None:
            row |= {"best": group.names[best.place], "cell": str(best.cell.row["cell"])}
            row |= numbers(best.cell.estimate) or {}
            row |= {"next_best": next_row(best), "cost_of_privacy": numbers(best.cost)}
        rows.append(row)
    return rows
