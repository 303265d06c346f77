"""Grids in Ray Tune's `grid_search` notation."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dprl.platform.errors import UserError, broken_rule

GRID = "grid_search"
MOST_CELLS = 10_000
_DEEPEST = 20
_MISSPELT = 0.8


def expand(raw: object, path: str = "", depth: int = 0) -> list[Any]:
    """Return what `raw` says for each point of its grids, in the file's order, the last grid varying fastest.

    A grid is a mapping with the one key `grid_search` and a list of alternatives, which may hold grids too.
    """
    if depth > _DEEPEST:
        raise UserError(f"{path}: may be nested {_DEEPEST} deep, got more; does it contain itself?")
    if isinstance(raw, list):
        return _bounded(
            itertools.product(*(expand(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(raw))),
            path,
            list,
        )
    if not isinstance(raw, dict):
        return [raw]
    if GRID in raw:
        return _alternatives(raw, path, depth)
    for key in raw:
        if difflib.SequenceMatcher(None, str(key).lower(), GRID).ratio() > _MISSPELT:
            raise UserError(f"{path}.{key}: unknown key; did you mean {GRID!r}?".lstrip("."))
    columns = [expand(value, f"{path}.{key}" if path else str(key), depth + 1) for key, value in raw.items()]
    return _bounded(itertools.product(*columns), path, lambda point: dict(zip(raw, point, strict=True)))


def _alternatives(raw: Mapping[Any, Any], path: str, depth: int) -> list[Any]:
    """Return the points of one `grid_search`."""
    here = f"{path}.{GRID}" if path else GRID
    siblings = [str(key) for key in raw if key != GRID]
    if siblings:
        remedy = "move the others into each alternative" if path else "move them below the keys that vary"
        raise broken_rule(here, "must be the only key of its mapping", ", ".join(siblings), remedy)
    choices = raw[GRID]
    if not isinstance(choices, list):
        raise broken_rule(here, "must be a list of alternatives", choices, "write e.g. {grid_search: [1, 2]}")
    if not choices:
        raise broken_rule(
            here,
            "must have at least one alternative",
            choices,
            "a grid of nothing runs nothing: fill it or remove it",
        )
    points = (expand(choice, f"{here}[{i}]", depth + 1) for i, choice in enumerate(choices))
    return _bounded(itertools.chain.from_iterable(points), path, lambda point: point)


def _bounded(points: Iterator[Any], path: str, make: Callable[[Any], Any]) -> list[Any]:
    """Return the points as a list; more than a sweep can hold is an error before memory runs out."""
    found = [make(point) for point in itertools.islice(points, MOST_CELLS + 1)]
    if len(found) > MOST_CELLS:
        raise UserError(f"{path or 'config'}: the grid must have at most {MOST_CELLS} cells, got more; split the sweep")
    return found
