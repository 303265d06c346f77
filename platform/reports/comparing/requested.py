"""Comparisons that a user asks for, in addition to those that every report declares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from dprl.platform.errors import broken_rule, suggestion
from dprl.platform.reports.comparing.groups import Group

_FEWEST_DIGITS = 4
"""Digits of a cell's digest that suffice to name it."""


def with_comparison(groups: Sequence[Group], one: str, other: str) -> list[Group]:
    """Return the groups with the comparisons of `one` and `other` declared, too. Raises UserError.

    Each is the name of an algorithm, the name or label of a cell, or the first digits of its digest. Two cells are
    compared whatever they differ in; if a name has several cells, those with the same privacy and noise are compared.
    """
    for name in (one, other):
        if not any(_places(group, name) for group in groups):
            known = sorted({str(cell.row["algorithm.name"]) for group in groups for cell in group.cells})
            rule = "must be algorithms, labels or digests of cells"
            raise broken_rule("--compare", rule, name, suggestion(name, known))
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
    names = [(row["algorithm.name"], row.get("label"), group.names[i]) for i, row in enumerate(rows)]
    return by_digest or [i for i, known in enumerate(names) if name in known]
