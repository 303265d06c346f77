"""The report as one self-contained HTML page."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import delta_text, epsilon_text, result_band, setting_text
from dprl.platform.reports.comparing.answers import Answer, answers_of, p_text
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.numbers import effect_text, estimate_text
from dprl.platform.reports.pages.template import PAGE
from dprl.platform.reports.records import SATURATION_NOTE, SATURATION_REMEDY, results_in
from dprl.platform.reports.tables import verdict_text
from dprl.platform.reports.verdicts import number, standing

_GOOD = {"low": "lower is better", "high": "higher is better"}
_MOST_TESTS = 12
"""Rows of a group's tests against its best cell; all of them are in comparisons.csv."""
_VERDICTS = (
    ("holds", "the noise that ran proves the \u03b5 that is claimed, at the claimed \u03b4"),
    ("at delta", "a pure claim that fails at \u03b4 = 0 and holds at \u03b4 = 1e-6; the proved \u03b5 is the pure one"),
    ("FAILS", "the noise proves a larger \u03b5 only; the cell stands under that one everywhere on this page"),
    ("NO PRIVACY", "the noise proves no finite \u03b5, or something leaves without noise"),
    ("REFUTED", "an audit has measured more than is claimed"),
    ("no privacy", "the cell did not ask for any: a reference"),
)


class Picture(NamedTuple):
    """A figure. file: its name beside the page. title: in the page. png: its content. half: two fit in a row."""

    file: str
    title: str
    png: bytes
    half: bool = False


@dataclass(frozen=True)
class Page:
    """What a page says. missing: a line for each sweep that is not finished. made: how it was made, line by line."""

    title: str
    groups: Sequence[Group]
    pictures: Sequence[Picture]
    missing: Sequence[str]
    made: Sequence[str]

    def html(self) -> str:
        """Return the page."""
        environment = Environment(autoescape=True, undefined=StrictUndefined)
        return environment.from_string(PAGE).render(
            title=self.title,
            missing=self.missing,
            answers=[_answer_section(group) for group in self.groups if group.metric is not None],
            saturation=SATURATION_NOTE,
            remedy=SATURATION_REMEDY,
            figures=[_figure(picture) for picture in self.pictures],
            sections=[_cell_section(group) for group in self.groups],
            tests=[_test_section(group) for group in self.groups if group.comparisons],
            made=self.made,
            verdicts=_VERDICTS,
        )


class _Column(NamedTuple):
    """A column of the table of cells. css: its class, 'n' for numbers."""

    header: str
    css: str


def _figure(picture: Picture) -> dict[str, Any]:
    return {"title": picture.title, "data": base64.b64encode(picture.png).decode(), "half": picture.half}


def _answer_section(group: Group) -> dict[str, Any]:
    metric = group.metric
    rows: list[Answer] = answers_of(group)
    return {
        "title": group.title,
        "amount": group.amount,
        "metric": metric.label if metric is not None else "",
        "good": _GOOD[metric.better] if metric is not None else "",
        "rows": rows,
        "count": len(group.cells),
        "saturated": sum(cell.saturated for cell in group.cells),
    }


def _cell_section(group: Group) -> dict[str, Any]:
    """Return the table of a group: the best cell first."""
    results = results_in({key for cell in group.cells for key in cell.row})
    columns = [_Column(name, "") for name in ("algorithm", "trust model")]
    columns += [_Column(key.rpartition(".")[2], "") for key in group.varying]
    columns += [_Column(name, "n") for name in ("claimed \u03b5", "proved \u03b5", "\u03b4")]
    columns += [_Column("verdict", "verdict"), _Column("seeds", "n")]
    if group.metric is not None:
        columns.append(_Column(f"{group.metric.label} [95 %]", "n"))
    columns += [_Column(f"{metric.label} [95 %]", "n") for metric in results]
    columns.append(_Column("note", ""))
    rows = []
    for cell in group.cells:
        texts = _fixed_texts(cell, group.varying)
        texts += [estimate_text(cell.estimate)] if group.metric is not None else []
        texts += [result_band(cell.row, metric) for metric in results]
        rows.append({"texts": [*texts, _note(cell)], "fails": cell.private and cell.row["verdict"] != "holds"})
    return {"title": group.title, "shared": group.amount, "columns": columns, "rows": rows}


def _fixed_texts(cell: ReportCell, varying: Sequence[str]) -> list[str]:
    row = cell.row
    settings = [setting_text(key, row[key]).rpartition("=")[2] if key in row else "" for key in varying]
    claimed = number(float(row["claimed_epsilon"])) if "claimed_epsilon" in row else ""
    proved = epsilon_text({key: value for key, value in row.items() if key != "claimed_epsilon"})
    privacy = [claimed, proved, delta_text(row), verdict_word(cell)]
    return [str(row["algorithm.name"]), str(row["privacy.model"]), *settings, *privacy, str(cell.seeds)]


def verdict_word(cell: ReportCell) -> str:
    """Return the verdict on a cell in a word."""
    if standing(cell.certificate).refuted:
        return "REFUTED"
    return verdict_text(cell.row) if cell.private else "no privacy"


def _note(cell: ReportCell) -> str:
    words = ["nothing was learned"] if cell.saturated else []
    if cell.row.get("theorem"):
        words.append(f"covered by {cell.row['theorem']}")
    return "; ".join(words)


def _test_section(group: Group) -> dict[str, Any]:
    """Return the declared comparisons of a group, those with the best cell first, then by p-value."""
    tests = sorted(group.comparisons.values(), key=lambda each: (each.test.first, -_known(each.test.adjusted)))
    rows = [
        {
            "name": f"{group.names[test.second]} against {group.names[test.first]}",
            "difference": effect_text(test.effect.reversed()),
            "p_value": p_text(test.p_value),
            "adjusted": p_text(test.adjusted),
            "verdict": ("significant" if test.significant else "no significant difference") if test.tested else "",
        }
        for _, test in tests[:_MOST_TESTS]
    ]
    if len(tests) > _MOST_TESTS:
        rest = f"and {counted(len(tests) - _MOST_TESTS, 'other')}, in comparisons.csv"
        rows.append(dict.fromkeys(("difference", "p_value", "adjusted", "verdict"), "") | {"name": rest})
    family = counted(sum(each.test.tested for each in tests), "declared comparison")
    return {"title": group.title, "best": group.names[0], "family": family, "rows": rows}


def _known(value: float) -> float:
    return 1.0 if math.isnan(value) else value
