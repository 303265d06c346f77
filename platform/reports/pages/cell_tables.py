"""All cells of a report as tables, and their claims by verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from dprl.algorithms import Metric
from dprl.platform.configs.experiment import varies
from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import algorithm_name, plain
from dprl.platform.reports.comparing.findings import reference_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import epsilon_number
from dprl.platform.reports.number_texts import delta_number, effect_text, estimate_text, rounded
from dprl.platform.reports.pages.markup import BADGES, DASH, Names, badge_of, with_grey_interval
from dprl.platform.reports.pages.values import result_text, shown, value_label
from dprl.platform.reports.records import results_in

_MODELS = {"jdp": "central", "ldp": "local", "none": "none"}
_MOST_ROWS = 300
"""Cells of a page; all of them are in report.csv."""
_MOST_COLUMNS = 8
"""Settings with a column of their own; further ones stand in one column."""
_NARROW_COLUMNS = 9
"""Columns that fit beside each other with intervals on the line of their values."""
_MOST_KINDS = 4
"""Kinds of cells that a verdict names."""


class _Column(NamedTuple):
    """A column of a table of cells. css: its class, 'n' for numbers."""

    header: str
    css: str = ""


class _Place(NamedTuple):
    """A cell by its group and its place in it."""

    group: Group
    place: int

    @property
    def cell(self) -> ReportCell:
        return self.group.cells[self.place]


@dataclass(frozen=True)
class CellTables:
    """The tables of all cells, one for each headline. names: of their algorithms."""

    groups: Sequence[Group]
    names: Names

    def tables(self) -> list[dict[str, Any]]:
        """Return the tables; of many cells the best of every group."""
        by_metric: dict[Metric | None, list[Group]] = {}
        for group in self.groups:
            by_metric.setdefault(group.metric, []).append(group)
        most = max(1, _MOST_ROWS // len(by_metric))
        several = len(by_metric) > 1
        return [self._table(groups, most, several=several) for groups in by_metric.values()]

    def claims(self) -> list[dict[str, Any]]:
        """Return the verdicts that claims can have, 'refuted' only where some cell is; nothing without claims."""
        found: dict[str, list[ReportCell]] = {}
        for group in self.groups:
            for cell in group.cells:
                found.setdefault(badge_of(cell), []).append(cell)
        if found.keys() <= {"reference"}:
            return []
        kinds = [key for key in BADGES if key != "reference" and (key != "refuted" or key in found)]
        return [
            {
                "badge": BADGES[key].html,
                "meaning": BADGES[key].meaning,
                "count": counted(len(found.get(key, [])), "cell"),
                "kinds": "" if key == "holds" else _kinds(found.get(key, [])),
            }
            for key in kinds
        ]

    def _table(self, groups: Sequence[Group], most: int, *, several: bool) -> dict[str, Any]:
        places = [_Place(group, i) for group in groups for i in range(len(group.cells))]
        kept = places
        if len(places) > most:
            # The best of every group, in the order of the groups.
            best = sorted(range(len(places)), key=lambda i: places[i].place)[:most]
            kept = [places[i] for i in sorted(best)]
        rows = [each.cell.row for each in places]
        keys = _setting_keys(rows)
        results = [metric for metric in results_in({key for row in rows for key in row}) if metric != groups[0].metric]
        costs = any(reference_of(each.group, each.place) is not None for each in kept if each.cell.private)
        words = {key for key in keys if any(isinstance(row.get(key), str) for row in rows)}
        columns = _columns(groups[0], {key: "word" if key in words else "n" for key in keys}, results, costs=costs)
        told = [self._row(each, keys, results, costs=costs) for each in kept]
        empty = {i for i in range(len(columns)) if not any(each["texts"][i] for each in told)}
        if len({each.cell.seeds for each in places}) == 1:
            empty.add(len(columns) - 2)
        private = [each["texts"] for each, at in zip(told, kept, strict=True) if at.cell.private]
        claimed, delta, certified = range(2 + len(keys), 5 + len(keys))
        if all(texts[claimed] == texts[certified] for texts in private):
            empty.add(claimed)
        if private and all(texts[delta] == delta_number(0.0) for texts in private):
            empty.add(delta)
            columns[certified] = _Column("Certified \u03b5, \u03b4 = 0", "n")
        notes = {str(each["texts"][-1]) for each in told}
        note = notes.pop() if len(told) > 1 and len(notes) == 1 else ""
        if note:
            empty.add(len(columns) - 1)
        return {
            "stacked": len(columns) - len(empty) > _NARROW_COLUMNS,
            "title": value_label(groups[0]) if several else "",
            "columns": [column for i, column in enumerate(columns) if i not in empty],
            "rows": [
                each | {"texts": [text for i, text in enumerate(each["texts"]) if i not in empty]} for each in told
            ],
            "left_out": len(places) - len(kept),
            "note": f"All cells above: {note}." if note else "",
        }

    def _row(self, at: _Place, keys: Sequence[str], results: Sequence[Metric], *, costs: bool) -> dict[str, Any]:
        cell, row = at.cell, at.cell.row
        texts: list[object] = [self.names.html(cell), _MODELS.get(str(row["privacy.model"]), row["privacy.model"])]
        texts += [_value(row, key) for key in keys]
        texts += _privacy(cell)
        if at.group.metric is not None:
            texts.append(with_grey_interval(estimate_text(shown(at.group, cell))))
        if costs:
            texts.append(_cost(at))
        texts += [with_grey_interval(result_text(row, metric)) for metric in results]
        return {"texts": [*texts, str(cell.seeds), _note(cell)], "free": not cell.private}


def _columns(group: Group, keys: Mapping[str, str], results: Sequence[Metric], *, costs: bool) -> list[_Column]:
    found = [_Column("Algorithm"), _Column("Trust model"), *(_Column(_header(key), css) for key, css in keys.items())]
    found += [
        _Column("Claimed \u03b5", "n"),
        _Column("\u03b4", "n"),
        _Column("Certified \u03b5", "n"),
        _Column("Claim"),
    ]
    if group.metric is not None:
        found.append(_Column(value_label(group), "n"))
    found += [_Column("Cost of privacy", "n")] if costs else []
    found += [_Column(metric.label.capitalize(), "n") for metric in results]
    return [*found, _Column("Seeds", "n"), _Column("Note", "wrap")]


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


def _value(row: Mapping[str, Any], key: str) -> Markup:
    """Return a setting; a long name may go on a second line after each of its underscores."""
    if key not in row:
        return Markup("")
    text = f"{int(row[key]):,}" if key == "episodes" else plain(row[key])
    return Markup("_<wbr>").join(text.split("_"))


def _privacy(cell: ReportCell) -> list[object]:
    """Return claimed epsilon, delta, certified epsilon and the badge."""
    row, badge = cell.row, BADGES[badge_of(cell)].html
    if not cell.private:
        return ["", "", "\u221e", badge]
    claimed = epsilon_number(float(row["claimed_epsilon"])) if "claimed_epsilon" in row else ""
    return [claimed, delta_number(float(row.get("claimed_delta", 0.0))), epsilon_number(cell.proved), badge]


def _cost(at: _Place) -> object:
    reference = reference_of(at.group, at.place) if at.cell.private else None
    return DASH if reference is None else with_grey_interval(effect_text(at.group.effect(at.place, reference)))


def _note(cell: ReportCell) -> str:
    words = ["nothing was learned"] if cell.saturated else []
    if cell.row.get("theorem"):
        words.append(f"covered by {cell.row['theorem']}")
    return "; ".join(words)


def _kinds(cells: Sequence[ReportCell]) -> str:
    """Return the kinds of cells with one verdict, and how far their claims are off."""
    factors: dict[str, list[float]] = {}
    for cell in cells:
        row = cell.row
        words = [algorithm_name(row), _MODELS.get(str(row["privacy.model"]), str(row["privacy.model"]))]
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
