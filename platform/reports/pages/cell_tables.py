"""All cells of a report as tables, and their claims by verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from dprl.algorithms import Metric
from dprl.platform.configs.varying import varies
from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import algorithm_name, halved_text, plain, trust_word
from dprl.platform.reports.comparing.findings import reference_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import epsilon_number
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
from dprl.platform.reports.number_texts import delta_number, effect_text, estimate_text, rounded
from dprl.platform.reports.pages.markup import BADGES, DASH, Names, badge_of, with_grey_interval
from dprl.platform.reports.pages.values import IN_CSV, capital, result_text, shown, value_label
from dprl.platform.reports.records import results_in

_MOST_ROWS = 300
"""Maximum of cells on a page; all of them are in report.csv."""
_MOST_COLUMNS = 8
"""Maximum of settings with a column of their own; further ones share one column."""
_NARROW_COLUMNS = 9
"""Maximum of columns that fit with intervals on the same line as their values."""
_PRIVACY = ("Claimed \u03b5", "\u03b4", "Certified \u03b5")
_SEEDS = "Seeds"
_MOST_KINDS = 4
"""Maximum of kinds of cells named with a verdict."""


class _Place(NamedTuple):
    """A cell by its group and its place in it."""

    group: Group
    place: int

    @property
    def cell(self) -> ReportCell:
        return self.group.cells[self.place]


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
    asked = [Section([Heading("Do the claims hold?"), Facts("", claims)], "claims")] if claims else []
    return [*asked, Section(found, "cells")]


def _claims(groups: Sequence[Group]) -> list[tuple[Inline, Inline]]:
    """Return the verdicts that claims can have ('refuted' only if a cell is), [] without claims."""
    found: dict[str, list[ReportCell]] = {}
    for group in groups:
        for cell in group.cells:
            found.setdefault(badge_of(cell), []).append(cell)
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
    columns, told = _columns_and_texts(groups[0], names, places, kept)
    empty = {i for i in range(len(columns)) if not any(texts[i] for texts in told)}
    headers = [str(column.header) for column in columns]
    claimed, delta, certified = (headers.index(name) for name in _PRIVACY)
    if len({each.cell.seeds for each in places}) == 1:
        empty.add(headers.index(_SEEDS))
    private = [texts for texts, at in zip(told, kept, strict=True) if at.cell.private]
    if all(texts[claimed] == texts[certified] for texts in private):
        empty.add(claimed)
    if private and all(texts[delta] == delta_number(0.0) for texts in private):
        empty.add(delta)
        columns[certified] = Column("Certified \u03b5, \u03b4 = 0", "n")
    notes, below = {str(texts[-1]) for texts in told}, list[Block]()
    if len(told) > 1 and len(notes) == 1 and (note := notes.pop()):
        empty.add(len(columns) - 1)
        below.append(Paragraph(f"All cells above: {note}.", "note"))
    if left_out := len(places) - len(kept):
        below.append(Paragraph(beside(f"{left_out:,} further cells are in", IN_CSV), "note"))
    shown = [i for i in range(len(columns)) if i not in empty]
    lines = [[texts[i] for i in shown] for texts in told]
    styles = ["" if at.cell.private else "none" for at in kept]
    stacked = " stacked" if len(shown) > _NARROW_COLUMNS else ""
    return [Table([columns[i] for i in shown], lines, f"all{stacked}", styles), *below]


def _columns_and_texts(
    group: Group, names: Names, places: Sequence[_Place], kept: Sequence[_Place]
) -> tuple[list[Column], list[list[Inline]]]:
    rows = [each.cell.row for each in places]
    keys = _setting_keys(rows)
    found = {key for row in rows for key in row}
    results = [metric for metric in results_in(found) if metric != group.metric]
    costs = any(reference_of(each.group, each.place) is not None for each in kept if each.cell.private)
    halved = any("halved_at" in row for row in rows)
    words = {key for key in keys if any(isinstance(row.get(key), str) for row in rows)}
    columns = [Column("Algorithm"), Column("Trust model")]
    columns += [Column(_header(key), "word" if key in words else "n") for key in keys]
    columns += [*(Column(name, "n") for name in _PRIVACY), Column("Claim")]
    columns += [Column(value_label(group), "n")] if group.metric is not None else []
    columns += [Column("Cost of privacy", "n")] if costs else []
    columns += [Column(f"{capital(group.unit)}s to half regret", "n")] if halved else []
    columns += [Column(capital(metric.label), "n") for metric in results]
    columns += [Column(_SEEDS, "n"), Column("Note", "wrap")]
    texts = []
    for at in kept:
        cell, row = at.cell, at.cell.row
        line: list[Inline] = [names.with_swatch(cell), trust_word(str(row["privacy.model"]))]
        line += [*(_value(row, key) for key in keys), *_privacy(cell)]
        line += [with_grey_interval(estimate_text(shown(at.group, cell)))] if group.metric is not None else []
        line += [_cost(at)] if costs else []
        line += [with_grey_interval(halved_text(row))] if halved else []
        line += [with_grey_interval(result_text(row, metric)) for metric in results]
        texts.append([*line, str(cell.seeds), _note(cell)])
    return columns, texts


def _setting_keys(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that differ, besides those with a column of their own."""
    own = ("algorithm.name", "privacy.model", "privacy.epsilon", "privacy.delta", "env.name")
    keys = dict.fromkeys(key for row in rows for key in row)
    known = [key for key in keys if "." in key or key == "episodes"]
    found = [key for key in known if key not in own and varies(key, rows)]
    names = ["env.name"] if len({row["env.name"] for row in rows}) > 1 else []
    return [*names, *sorted(found, key=lambda key: not key.startswith("env."))][:_MOST_COLUMNS]


def _header(key: str) -> str:
    return "Environment" if key == "env.name" else key.rpartition(".")[2].replace("_", " ").capitalize()


def _value(row: Mapping[str, Any], key: str) -> Inline:
    """Return a setting; a long name may be broken after each of its underscores."""
    if key not in row:
        return ""
    text = f"{int(row[key]):,}" if key == "episodes" else plain(row[key])
    return Rich(text, Markup("_<wbr>").join(text.split("_")))


def _privacy(cell: ReportCell) -> list[Inline]:
    """Return claimed epsilon, delta, certified epsilon and the badge."""
    row, badge = cell.row, BADGES[badge_of(cell)].inline
    if not cell.private:
        return ["", "", "\u221e", badge]
    claimed = epsilon_number(float(row["claimed_epsilon"])) if "claimed_epsilon" in row else ""
    return [claimed, delta_number(float(row.get("claimed_delta", 0.0))), epsilon_number(cell.proved), badge]


def _cost(at: _Place) -> Inline:
    reference = reference_of(at.group, at.place) if at.cell.private else None
    return DASH if reference is None else with_grey_interval(effect_text(at.group.effect(at.place, reference)))


def _note(cell: ReportCell) -> str:
    words = ["nothing was learned"] if cell.saturated else []
    if cell.row.get("theorem"):
        words.append(f"covered by {cell.row['theorem']}")
    return "; ".join(words)


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
