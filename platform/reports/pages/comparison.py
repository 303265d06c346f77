"""Episodes to half regret: comparisons of algorithms at equal noise, and of noises for one algorithm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dprl.platform.reports.cell_texts import (
    Row,
    Scales,
    by_environment,
    delta_text,
    epsilon_text,
    scales,
    scales_text,
    settings_text,
    varying_settings,
)
from dprl.platform.reports.documents.blocks import Block, Heading, Paragraph, Section, Table
from dprl.platform.reports.tables import episode_reached

_ENVIRONMENT, _ALGORITHM, _SETTINGS, _MODEL, _NOISE, _NOISES = (
    "environment",
    "algorithm",
    "settings",
    "trust model",
    "noise",
    "noise: from, to",
)
_TEXTS = (_ENVIRONMENT, _ALGORITHM, _SETTINGS, _MODEL, _NOISE, _NOISES)
_PRIVACY = (_MODEL, "certified \u03b5", "\u03b4")
_SECTIONS = ("privacy.", "noise.")
_OF_ALGORITHM = "algorithm."
_BOUNDS = """\
Both medians are in brackets. `> x`: the first had not halved when its run ended; `< x`: the second had not."""


class _Pair(NamedTuple):
    """Two cells of equal environment, privacy and settings of the algorithm. key: the columns that name the pair."""

    key: tuple[str, ...]
    first: Row
    second: Row


def halving_comparison(cells: Sequence[Row], one: str, other: str) -> list[Block]:
    """Return sections on algorithm `one` against `other`, and on the noise of each; [] without any pair.

    Algorithms are compared only at equal trust model, certified epsilon, delta, noise, scales and shared settings, and
    noises only for one algorithm with equal settings, so that no ratio mixes two effects.
    """
    sections = (
        _section(
            f"{one} against {other} at equal noise",
            f"Median episodes to half regret of {other}, divided by those of {one}: above 1, {one} needs fewer.",
            (_ENVIRONMENT, _SETTINGS, *_PRIVACY, _NOISE),
            list(_algorithm_pairs(cells, one, other)),
        ),
        _section(
            "Effect of the noise at equal algorithms",
            "Median episodes to half regret with the first noise, divided by those with the second: above 1, the "
            "second noise needs fewer. Both certify the same \u03b5 and \u03b4.",
            (_ENVIRONMENT, _ALGORITHM, _SETTINGS, *_PRIVACY, _NOISES),
            list(_noise_pairs(cells)),
        ),
    )
    return [section for section in sections if section is not None]


def _algorithm_pairs(cells: Sequence[Row], one: str, other: str) -> Iterator[_Pair]:
    for environment, settings, found in _private(cells):
        for noise, alike in found:
            ours, theirs = ([cell for cell in alike if cell["algorithm.name"] == name] for name in (one, other))
            for cell, rival in itertools.product(ours, theirs):
                if _alike(cell, rival, settings):
                    told = settings_text({**rival, **cell}, settings, (_OF_ALGORITHM,))
                    yield _Pair((environment, told, *_privacy(cell), noise or "default"), rival, cell)


def _noise_pairs(cells: Sequence[Row]) -> Iterator[_Pair]:
    for environment, settings, found in _private(cells):
        for (before, firsts), (after, seconds) in itertools.combinations(found, 2):
            for first, second in itertools.product(firsts, seconds):
                name = str(first["algorithm.name"])
                if name == second["algorithm.name"] and _alike(first, second, settings):
                    told = settings_text(first, settings, (_OF_ALGORITHM,))
                    yield _Pair((environment, name, told, *_privacy(first), f"{before}, {after}"), first, second)


def _private(cells: Sequence[Row]) -> Iterator[tuple[str, list[str], list[tuple[str, list[Row]]]]]:
    """Yield each environment, its varying settings of algorithms, and its private cells with a halving by noise.

    Noises are in the order of `_rank`.
    """
    for environment, members in by_environment(cells).items():
        varying = varying_settings(members)
        by_noise: dict[str, list[Row]] = {}
        for cell in members:
            if cell["privacy.model"] != "none" and "halved_at" in cell:
                by_noise.setdefault(settings_text(cell, varying, _SECTIONS), []).append(cell)
        settings = [key for key in varying if key.startswith(_OF_ALGORITHM)]
        yield environment, settings, [(noise, sorted(alike, key=_rank)) for noise, alike in by_noise.items()]


def _section(title: str, meaning: str, headers: Sequence[str], pairs: Sequence[_Pair]) -> Section | None:
    """Return a table with one row per key and one column per setting of the scales; None without pairs."""
    columns: list[Scales] = []
    rows: dict[tuple[str, ...], dict[Scales, list[str]]] = {}
    for pair in pairs:
        column = scales(pair.first)
        rows.setdefault(pair.key, {}).setdefault(column, []).append(_ratio(pair.first, pair.second))
        if column not in columns:
            columns.append(column)
    if not rows:
        return None
    lines = [[*key, *("; ".join(row.get(column, [])) for column in columns)] for key, row in rows.items()]
    told = Paragraph(" ".join(f"{meaning} {_BOUNDS}".split()), "note")
    table = Table.of_texts([*headers, *map(scales_text, columns)], lines, _TEXTS)
    return Section([Heading(title), told, table.without_empty_columns()])


def _privacy(cell: Row) -> tuple[str, str, str]:
    return str(cell["privacy.model"]), epsilon_text(cell), delta_text(cell)


def _alike(one: Row, other: Row, settings: Sequence[str]) -> bool:
    """Whether privacy, scales and shared settings are equal."""
    both = [key for key in settings if key in one and key in other]
    asked = ((*_privacy(cell), scales(cell), *(cell[key] for key in both)) for cell in (one, other))
    return next(asked) == next(asked)


def _rank(cell: Row) -> tuple[object, ...]:
    privacy = cell["privacy.model"], cell["proved_epsilon"], float(cell.get("claimed_delta", 0.0))
    return cell["algorithm.name"], *privacy


def _ratio(first: Row, second: Row) -> str:
    """Return the ratio of the medians, first to second, or a bound of it."""
    reached = [float(cell["halved_at"]) for cell in (first, second)]
    shown = " / ".join(episode_reached(cell["halved_at"], int(cell["episodes"])) for cell in (first, second))
    if all(map(math.isinf, reached)):
        return f"neither ({shown})"
    sign = ">" if math.isinf(reached[0]) else "<" if math.isinf(reached[1]) else ""
    ends = [
        at if math.isfinite(at) else float(cell["episodes"]) for at, cell in zip(reached, (first, second), strict=True)
    ]
    return f"{sign} {ends[0] / ends[1]:.3g} ({shown})".strip()
