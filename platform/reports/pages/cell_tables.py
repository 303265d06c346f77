"""All cells of a report as tables, their claims by verdict, and the users that private runs need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from markupsafe import Markup

from dprl.algorithms import Metric
from dprl.platform.configs.varying import varies
from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import (
    ENV_NAME,
    ENV_NAMING,
    NAMED,
    Row,
    algorithm_name,
    environment_name,
    median_text,
    plain,
    trust_word,
)
from dprl.platform.reports.comparing.findings import reference_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import (
    Block,
    Column,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Rich,
    Section,
    Table,
    beside,
    styled,
)
from dprl.platform.reports.number_texts import delta_number, effect_text, epsilon_text, estimate_text, rounded
from dprl.platform.reports.pages.markup import BADGES, DASH, Names, badge_of, small, with_grey_interval
from dprl.platform.reports.pages.values import IN_CSV, capital, own_rewards, result_text, shown, value_label
from dprl.platform.reports.records import results_in
from dprl.platform.reports.tables import noise_note

_MOST_ROWS = 300
"""Maximum of cells on a page; all of them are in report.csv."""
_MOST_COLUMNS = 5
"""Maximum of settings with a column of their own; further ones share one column."""
_NARROW_COLUMNS = 9
"""Maximum of columns that fit with intervals on the same line as their values."""
_MOST_KINDS = 4
"""Maximum of kinds of cells named with a verdict."""


class _Place(NamedTuple):
    """A cell by its group and its place in it."""

    group: Group
    place: int

    @property
    def cell(self) -> ReportCell:
        return self.group.cells[self.place]


class _Column(NamedTuple):
    """A column of a table of cells; one without any text is left out. style: see `Column`."""

    header: str
    style: str
    text: Callable[[_Place], Inline]
    shown: bool = True


def cell_blocks(groups: Sequence[Group], names: Names) -> list[Block]:
    """Return the section of claims, if there are any, and one table per headline; of many cells only the best.

    names: of the algorithms.
    """
    by_metric: dict[Metric | None, list[Group]] = {}
    for group in groups:
        by_metric.setdefault(group.metric, []).append(group)
    most, several = max(1, _MOST_ROWS // len(by_metric)), len(by_metric) > 1
    cells = sum(len(group.cells) for group in groups)
    whole = "All" if cells <= most else "The best of"
    found: list[Block] = [Heading(f"{whole} {counted(cells, 'cell')}" if cells > 1 else "The cell")]
    for alike in by_metric.values():
        found += [Heading(value_label(alike[0]), 3)] if several else []
        found += _table(alike, names, most)
    claims = _claims(groups)
    noise = noise_note([cell.row for group in groups for cell in group.cells])
    asked = [Section([Heading("Do the claims hold?"), Facts("", claims), *noise], "claims")] if claims else []
    return [*asked, Section(found, "cells")]


def _claims(groups: Sequence[Group]) -> list[tuple[Inline, Inline]]:
    """Return the verdicts that claims can have ('refuted' only if a cell is), [] without claims."""
    found: dict[str, list[ReportCell]] = {}
    for group in groups:
        for cell in group.cells:
            found.setdefault(badge_of(cell.certificate), []).append(cell)
    if found.keys() <= {"reference"}:
        return []
    kinds = [key for key in BADGES if key != "reference" and (key != "refuted" or key in found)]
    return [(BADGES[key].inline, _claim_text(key, found.get(key, []))) for key in kinds]


def _table(groups: Sequence[Group], names: Names, most: int) -> list[Block]:
    """Return the table of groups with one headline, without empty columns, and notes on it."""
    places = [_Place(group, i) for group in groups for i in range(len(group.cells))]
    kept = places
    if len(places) > most:
        # Best cells of every group first.
        best = sorted(range(len(places)), key=lambda i: places[i].place)[:most]
        kept = [places[i] for i in sorted(best)]
    columns, below = [column for column in _columns(names, places, kept) if column.shown], list[Block]()
    if note := _common_note(kept):
        below.append(Paragraph(f"All cells above: {note}.", "note"))
    if left_out := len(places) - len(kept):
        below.append(Paragraph(beside(f"{left_out:,} further cells are in", IN_CSV), "note"))
    lines = [[column.text(at) for column in columns] for at in kept]
    styles = ["" if at.cell.private else "none" for at in kept]
    table = Table([Column(column.header, column.style) for column in columns], lines, "all", styles)
    table = table.without_empty_columns()
    return [replace(table, style="all stacked") if len(table.columns) > _NARROW_COLUMNS else table, *below]


def _columns(names: Names, places: Sequence[_Place], kept: Sequence[_Place]) -> list[_Column]:
    """Return the columns of the cells `kept` of `places`, which have one headline."""
    group, rows = places[0].group, [at.cell.row for at in places]
    private = [at.cell for at in kept if at.cell.private]
    pure = bool(private) and all(_delta(cell) == delta_number(0.0) for cell in private)
    claimed = any(_claimed(cell) != _certified(cell) for cell in private)
    results = [metric for metric in results_in({key for row in rows for key in row}) if metric != group.metric]
    settings, others = _setting_keys(rows), list[str]()
    if len(settings) > _MOST_COLUMNS:
        settings, others = settings[: _MOST_COLUMNS - 1], settings[_MOST_COLUMNS - 1 :]
    return [
        _Column("Algorithm", "", lambda at: names.with_swatch(at.cell)),
        _Column("Trust model", "", lambda at: trust_word(str(at.cell.row["privacy.model"]))),
        *(_of_setting(key, rows) for key in settings),
        _Column("Other settings", "wrap", lambda at: _settings_text(at.cell.row, others), bool(others)),
        _Column("Claimed \u03b5", "n", lambda at: _claimed(at.cell), claimed),
        _Column("\u03b4", "n", lambda at: _delta(at.cell), not pure),
        _Column("Certified \u03b5, \u03b4 = 0" if pure else "Certified \u03b5", "n", lambda at: _certified(at.cell)),
        _Column("Claim", "", lambda at: BADGES[badge_of(at.cell.certificate)].inline),
        _Column(value_label(group), "n", _headline, group.metric is not None),
        _Column("Cost of privacy", "n", _cost, any(_reference(at) is not None for at in kept)),
        _Column(f"{capital(group.unit)}s to half regret", "n", _half_regret),
        *(_of_result(metric) for metric in results),
        _Column("Seeds", "n", lambda at: str(at.cell.seeds), len({at.cell.seeds for at in places}) > 1),
        _Column("Note", "wrap", lambda at: _note(at.cell), not _common_note(kept)),
    ]


def _setting_keys(rows: Sequence[Row]) -> list[str]:
    """Return the settings that differ, besides those with a column of their own."""
    own = {*NAMED, *ENV_NAMING}
    keys = dict.fromkeys(key for row in rows for key in row)
    known = [key for key in keys if "." in key or key == "episodes"]
    found = [key for key in known if key not in own and varies(key, rows)]
    names = [ENV_NAME] if len({environment_name(row) for row in rows}) > 1 else []
    return [*names, *sorted(found, key=lambda key: not key.startswith("env."))]


def _settings_text(row: Row, keys: Sequence[str]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]}={plain(row[key])}" for key in keys if key in row)


def _of_setting(key: str, rows: Sequence[Row]) -> _Column:
    """Return the column of a setting; a long name may be broken after each of its underscores."""

    def text(at: _Place) -> Inline:
        if key not in at.cell.row:
            return ""
        value = environment_name(at.cell.row) if key == ENV_NAME else at.cell.row[key]
        told = f"{int(value):,}" if key == "episodes" else plain(value)
        return Rich(told, Markup("_<wbr>").join(told.split("_")))

    header = "Environment" if key == ENV_NAME else key.rpartition(".")[2].replace("_", " ").capitalize()
    return _Column(header, "word" if any(isinstance(row.get(key), str) for row in rows) else "n", text)


def _of_result(metric: Metric) -> _Column:
    return _Column(capital(metric.label), "n", lambda at: with_grey_interval(result_text(at.cell.row, metric)))


def _claimed(cell: ReportCell) -> str:
    known = cell.private and "claimed_epsilon" in cell.row
    return epsilon_text(float(cell.row["claimed_epsilon"]), 4) if known else ""


def _delta(cell: ReportCell) -> str:
    return delta_number(cell.delta) if cell.private else ""


def _certified(cell: ReportCell) -> str:
    return epsilon_text(cell.proved, 4) if cell.private else "\u221e"


def _headline(at: _Place) -> Inline:
    return beside(with_grey_interval(estimate_text(shown(at.group, at.cell))), small(own_rewards(at.group, at.cell)))


def _half_regret(at: _Place) -> Inline:
    return with_grey_interval(median_text(at.cell.row, "halved_at"))


def _reference(at: _Place) -> int | None:
    return reference_of(at.group, at.place) if at.cell.private else None


def _cost(at: _Place) -> Inline:
    reference = _reference(at)
    return DASH if reference is None else with_grey_interval(effect_text(at.group.effect(at.place, reference)))


def _note(cell: ReportCell) -> str:
    words = ["nothing was learned"] if cell.unlearned else []
    if cell.row.get("theorem"):
        words.append(f"covered by {cell.row['theorem']}")
    return "; ".join(words)


def _common_note(places: Sequence[_Place]) -> str:
    """Return the note that all of several cells have, or ''."""
    notes = {_note(at.cell) for at in places}
    return notes.pop() if len(places) > 1 and len(notes) == 1 else ""


def _claim_text(key: str, cells: Sequence[ReportCell]) -> Rich:
    """Return the meaning of a verdict, the number of its cells and, unless the claims hold, their kinds."""
    kinds = "" if key == "holds" else _kinds(cells)
    count = styled(f"{counted(len(cells), 'cell')}{':' if kinds else '.'}", "b")
    return beside(BADGES[key].meaning, count, f"{kinds}." if kinds else "")


def _kinds(cells: Sequence[ReportCell]) -> str:
    """Return the kinds of cells with one verdict, and the factors by which their claims are exceeded."""
    factors: dict[str, list[float]] = {}
    for cell in cells:
        row = cell.row
        words = [algorithm_name(row), trust_word(str(row["privacy.model"]))]
        if "privacy.calibration" in row:
            words.append(f"{row['privacy.calibration']} noise")
        factors.setdefault(", ".join(words), []).append(float(row.get("factor", math.nan)))
    told = [f"{name}{_factor_text(found)}" for name, found in factors.items()]
    more = [f"and {counted(len(told) - _MOST_KINDS, 'other kind')}"] if len(told) > _MOST_KINDS else []
    return "; ".join([*told[:_MOST_KINDS], *more])


def _factor_text(factors: Sequence[float]) -> str:
    known = [factor for factor in factors if math.isfinite(factor)]
    if not known:
        return ""
    ends = list(dict.fromkeys(rounded(end, 2) for end in (min(known), max(known))))
    return f", certifies {' to '.join(ends)} times the \u03b5 it claims"
