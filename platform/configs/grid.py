"""Grids in Ray Tune's `grid_search` notation."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dprl.platform.errors import UserError, broken_rule, dotted

GRID = "grid_search"
MOST_CELLS = 10_000
_DEEPEST = 20
_MOST_VALUES = 200_000
_MISSPELT = 0.8


def expand(raw: object, path: str = "", depth: int = 0) -> list[Any]:
    """Return the config of each point of the grids in `raw`, in the file's order; the last grid varies fastest.

    A grid is a mapping with the single key `grid_search` and a list of alternatives; they may contain grids. At the top
    of a config, it may have other keys beside it; they apply to every alternative, and sections can vary together.
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
    if not path:
        return _expand_config(raw, path, depth, {})
    if GRID in raw:
        return _alternatives(raw, path, depth)
    columns = [_column(key, value, path, depth) for key, value in raw.items()]
    return _bounded(itertools.product(*columns), path, lambda point: dict(zip(raw, point, strict=True)))


def require_few_values(raw: object) -> None:
    """Raise UserError for too many values for a sweep: with aliases of aliases, ten short lines make 9^9."""
    waiting, values = [(raw, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > _MOST_VALUES:
            raise UserError(f"must have at most {_MOST_VALUES} values, got more; remove aliases or split the sweep")
        if depth <= _DEEPEST and isinstance(value, list | dict):
            inside = value.values() if isinstance(value, dict) else value
            waiting.extend((one, depth + 1) for one in itertools.islice(inside, _MOST_VALUES))


def alternatives_with(raw: Mapping[str, Any], key: str, depth: int = 0) -> list[dict[str, Any]]:
    """Return the alternatives of the top-level grid of `raw` that give `key`, at any depth; none if `raw` does."""
    choices = raw.get(GRID)
    if key in raw or not isinstance(choices, list) or depth > _DEEPEST:
        return []
    found: list[dict[str, Any]] = []
    for choice in choices:
        if isinstance(choice, dict):
            found += [choice] if key in choice else alternatives_with(choice, key, depth + 1)
    return found


def _expand_config(raw: Mapping[Any, Any], path: str, depth: int, outer: Mapping[object, str]) -> list[Any]:
    """Return the points of a whole config, or of the part of one that is an alternative of its top-level grid.

    outer: the keys beside that grid and their places; the alternative may not repeat them.
    """
    if depth > _DEEPEST:
        raise UserError(f"{path}: may be nested {_DEEPEST} deep, got more; does it contain itself?")
    for key in raw:
        if key in outer and key != GRID:
            what = "section" if isinstance(raw[key], dict) else "key"
            both = f"the {what} `{key}` is given both {outer[key]} and in {path}"
            raise UserError(f"{dotted(path, key)}: {both}; keep one of the two")
    here = dict.fromkeys(raw, f"in {path}" if path else "at the top")
    columns = []
    for key, value in raw.items():
        if key == GRID:
            columns.append(_bounded(_joint_points(raw, path, depth, {**outer, **here}), path, lambda point: point))
        else:
            columns.append([{key: point} for point in _column(key, value, path, depth)])
    return _bounded(itertools.product(*columns), path, lambda parts: {k: v for part in parts for k, v in part.items()})


def _joint_points(raw: Mapping[Any, Any], path: str, depth: int, outer: Mapping[object, str]) -> Iterator[Any]:
    """Yield the points of a grid over mappings of sections."""
    here = dotted(path, GRID)
    for i, choice in enumerate(_choices(raw, here)):
        if not isinstance(choice, dict):
            rule, remedy = "must be a mapping of sections", "write e.g. {algorithm: {...}, privacy: {...}}"
            raise broken_rule(f"{here}[{i}]", rule, choice, remedy)
        yield from _expand_config(choice, f"{here}[{i}]", depth + 1, outer)


def _alternatives(raw: Mapping[Any, Any], path: str, depth: int) -> list[Any]:
    """Return the points of one `grid_search` below a key."""
    here = dotted(path, GRID)
    siblings = [str(key) for key in raw if key != GRID]
    if siblings:
        remedy = "move the others into each alternative"
        raise broken_rule(here, "must be the only key of its mapping", ", ".join(siblings), remedy)
    points = (expand(choice, f"{here}[{i}]", depth + 1) for i, choice in enumerate(_choices(raw, here)))
    return _bounded(itertools.chain.from_iterable(points), path, lambda point: point)


def _choices(raw: Mapping[Any, Any], here: str) -> list[Any]:
    """Return the alternatives of the grid at dotted path `here`, at least one."""
    choices = raw[GRID]
    if not isinstance(choices, list):
        raise broken_rule(here, "must be a list of alternatives", choices, "write e.g. {grid_search: [1, 2]}")
    if not choices:
        remedy = "a grid of nothing runs nothing: fill it or remove it"
        raise broken_rule(here, "must have at least one alternative", choices, remedy)
    return choices


def _column(key: object, value: object, path: str, depth: int) -> list[Any]:
    """Return the points of one key's value; a misspelt `grid_search` is an error."""
    if difflib.SequenceMatcher(None, str(key).lower(), GRID).ratio() > _MISSPELT:
        raise UserError(f"{dotted(path, key)}: unknown key; did you mean {GRID!r}?")
    return expand(value, f"{path}.{key}" if path else str(key), depth + 1)


def _bounded(points: Iterator[Any], path: str, make: Callable[[Any], Any]) -> list[Any]:
    """Return the points as a list; too many points are an error, raised before memory runs out."""
    found = [make(point) for point in itertools.islice(points, MOST_CELLS + 1)]
    if len(found) > MOST_CELLS:
        raise UserError(f"{path or 'config'}: the grid must have at most {MOST_CELLS} cells, got more; split the sweep")
    return found
