"""Comparisons of cells, declared before any result is seen, and the best cell at each privacy budget.

Cells of one environment, length and headline are a group. Two cells of a group are compared if they differ in one
factor only: the algorithm, at the same privacy and noise; the noise, for one algorithm at the same privacy; or epsilon,
between neighbouring values. The tests of a group are one family: Welch's test, on logs where values are positive, with
Holm's adjustment.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import needed_keys, varies
from dprl.platform.results.cells import (
    ENV_NAME,
    EPISODES,
    NAMED,
    NOISE,
    PRIVACY,
    Cell,
    algorithm_name,
    environment_keys,
    environment_text,
    plain,
    setting_text,
    settings_in,
)
from dprl.platform.results.inference import Effect, effect, holm, scale_of
from dprl.platform.results.summary import unit_of

Kind = Literal["algorithm", "noise", "epsilon"]
"""The factor in which two cells differ."""
Pair = tuple[int, int]
"""The places of two cells in their group, the smaller first."""
MOST_PAIRS = 200
"""With more comparisons at one privacy, none is declared: after adjustment no test would have power."""
_OTHER_SETTINGS = ("release", "audit", "seed", "seeds")
"""Settings outside of the sections, besides the number of episodes."""
SAME_EPSILON = 1.0 + 1e-6
"""Certified epsilons may exceed a claim by rounding errors."""


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
    def factors(self) -> pd.DataFrame:
        """The factors of every cell, a row for each place.

        algorithm: its name, and its varying settings if all cells have one algorithm; noise that follows from them is
        then no factor of its own. constants: the settings of several algorithms. noise: settings of privacy besides
        model, epsilon and delta. epsilon: the claimed one if the claim holds, else the certified one, rounded; infinite
        without privacy. ran: the noise of the run, given by the other factors and the number of releases.
        """
        rows = [cell.row for cell in self.cells]
        keys = [key for key in dict.fromkeys(key for row in rows for key in row) if varies(key, rows)]
        constants = [key for key in keys if key.startswith("algorithm.") and key != "algorithm.name"]
        noise = [key for key in keys if key.startswith(NOISE) and key not in PRIVACY]
        alone = len({cell.algorithm for cell in self.cells}) == 1
        found = []
        for cell in self.cells:
            settings, claimed = settings_in(cell.row, constants), float(cell.row.get("claimed_epsilon", 0.0))
            holds = cell.proved <= claimed * SAME_EPSILON
            found.append(
                {
                    "algorithm": (cell.algorithm, *settings) if alone else (cell.algorithm,),
                    "constants": () if alone else settings,
                    "noise": settings_in(cell.row, noise) if cell.private else (),
                    "model": cell.model,
                    "delta": cell.delta if cell.private else 0.0,
                    "epsilon": claimed if holds else float(f"{cell.proved:.4g}"),
                    "ran": () if alone or not cell.private else _noise_of(cell),
                }
            )
        return pd.DataFrame(found)

    @cached_property
    def comparisons(self) -> dict[Pair, Comparison]:
        """The declared comparisons by the places of their cells: one family of tests."""
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


def groups_of(cells: Sequence[Cell]) -> list[Group]:
    """Return the groups of `cells`, in their order."""
    rows = [cell.row for cell in cells]
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key.startswith("env.")]
    members: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        same = (*(plain(cell.row.get(key)) for key in keys), cell.row[EPISODES], cell.metric)
        members.setdefault(same, []).append(cell)
    told, found = environment_keys(rows), []
    for alike in members.values():
        row, metric = alike[0].row, alike[0].metric
        title = environment_text(row, [ENV_NAME, *told], " ")
        sign = 0.0 if metric is None else 1.0 if metric.better == "low" else -1.0
        ranks = np.argsort([sign and sign * cell.estimate.value for cell in alike], kind="stable")
        found.append(Group(title, metric, tuple(alike[i] for i in ranks)))
    return found


def naming_keys(cells: Sequence[Cell]) -> list[str]:
    """Return the fewest settings that distinguish the cells of a group, besides those that are in every name."""
    rows = [cell.row for cell in cells]
    keys = dict.fromkeys(key for row in rows for key in row)
    known = (key for key in keys if ("." in key and not key.startswith("env.")) or key in _OTHER_SETTINGS)
    return needed_keys(rows, [key for key in known if key not in NAMED and varies(key, rows)], NAMED)


# ---- declared comparisons ----


def declared_pairs(factors: pd.DataFrame) -> dict[Pair, Kind]:
    """Return the declared comparisons of a group: pairs of places, with the factor that differs.

    Comparisons of algorithms are not declared if one privacy has more than MOST_PAIRS of them, nor comparisons of noise
    if one algorithm and privacy has. Cells that ask for privacy and prove no finite epsilon are in none.
    """
    tested = factors[(factors["model"] == "none") | np.isfinite(factors["epsilon"])]
    privacy, settings = ["model", "delta", "epsilon"], ["algorithm", "constants"]
    kinds: dict[Pair, Kind] = {}
    for _, alike in tested.groupby([*privacy, "noise", "ran"], sort=False):
        pairs = _pairs_of_algorithms(alike["algorithm"].to_dict(), {i: dict(x) for i, x in alike["constants"].items()})
        kinds |= dict.fromkeys(pairs if len(pairs) <= MOST_PAIRS else [], "algorithm")
    for _, alike in tested.groupby([*privacy, *settings], sort=False):
        noise = alike["noise"].to_dict()
        pairs = [(i, j) for i, j in itertools.combinations(noise, 2) if noise[i] != noise[j]]
        kinds |= dict.fromkeys(pairs if len(pairs) <= MOST_PAIRS else [], "noise")
    for _, alike in tested.groupby([*settings, "noise", "model", "delta"], sort=False):
        levels = [level.index for _, level in alike.groupby("epsilon")]
        for lower, higher in itertools.pairwise(levels):
            kinds |= {(min(pair), max(pair)): "epsilon" for pair in itertools.product(lower, higher)}
    return dict(sorted(kinds.items()))


def _pairs_of_algorithms(names: Mapping[int, Hashable], constants: Mapping[int, Mapping[str, str]]) -> list[Pair]:
    """Return the pairs of cells with different algorithms and equal shared constants.

    Two cells with other constants are a pair if neither has such a partner of the other's algorithm: so those that were
    tuned, each with constants of its own, are compared as they were tuned.
    """
    equal, others = list[Pair](), list[Pair]()
    for i, j in itertools.combinations(names, 2):
        if names[i] != names[j]:
            shared = constants[i].keys() & constants[j].keys()
            (equal if all(constants[i][key] == constants[j][key] for key in shared) else others).append((i, j))
    served = {(i, names[j]) for i, j in equal} | {(j, names[i]) for i, j in equal}
    return equal + [(i, j) for i, j in others if not {(i, names[j]), (j, names[i])} & served]


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
    alike = [(i, cell) for i, cell in enumerate(group.cells) if cell.model == model]
    within = [i for i, cell in alike if not cell.private or (cell.proved <= most and cell.delta <= delta)]
    if not within:
        return Best(group, model, epsilon, delta)

    best = within[0]
    tested = {i: found for (first, i), found in group.comparisons.items() if first == best and found.kind != "epsilon"}
    rival = next((i for i in within if i in tested), None)
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
    cell, settings = group.cells[place], [*zip(group.factors["algorithm"], group.factors["constants"], strict=True)]
    free = []
    for i, other in enumerate(group.cells):
        alike = other.ball is None or cell.ball is None or other.ball == cell.ball
        if not other.private and other.algorithm == cell.algorithm and alike:
            if settings[i] == settings[place]:
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
            one, other, better = group.cells[i], group.cells[j], ""
            if found.significant and group.metric is not None:
                # By the effect that was tested: the geometric mean of a cell may be lower and its tested mean higher.
                lower = found.value < (1.0 if found.scale == "log" else 0.0)
                better = group.names[i if lower == (group.metric.better == "low") else j]
            row: list[Any] = [group.title, group.names[i], group.names[j], str(one.row["cell"]), str(other.row["cell"])]
            row += [group.metric and group.metric.name, float(one.finals.mean() - other.finals.mean()), found.p_value]
            row += [found.adjusted, found.significant, better, i == 0, kind]
            rows.append([*row, found.scale, found.value, found.lower, found.upper])
    columns = ["group", "first", "second", "first_cell", "second_cell", "metric", "difference", "p_value", "p_holm"]
    columns += ["told_apart", "better", "with_the_best", "kind", "scale", "effect", "effect_lower", "effect_upper"]
    return pd.DataFrame(rows, columns=columns)


def best_frame(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per budget of every group: the best cell and its headline, missing if no cell is within it.

    next_...: the next best cell, and its effect against the best one. cost_...: the effect of the best cell against the
    same algorithm without privacy.
    """
    rows = []
    for best in (each for group in groups for each in best_cells(group)):
        group = best.group
        row: dict[str, Any] = {"group": group.title, "model": best.model, "delta": best.delta, "epsilon": best.epsilon}
        if best.place is not None:
            row |= {"best": group.names[best.place], "cell": str(best.cell.row["cell"]), **best.cell.estimate._asdict()}
        if best.next_best is not None and best.lead is not None:
            row |= {"next_best": group.names[best.next_best], "next_cell": group.cells[best.next_best].row["cell"]}
            row |= {f"next_{key}": value for key, value in best.lead._asdict().items()}
        if best.cost is not None:
            row |= {f"cost_{key}": value for key, value in best.cost._asdict().items() if key != "adjusted"}
        rows.append(row)
    return pd.DataFrame(rows)
