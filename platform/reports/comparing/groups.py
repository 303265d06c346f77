"""Cells that can be compared: those of one environment, one length and one headline."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dprl.algorithms import Metric
from dprl.platform.configs.varying import needed_keys, varies
from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reports.cell_texts import (
    DIGESTS,
    ENV_NAMING,
    NAMED,
    Row,
    algorithm_name,
    environment_keys,
    environment_name,
    plain,
    setting_text,
)
from dprl.platform.reports.comparing.declared import Factors, Kind, declared_pairs, factors_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.inference.effects import Effect, effect, scale_of
from dprl.platform.reports.inference.pairs import Pair, family
from dprl.platform.reports.records import unit_of
from dprl.platform.reports.verdicts import privacy_text
from dprl.platform.results.summary import standing

_FEWEST_DIGITS = 4
"""Digits of a cell's digest that suffice to name it."""


class _Comparison(NamedTuple):
    """Test declared in advance. kind: the factor that differs between the cells. test: of the cells by their places."""

    kind: Kind
    test: Pair


@dataclass(frozen=True)
class Group:
    """Cells that differ in algorithm, privacy or noise only, the best first, and those without a rank last.

    title: the environment, and the settings specific to this group. metric: their headline. asked: pairs that a user
    wants compared, by their places.
    """

    title: str
    metric: Metric | None
    cells: tuple[ReportCell, ...]
    asked: tuple[tuple[int, int], ...] = ()

    @property
    def unit(self) -> str:
        """The word for an episode here."""
        return unit_of(cell.row for cell in self.cells)

    @property
    def episodes(self) -> int:
        """Number of episodes of a run."""
        return int(self.cells[0].row["episodes"])

    @cached_property
    def names(self) -> dict[int, str]:
        """Every cell's name within the group, by its place, each one different."""
        by_algorithm: dict[object, list[ReportCell]] = {}
        for cell in self.cells:
            by_algorithm.setdefault(cell.row["algorithm.name"], []).append(cell)
        keys = {algorithm: naming_keys(cells) for algorithm, cells in by_algorithm.items()}
        names = [_cell_name(cell, keys[cell.row["algorithm.name"]]) for cell in self.cells]
        return {
            i: name if names.count(name) == 1 else f"{name} [{str(cell.row['cell'])[:6]}]"
            for i, (cell, name) in enumerate(zip(self.cells, names, strict=True))
        }

    @cached_property
    def factors(self) -> list[Factors]:
        """The factors of every cell, by its place."""
        return factors_of(self.cells)

    @cached_property
    def comparisons(self) -> dict[tuple[int, int], _Comparison]:
        """The declared comparisons by the places of their cells, the smaller first: one family of tests."""
        if self.metric is None:
            return {}
        kinds: dict[tuple[int, int], Kind] = declared_pairs(self.factors)
        kinds |= {(min(pair), max(pair)): "compare" for pair in self.asked if (min(pair), max(pair)) not in kinds}
        pairs, finals = list(kinds), [cell.finals for cell in self.cells]
        log = self.cells[0].positive
        tests = family(finals, pairs, log=log)
        return {pair: _Comparison(kinds[pair], test) for pair, test in zip(pairs, tests, strict=True)}

    def comparison(self, one: int, other: int) -> _Comparison | None:
        """Return the declared comparison of two cells, None if there is none."""
        return self.comparisons.get((min(one, other), max(one, other)))

    def effect(self, one: int, other: int) -> Effect:
        """Return the effect of a cell against another one, declared or not; its p-value is for a single test."""
        first, second = self.cells[one], self.cells[other]
        scale = scale_of(first.finals, second.finals) if first.positive else "linear"
        return effect(first.finals, second.finals, scale)


def groups_of(cells: Sequence[ReportCell]) -> list[Group]:
    """Return the groups of `cells`, in their order."""
    flats = [cell.row for cell in cells]
    keys = [key for key in dict.fromkeys(key for flat in flats for key in flat) if key.startswith("env.")]
    hidden = ENV_NAMING - (DIGESTS & {*environment_keys(flats)})
    told = [key for key in keys if key not in hidden and varies(key, flats)]
    found: dict[tuple[object, ...], list[ReportCell]] = {}
    for cell in cells:
        key = (*(plain(cell.row.get(name)) for name in keys), cell.row["episodes"], cell.metric)
        found.setdefault(key, []).append(cell)
    long = len({cell.row["episodes"] for cell in cells}) > 1
    return [_group(members, told, long=long) for members in found.values()]


def naming_keys(cells: Sequence[ReportCell]) -> list[str]:
    """Return the fewest settings that distinguish the cells of a group, besides those that are in every name."""
    flats = [cell.row for cell in cells]
    keys = dict.fromkeys(key for flat in flats for key in flat)
    known = (key for key in keys if ("." in key and not key.startswith("env.")) or key in ("release", "audit"))
    return needed_keys(flats, [key for key in known if key not in NAMED and varies(key, flats)], NAMED)


def _cell_name(cell: ReportCell, keys: Sequence[str]) -> str:
    """Return algorithm, the settings of these `keys`, trust model, proved epsilon and verdict.

    A cell's label replaces algorithm and settings, an algorithm's label replaces its name.
    """
    settings = [setting_text(key, cell.row[key]) for key in keys if key in cell.row]
    name = str(cell.row.get("cell_label", " ".join([algorithm_name(cell.row), *settings])))
    return f"{name}, {standing_text(cell)}"


def standing_text(cell: ReportCell) -> str:
    """Return the trust model, the epsilon that is proved, never one that is only claimed, and the verdict."""
    text, stands = privacy_text(cell.certificate), standing(cell.certificate)
    return f"{text}, holds" if stands.verdict == "holds" and not stands.refuted else text


def _group(members: Sequence[ReportCell], told: Sequence[str], *, long: bool) -> Group:
    row = members[0].row
    words = [environment_name(row), *(setting_text(key, row[key]) for key in told if row.get(key, "") != "")]
    if long:
        words.append(f"K={int(row['episodes']):,}")
    metric = members[0].metric
    if metric is None:
        return Group(" ".join(words), None, tuple(members))
    sign = 1.0 if metric.better == "low" else -1.0
    values = [sign * cell.estimate.value for cell in members]
    return Group(" ".join(words), metric, tuple(members[i] for i in np.argsort(values, kind="stable")))


def algorithm_names(row: Row) -> set[str]:
    """Return the name and the label of a cell's algorithm."""
    return {str(row["algorithm.name"]), algorithm_name(row)}


def with_comparison(groups: Sequence[Group], one: str, other: str) -> list[Group]:
    """Return the groups with the comparisons of `one` and `other` declared, too. Raises UserError.

    Each is the name or label of an algorithm, the name or label of a cell, or the first digits of its digest. Two cells
    are compared whatever they differ in; if a name has several cells, those with the same privacy and noise are
    compared.
    """
    rows = [cell.row for group in groups for cell in group.cells]
    for name in (one, other):
        if not any(_places(group, name) for group in groups):
            rule = "must be algorithms, labels or digests of cells"
            known = sorted({known for row in rows for known in algorithm_names(row)})
            labels = dict.fromkeys(str(row["label"]) for row in rows if "label" in row)
            raise broken_rule("--compare", rule, name, suggestion(name, [*known, *labels]))
    asked = [replace(group, asked=tuple(_pairs(group, one, other))) for group in groups]
    if not any(group.asked for group in asked):
        rule = "must have cells of the same environment, privacy and noise"
        raise broken_rule("--compare", rule, f"{one}, {other}", "name two cells by their digests in report.csv")
    return asked


def _pairs(group: Group, one: str, other: str) -> list[tuple[int, int]]:
    first, second = _places(group, one), _places(group, other)
    found = [(i, j) for i, j in itertools.product(first, second) if i != j]
    if len(found) == 1:
        return found
    return [(i, j) for i, j in found if _conditions(group, i) == _conditions(group, j)]


def _conditions(group: Group, place: int) -> tuple[object, ...]:
    factors = group.factors[place]
    return factors.budget, factors.noise, factors.ran


def _places(group: Group, name: str) -> list[int]:
    """Return the places of the cells of that name."""
    rows = [cell.row for cell in group.cells]
    by_digest = [i for i, row in enumerate(rows) if len(name) >= _FEWEST_DIGITS and str(row["cell"]).startswith(name)]
    names = [{*algorithm_names(row), row.get("label"), group.names[i]} for i, row in enumerate(rows)]
    return by_digest or [i for i, known in enumerate(names) if name in known]
