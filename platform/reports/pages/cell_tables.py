"""All cells of a report as tables, one for each headline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dprl.algorithms import Metric
from dprl.platform.configs.varying import varies
from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import (
    ENV_NAMING,
    Row,
    algorithm_name,
    environment_keys,
    environment_name,
    environment_text,
    median_text,
    setting_text,
)
from dprl.platform.reports.comparing.answers import shown, value_label
from dprl.platform.reports.comparing.findings import reference_of
from dprl.platform.reports.comparing.groups import Group, naming_keys
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Block, Facts, Heading, Paragraph, Section, Table, beside, styled
from dprl.platform.reports.inference.effects import Estimate
from dprl.platform.reports.number_texts import cost_text, delta_number, epsilon_text, estimate_text
from dprl.platform.reports.pages.markup import BADGES, badge, badge_of, with_grey_interval
from dprl.platform.reports.records import SATURATION_NOTE, SATURATION_REMEDY, results_in, title_of
from dprl.platform.reports.tables import noise_note
from dprl.platform.reports.verdicts import trust_word

_MOST_ROWS = 300
"""Maximum of cells on a page; all of them are in report.csv."""
_TEXTS = {"Environment", "Algorithm", "Settings", "Trust model", "Claim", "Note"}
_SHARED = {"Algorithm", "Settings", "Trust model", "\u03b4"}
"""Columns that are left out if all cells have the same text."""


class _Column(NamedTuple):
    """A column of a table of cells; one without any text is left out. text: of a group's cell at a place."""

    header: str
    text: Callable[[Group, int], str]
    shown: bool = True


def cell_blocks(groups: Sequence[Group]) -> list[Block]:
    """Return the claims by verdict, if there are any, and one table per headline; of many cells only the best."""
    by_metric: dict[Metric | None, list[Group]] = {}
    for group in groups:
        by_metric.setdefault(group.metric, []).append(group)
    most, cells = max(1, _MOST_ROWS // len(by_metric)), [cell for group in groups for cell in group.cells]
    found: list[Block] = [Heading(counted(len(cells), "cell").capitalize())]
    for alike in by_metric.values():
        found += [Heading(value_label(alike[0]), 3)] if len(by_metric) > 1 else []
        found += _table(alike, most)
    verdicts = [badge_of(cell.certificate) for cell in cells]
    if {*verdicts} <= {"reference"}:
        return [Section(found, "cells")]
    claims = [(badge(key), f"{BADGES[key][1]} {counted(verdicts.count(key), 'cell')}.") for key in BADGES]
    shown_claims = [claim for claim, key in zip(claims, BADGES, strict=True) if key in verdicts]
    noise = noise_note([cell.row for cell in cells])
    return [
        Section([Heading("Do the claims hold?"), Facts("", shown_claims), *noise], "claims"),
        Section(found, "cells"),
    ]


def _table(groups: Sequence[Group], most: int) -> list[Block]:
    """Return the table of groups with one headline, without empty columns, and notes on it."""
    places = [(group, i) for group in groups for i in range(len(group.cells))]
    # Best cells of every group first.
    kept = sorted(range(len(places)), key=lambda k: places[k][1])[:most]
    columns = [column for column in _columns(groups) if column.shown]
    if len(places) > 1:  # what all cells share is below, under Methods
        columns = [one for one in columns if one.header not in _SHARED or len({one.text(*at) for at in places}) > 1]
    lines = [[column.text(*places[k]) for column in columns] for k in sorted(kept)]
    below: list[Block] = []
    if left_out := len(places) - len(kept):
        below.append(Paragraph(f"{left_out:,} further cells are in report.csv.", "note"))
    if unlearned := [cell for group in groups for cell in group.cells if cell.unlearned]:
        term = f"Nothing was learned in {len(unlearned)} of {counted(len(places), 'cell')}"
        their = "Its last policy has" if len(unlearned) == 1 else "Their last policies have"
        why = f"{their} nearly the regret of the first."
        if any(cell.saturated for cell in unlearned):
            why = f"{SATURATION_NOTE[:1].upper()}{SATURATION_NOTE[1:]}; try {SATURATION_REMEDY}."
        below.append(Paragraph(why, "note", term))
    return [Table([column.header for column in columns], lines, _TEXTS).without_empty_columns(), *below]


def _columns(groups: Sequence[Group]) -> list[_Column]:
    """Return the columns of groups with one headline."""
    cells = [cell for group in groups for cell in group.cells]
    results = [
        metric for metric in results_in({key for cell in cells for key in cell.row}) if metric != groups[0].metric
    ]
    settings = {id(cell): _settings(cell, cells) for cell in cells}
    return [
        _Column("Environment", lambda group, _: short_title(group, groups), len(groups) > 1),
        _Column("Algorithm", lambda group, i: styled(algorithm_name(group.cells[i].row), "b")),
        _Column("Settings", lambda group, i: settings[id(group.cells[i])]),
        _Column("Trust model", lambda group, i: trust_word(str(group.cells[i].row["privacy.model"]))),
        _Column("Claimed \u03b5", lambda group, i: _claimed(group.cells[i])),
        _Column("\u03b4", lambda group, i: delta_number(group.cells[i].delta) if group.cells[i].private else ""),
        _Column("Certified \u03b5", lambda group, i: epsilon_text(group.cells[i].proved, 4)),
        _Column("Claim", lambda group, i: badge(badge_of(group.cells[i].certificate))),
        _Column(value_label(groups[0]), _headline, groups[0].metric is not None),
        _Column("Cost of privacy", _cost),
        _Column("To half regret", lambda group, i: with_grey_interval(median_text(group.cells[i].row, "halved_at"))),
        *(_of_result(metric) for metric in results if metric != groups[0].metric),
        _Column("Seeds", lambda group, i: str(group.cells[i].seeds), len({cell.seeds for cell in cells}) > 1),
        _Column("Note", lambda group, i: _note(group.cells[i])),
    ]


def _settings(cell: ReportCell, cells: Sequence[ReportCell]) -> str:
    """Return the settings that distinguish a cell from others of its algorithm, besides environment and privacy."""
    same = [each for each in cells if each.row["algorithm.name"] == cell.row["algorithm.name"]]
    return ", ".join(setting_text(key, cell.row[key]) for key in naming_keys(same) if key in cell.row)


def _of_result(metric: Metric) -> _Column:
    return _Column(title_of(metric), lambda group, i: with_grey_interval(result_text(group.cells[i].row, metric)))


def result_text(row: Row, metric: Metric) -> str:
    """Return a metric after the last episode with its interval, '' if the cell's algorithm does not report it."""
    if metric.unit == "episodes":
        return median_text(row, metric.name)
    return estimate_text(Estimate.of_row(row, metric.name)) if metric.name in row else ""


def _claimed(cell: ReportCell) -> str:
    known = cell.private and "claimed_epsilon" in cell.row
    return epsilon_text(float(cell.row["claimed_epsilon"]), 4) if known else ""


def _headline(group: Group, place: int) -> str:
    """Return a cell's headline, also in the environment's own rewards where these are mapped to [0, 1]."""
    metric, row = group.metric, group.cells[place].row
    found = shown(group, group.cells[place])
    if metric is None or metric.unit != "reward" or "derived_reward_high" not in row:
        return with_grey_interval(estimate_text(found))
    low, high = float(row["derived_reward_low"]), float(row["derived_reward_high"])
    value = found.value * (high - low)
    if metric.better == "high":  # a value, not a difference of two
        value += float(row["env.horizon"]) * low
    return beside(with_grey_interval(estimate_text(found)), styled(f"{value:.3g} in own rewards", "small"))


def _cost(group: Group, place: int) -> str:
    reference = reference_of(group, place) if group.cells[place].private else None
    return "" if reference is None else with_grey_interval(cost_text(group.effect(place, reference)))


def _note(cell: ReportCell) -> str:
    words = ["nothing was learned"] if cell.unlearned else []
    if cell.row.get("theorem"):
        words.append(f"covered by {cell.row['theorem']}")
    return "; ".join(words)


def short_title(group: Group, groups: Sequence[Group]) -> str:
    """Return the settings that distinguish a group of the report, e.g. 'horizon 6', or its title if there are none."""
    keys = environment_keys([each.cells[0].row for each in groups])
    return environment_text(group.cells[0].row, keys, _setting) or group.title


def environment_words(groups: Sequence[Group]) -> list[str]:
    """Return the settings that all groups share: the environment and its settings, and the number of episodes."""
    rows = [group.cells[0].row for group in groups]
    shared = [key for key in rows[0] if key.startswith("env.") and all(key in row for row in rows)]
    keys = [key for key in shared if key not in ENV_NAMING and not varies(key, rows)]
    names = {environment_name(row) for row in rows}
    words = [*names] if len(names) == 1 else []
    words += [_setting(key, rows[0][key]) for key in keys if rows[0][key] != ""]
    found = [", ".join(words)] if words else []
    units = {group.unit for group in groups}
    if not varies("episodes", rows):
        found.append(f"{groups[0].episodes:,} {units.pop() if len(units) == 1 else 'episode'}s")
    return found


def _setting(key: str, value: object) -> str:
    if key == "episodes" and isinstance(value, int | float):
        return f"{int(value):,} episodes"
    return setting_text(key, value).replace("_", " ").replace("=", " ")
