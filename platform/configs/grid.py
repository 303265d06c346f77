"""Grids in Ray Tune's `grid_search` notation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from dprl.platform.errors import UserError, broken_rule, dotted

GRID = "grid_search"
MOST_CELLS = 10_000


def expand(raw: object, path: str = "") -> list[Any]:
    """Return the config of each point of the grids in `raw`, in the file's order; the last grid varies fastest.

    A grid is a mapping with the key `grid_search` and a list of alternatives; they may contain grids. Keys beside
    `grid_search` belong to every alternative, so that keys can vary together.

    >>> expand({"seed": 1, "grid_search": [{"episodes": 10}, {"episodes": {"grid_search": [20, 30]}}]})
    [{'seed': 1, 'episodes': 10}, {'seed': 1, 'episodes': 20}, {'seed': 1, 'episodes': 30}]
    """
    if isinstance(raw, list):
        return _product([expand(item, f"{path}[{i}]") for i, item in enumerate(raw)], path)
    if not isinstance(raw, dict):
        return [raw]
    if raw.keys() == {GRID}:
        return _alternatives(raw, path)
    columns = []
    for key, value in raw.items():
        if key == GRID:
            columns.append([_checked(choice, raw, path) for choice in _alternatives(raw, path)])
        else:
            columns.append([{key: point} for point in expand(value, dotted(path, key))])
    return [{key: value for part in parts for key, value in part.items()} for parts in _product(columns, path)]


def _product(columns: list[list[Any]], path: str) -> list[list[Any]]:
    """Return every combination of one value of each column. Raises UserError for too many."""
    points = list(itertools.islice(itertools.product(*columns), MOST_CELLS + 1))
    if len(points) > MOST_CELLS:
        raise UserError(f"{path or 'config'}: the grid must have at most {MOST_CELLS} cells, got more; split the sweep")
    return list(map(list, points))


def _alternatives(raw: Mapping[Any, Any], path: str) -> list[Any]:
    """Return the points of all alternatives of the grid in `raw`. Raises UserError."""
    choices, here = raw[GRID], dotted(path, GRID)
    if not isinstance(choices, list) or not choices:
        raise broken_rule(here, "must be a list of alternatives, at least one", choices, "write e.g. [1, 2]")
    return [point for i, choice in enumerate(choices) for point in expand(choice, f"{here}[{i}]")]


def _checked(choice: object, raw: Mapping[Any, Any], path: str) -> Mapping[Any, Any]:
    """Return an alternative that has keys beside its grid. Raises UserError if it is no mapping or repeats one."""
    here = dotted(path, GRID)
    if not isinstance(choice, dict):
        rule, remedy = "must have mappings as alternatives, with keys beside it", "e.g. {episodes: 10, seeds: 2}"
        raise broken_rule(here, rule, choice, f"write {remedy}")
    for key in choice:
        if key in raw:
            raise broken_rule(dotted(path, key), f"must not be given both beside {here} and in it", key, "keep one")
    return choice
