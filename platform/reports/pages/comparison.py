"""Episodes to half regret: comparisons of algorithms at equal noise, and of noises for one algorithm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dprl.platform.configs.varying import varies
from dprl.platform.reports.cell_texts import ENV_NAMING, NAMED, NOISE, Row, environment_name, plain, setting_text
from dprl.platform.reports.comparing.declared import compatible, declared_pairs
from dprl.platform.reports.comparing.groups import Group, algorithm_names
from dprl.platform.reports.comparing.noise import noise_ratio
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Block, Heading, Paragraph, Section, Table
from dprl.platform.reports.number_texts import episode_reached
from dprl.platform.reports.verdicts import privacy_text

_ENVIRONMENT, _ALGORITHM, _SETTINGS, _PRIVACY, _NOISE, _NOISES = (
    "environment",
    "algorithm",
    "settings",
    "privacy",
    "noise",
    "noise: from, to",
)
_TEXTS = (_ENVIRONMENT, _ALGORITHM, _SETTINGS, _PRIVACY, _NOISE, _NOISES)
_BOUNDS = """\
Both medians are in brackets. `> x`: the first had not halved when its run ended; `< x`: the second had not."""
_Scales = tuple[tuple[str, float], ...]


class _Pair(NamedTuple):
    """Two cells that differ in one factor. key: the columns that name the pair."""

    key: tuple[str, ...]
    first: Row
    second: Row


def halving_comparison(groups: Sequence[Group], one: str, other: str) -> list[Block]:
    """Return sections on algorithm `one` against `other`, and on the noise of each; [] without any pair.

    They have the declared comparisons of private cells with equal scales, so no ratio mixes two effects. Without a pair
    of the two algorithms the first block has the reason.
    """
    pairs = [pair for group in groups for pair in _algorithm_pairs(group, one, other)]
    noises = [pair for group in groups for pair in _noise_pairs(group)]
    sections = (
        _section(
            f"{one} against {other} at equal noise",
            f"Median episodes to half regret of {other}, divided by those of {one}: above 1, {one} needs fewer.",
            (_ENVIRONMENT, _SETTINGS, _PRIVACY, _NOISE),
            pairs,
        ),
        _section(
            "Effect of the noise at equal algorithms",
            "Median episodes to half regret with the first noise, divided by those with the second: above 1, the "
            "second noise needs fewer. Both meet the same claim; the certified \u03b5 is that of the first.",
            (_ENVIRONMENT, _ALGORITHM, _SETTINGS, _PRIVACY, _NOISES),
            noises,
        ),
    )
    reason = no_ratio(groups, one, other)
    told: list[Block] = [Paragraph(reason, "note")] if reason else []
    return [*told, *(section for section in sections if section is not None)]


def no_ratio(groups: Sequence[Group], one: str, other: str) -> str:
    """Return the reason for having no ratio of episodes to half regret of these two, '' if there is one."""
    if any(True for group in groups for _ in _algorithm_pairs(group, one, other)):
        return ""
    return f"No ratio of episodes to half regret of {other} to {one}: {_missing(groups, one, other)}."


def _missing(groups: Sequence[Group], one: str, other: str) -> str:
    """Return the first condition of a ratio that no two cells of these algorithms meet."""
    cells = [cell for group in groups for cell in group.cells]
    if one == other or not all(any(name in algorithm_names(cell.row) for cell in cells) for name in (one, other)):
        return "this needs two algorithms, not cells"
    private = [(group, i, j) for group in groups for i, j in _pairs_of(group, one, other)]
    if not private:
        return "no environment has cells of both with privacy"
    halved = [(group, i, j) for group, i, j in private if all("halved_at" in group.cells[at].row for at in (i, j))]
    if not halved:
        return "no such pair of cells reports these episodes"
    equal = [(group, i, j) for group, i, j in halved if _equal_noise(group, i, j)]
    if not equal:
        return "no cells of both have the same privacy and noise"
    names = [_unequal(group, i, j) for group, i, j in equal]
    if not all(names):
        return "no such comparison is declared"
    fewest = min(names, key=len)
    return f"at equal privacy and noise, constants of the algorithms differ ({', '.join(fewest)})"


def _pairs_of(group: Group, one: str, other: str) -> Iterator[tuple[int, int]]:
    """Yield the places of private cells of both algorithms."""
    ours, theirs = (
        [i for i, cell in enumerate(group.cells) if cell.private and name in algorithm_names(cell.row)]
        for name in (one, other)
    )
    yield from ((i, j) for i, j in itertools.product(ours, theirs) if i != j)


def _equal_noise(group: Group, one: int, other: int) -> bool:
    first, second = group.factors[one], group.factors[other]
    same = (first.budget, first.noise, first.ran) == (second.budget, second.noise, second.ran)
    return same and not noise_ratio(group.cells[one], group.cells[other]).unequal


def _unequal(group: Group, one: int, other: int) -> list[str]:
    """Return the constants that keep two cells from having a ratio: scales, and others that both have."""
    scales = {*_scales(group.cells[one].row)} ^ {*_scales(group.cells[other].row)}
    shared, others = (dict(group.factors[at].constants) for at in (one, other))
    names = {name for name, _ in scales}
    names |= {key.rpartition(".")[2] for key in shared.keys() & others.keys() if shared[key] != others[key]}
    return sorted(names)


def _algorithm_pairs(group: Group, one: str, other: str) -> Iterator[_Pair]:
    keys = _varying(group)
    for pair in _declared(group, "algorithm"):
        cells = [group.cells[at] for at in pair]
        ordered = [both for both in (cells, cells[::-1]) if _are(both, one, other)]
        if ordered and _equal_noise(group, *pair):
            ours, theirs = ordered[0]
            settings, noise = _settings(keys, {**theirs.row, **ours.row})
            key = (_environment(group), settings, privacy_text(ours.certificate), noise or "default")
            yield _Pair(key, theirs.row, ours.row)


def _are(cells: Sequence[ReportCell], *names: str) -> bool:
    """Whether the cells are of these algorithms, in this order."""
    return all(name in algorithm_names(cell.row) for cell, name in zip(cells, names, strict=True))


def _noise_pairs(group: Group) -> Iterator[_Pair]:
    keys = _varying(group)
    for pair in _declared(group, "noise"):
        first, second = sorted((group.cells[at] for at in pair), key=lambda cell: _settings(keys, cell.row)[1])
        (settings, before), (_, after) = (_settings(keys, cell.row) for cell in (first, second))
        name, privacy = str(first.row["algorithm.name"]), privacy_text(first.certificate)
        yield _Pair((_environment(group), name, settings, privacy, f"{before}, {after}"), first.row, second.row)


def _declared(group: Group, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the declared comparisons of a kind between private cells with a halving, equal scales and constants."""
    for (i, j), declared in declared_pairs(group.factors).items():
        rows = [group.cells[at].row for at in (i, j)]
        halved = all("halved_at" in row and row["privacy.model"] != "none" for row in rows)
        alike = _scales(rows[0]) == _scales(rows[1]) and compatible(*(group.factors[at].constants for at in (i, j)))
        if declared == kind and halved and alike:
            yield i, j


def _varying(group: Group) -> list[str]:
    """Return the settings that vary in the group, besides scales and those with a column of their own."""
    rows = [cell.row for cell in group.cells]
    keys = dict.fromkeys(key for each in rows for key in each if key not in NAMED and not key.endswith("_scale"))
    return [key for key in keys if varies(key, rows)]


def _settings(keys: Sequence[str], row: Row) -> tuple[str, str]:
    """Return the cell's values of these settings: those of the algorithm, and those of the noise."""
    algorithm, noise = (
        " ".join(setting_text(key, row[key]) for key in keys if key in row and key.startswith(sections))
        for sections in (("algorithm.",), NOISE)
    )
    return algorithm, noise


def _environment(group: Group) -> str:
    """Return the environment with its settings."""
    row = group.cells[0].row
    settings = [f"{key[4:]}={plain(row[key])}" for key in row if key.startswith("env.") and key not in ENV_NAMING]
    return f"{environment_name(row)} ({', '.join(settings)})"


def _scales(row: Row) -> _Scales:
    """Return the scales of the algorithm's constants, by name."""
    keys = [key for key in row if key.startswith("algorithm.") and key.endswith("_scale")]
    return tuple((key.removeprefix("algorithm."), float(row[key])) for key in keys)


def _scales_text(found: _Scales) -> str:
    """Return 'scales 0.03' where all agree, else each with its name."""
    values = {value for _, value in found}
    if len(values) == 1:
        return f"scales {values.pop():g}"
    return ", ".join(f"{name} {value:g}" for name, value in found) or "no scales"


def _section(title: str, meaning: str, headers: Sequence[str], pairs: Sequence[_Pair]) -> Section | None:
    """Return a table with one row per key and one column per setting of the scales; None without pairs."""
    rows: dict[tuple[str, ...], dict[_Scales, list[str]]] = {}
    for pair in pairs:
        rows.setdefault(pair.key, {}).setdefault(_scales(pair.first), []).append(_ratio(pair.first, pair.second))
    if not rows:
        return None
    columns = list(dict.fromkeys(_scales(pair.first) for pair in pairs))
    lines = [[*key, *("; ".join(row.get(column, [])) for column in columns)] for key, row in rows.items()]
    told = Paragraph(" ".join(f"{meaning} {_BOUNDS}".split()), "note")
    table = Table.of_texts([*headers, *map(_scales_text, columns)], lines, _TEXTS)
    return Section([Heading(title), told, table.without_empty_columns()])


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
