"""Grids of parameters in which all pairs of values occur: far fewer cases than the product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def every_pair(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows of the product in which any two values of different axes occur together, chosen greedily."""
    rows = list(product(*(range(len(axis)) for axis in axes)))
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    missing: set[Any] = set().union(*pairs.values())
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        missing -= pairs[best]
        chosen.append(tuple(axis[i] for axis, i in zip(axes, best, strict=True)))
    return chosen


def paired(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Return a mark that parametrizes a test by `every_pair` of the axes, named after trust models where it can."""
    rows = every_pair(*axes.values())
    return pytest.mark.parametrize(tuple(axes), rows, ids=lambda value: getattr(value, "model", None))
