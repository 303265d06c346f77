"""Queries from the JSON of a certificate: the facts from which its releases are computed."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from dprl.privacy.base import LedgerError
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS, ExactCounter
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_base import RawGram
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.queries.correlated_gradients import CorrelatedGradientQuery
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies, CountFamily, PooledFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import CountedStatistics, StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.sampled_gradients import SampledGradientQuery
from dprl.privacy.query import Query
from dprl.privacy.schedule import ReleaseSchedule

_QUERIES = (CountQuery, GradientQuery, CorrelatedGradientQuery, SampledGradientQuery, StatisticsQuery)
_PARTS = (
    *(CountEncoding, CountFamilies, PooledFamilies, CountFamily, NoiseSpec, ReleaseSchedule),
    *(StatisticsLayout, CountedStatistics, GramRelease, RawGram, RawVector),
    *(RandomizedResponse, UnaryEncoder, ExactCounter),
)


def query_from_json(found: Mapping[str, Any]) -> Query:
    """Return the query that `described` wrote, without functions, on which no number of a certificate depends.

    Raises LedgerError for a class that is not registered, ValueError for a field of another type, and the errors of the
    query's own classes.
    """
    return cast("Query", _read(found, Query, "query"))


def _read(found: Any, hint: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    if isinstance(found, Mapping):
        kind = _class_of(found.get("class"), path)
        hints, given = get_type_hints(kind), {name: each for name, each in found.items() if name != "class"}
        value = kind(**{name: _read(each, hints.get(name, object), f"{path}.{name}") for name, each in given.items()})
    elif isinstance(found, list | tuple):
        inner = next((args[0] for args in map(get_args, (hint, *get_args(hint))) if args), object)
        value = tuple(_read(each, inner, f"{path}[{i}]") for i, each in enumerate(found))
    else:
        value = float(found) if found == "inf" and not _fits(found, hint) else found
    if not _fits(value, hint):
        raise ValueError(f"{path} must be of the type {getattr(hint, '__name__', hint)}, got {found!r}")
    return value


def _class_of(name: object, path: str) -> type[Any]:
    classes = (*_QUERIES, *_PARTS, *COUNTERS.values(), *EXACT_COUNTERS.values(), *MECHANISMS.values())
    for each in classes:
        if each.__name__ == name:
            return each
    raise LedgerError(f"{path}.class must be one of dprl, got {name!r}; correct it")


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - a type, or a form of typing
    """Whether a value has a field's type; integers also count as floats, and bools are no numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if hint in (int, float, bool):
        return type(value) is hint or (hint is float and type(value) is int)
    return isinstance(hint, type) and isinstance(value, hint)
