"""The best algorithm at each privacy budget: cards at one budget, and a table for every group of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dprl.platform.reports.comparing.declared import SAME_EPSILON
from dprl.platform.reports.comparing.findings import Budget, Finding, Rival, findings_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import epsilon_number, headline_finding
from dprl.platform.reports.number_texts import delta_number, effect_text, estimate_text
from dprl.platform.reports.pages.markup import BADGES, DASH, Names, badge_of, effect_html, small, with_grey_interval
from dprl.platform.reports.pages.strips import Strips
from dprl.platform.reports.pages.values import result_text, settings_of, short_title, shown, value_label
from dprl.platform.reports.records import gaps_in

_MODELS = {"jdp": "central", "ldp": "local"}
_MOST_GROUPS = 12
"""Groups with a table; the others are in report.csv."""
_MOST_ROWS = 60
"""Budgets of a group, likewise."""
_MOST_CARDS, _MOST_OTHERS = 6, 3


@dataclass(frozen=True)
class BudgetTables:
    """The findings of a report as cards and tables. groups: those with a headline. names: of their algorithms."""

    groups: Sequence[Group]
    names: Names

    def cards(self) -> dict[str, Any] | None:
        """Return the cards at the budget of the lead, None without privacy."""
        found = headline_finding(self.groups)
        if found is None:
            return None
        group, epsilon = found[0], found[1].budget.epsilon
        here = [each for each in _private(group) if each.best is not None and _same(each.budget.epsilon, epsilon)]
        others = [each for each in self.groups if each is not group and each.metric == group.metric][:_MOST_OTHERS]
        costs = any(each.cost is not None for each in here)
        what = value_label(group).lower()
        note = f"The best {what} of all cells within the budget."
        if costs:
            note = f"{value_label(group)} of the best algorithm, against the same algorithm without privacy."
        if others:
            note = f"{note} {_capital(short_title(group, self.groups))} in large type."
        return {
            "title": f"{'What privacy costs' if costs else 'The best'} at \u03b5 \u2264 {epsilon_number(epsilon)}",
            "note": note,
            "cards": [self._card(group, each, others) for each in here[:_MOST_CARDS]],
        }

    def tables(self) -> list[dict[str, Any]]:
        """Return the table of each group, the one of the lead first."""
        found = headline_finding(self.groups)
        first = [found[0]] if found is not None else []
        ordered = [*first, *(group for group in self.groups if group not in first)]
        return [self._table(group) for group in ordered[:_MOST_GROUPS]]

    @property
    def left_out(self) -> int:
        """How many groups have no table."""
        return max(0, len(self.groups) - _MOST_GROUPS)

    def _card(self, group: Group, finding: Finding, others: Sequence[Group]) -> dict[str, Any]:
        cell = _best(group, finding)
        value, cost = estimate_text(shown(group, cell)), finding.cost
        big, _, interval = (value if cost is None else effect_text(cost)).partition(" [")
        word = group.metric.label if group.metric is not None else ""
        sub = value_label(group).lower()
        rows = [("best", self.names.html(cell) + small(settings_of(group, cell)))]
        if cost is not None:
            sub = f"the {word} without privacy" if cost.scale == "log" else f"{word} against no privacy"
            rows.append((word, with_grey_interval(value)))
        rows += [(short_title(other, self.groups), text) for other in others if (text := _elsewhere(other, finding))]
        rows += [(metric.label, with_grey_interval(result_text(cell.row, metric))) for metric in gaps_in(cell.row)]
        key, title = badge_of(cell), budget_title(finding.budget)
        return {
            "title": _capital(title),
            "big": big,
            "sub": sub,
            "interval": f"[{interval}" if interval else "",
            "rows": rows,
            "badge": "" if key == "holds" else BADGES[key].html,
        }

    def _table(self, group: Group) -> dict[str, Any]:
        findings = [*_private(group), *(each for each in findings_of(group) if each.budget.model == "none")]
        cut = findings[:_MOST_ROWS]
        axis = Strips([each.cost for each in cut])
        starts = [i == 0 or not _same(each.budget.epsilon, cut[i - 1].budget.epsilon) for i, each in enumerate(cut)]
        several = len(self.groups) > 1
        where = "at each budget" if any(each.budget.model != "none" for each in cut) else "without privacy"
        return {
            "title": f"Best algorithm {where}{', ' + short_title(group, self.groups) if several else ''}",
            "label": value_label(group),
            "rows": [self._row(group, each, axis) | {"first": first} for each, first in zip(cut, starts, strict=True)],
            "ticks": axis.header(),
            "costs": any(each.cost is not None for each in cut),
            "rivals": any(each.next_best is not None for each in cut),
            "left_out": len(findings) - len(cut),
            "saturated": sum(cell.saturated for cell in group.cells),
            "count": len(group.cells),
        }

    def _row(self, group: Group, finding: Finding, axis: Strips) -> dict[str, Any]:
        budget, free = finding.budget, finding.budget.model == "none"
        about: dict[str, Any] = {
            "budget": "\u03b5 = \u221e" if free else f"\u03b5 \u2264 {epsilon_number(budget.epsilon)}",
            "trust": "no privacy" if free else budget_title(budget),
            "missing": "" if finding.best is not None else "no cell certifies it",
        }
        if finding.best is None:
            return about
        cell = _best(group, finding)
        key = badge_of(cell)
        return {
            **about,
            "best": self.names.html(cell) + small(settings_of(group, cell)),
            "badge": "" if key in ("holds", "reference") else BADGES[key].html,
            "saturated": cell.saturated,
            "value": with_grey_interval(estimate_text(shown(group, cell))),
            "cost": DASH if free else effect_html(finding.cost),
            "css": self.names.css(cell),
            "strip": axis.strip(finding.cost),
            "next": self._rival(group, finding),
        }

    def _rival(self, group: Group, finding: Finding) -> Markup:
        """Return the next best cell and its effect: at equal noise if a cell of another algorithm has it."""
        rival = finding.other_algorithm or finding.next_best
        if rival is None:
            return Markup("")
        cell = group.cells[rival.place]
        settings = settings_of(group, cell) if "algorithm" not in rival.differs_in else ()
        effect = "" if rival.effect is None else effect_text(rival.effect).partition(" [")[0]
        return Markup("{} {}{}{}").format(self.names.plain(cell), effect, _tag(rival), small(settings))


def budget_title(budget: Budget) -> str:
    """Return trust model and delta of a budget, e.g. 'central, \u03b4 \u2264 10\u207b\u2076'."""
    sign = "\u2264" if budget.delta else "="
    return f"{_MODELS.get(budget.model, budget.model)}, \u03b4 {sign} {delta_number(budget.delta)}"


def _tag(rival: Rival) -> Markup:
    """Return what limits a comparison with the next best cell, '' for a significant one."""
    text = "" if rival.significant else "not significant" if rival.significant is not None else "not tested"
    if rival.effect is None:
        text = "other noise, too"
    return Markup(' <span class="tag">{}</span>').format(text) if text else Markup("")


def _elsewhere(group: Group, finding: Finding) -> Markup | None:
    """Return the cost, or the headline, of another group's best cell at the same budget."""
    for each in _private(group):
        if each.budget == finding.budget and each.best is not None:
            text = estimate_text(shown(group, _best(group, each))) if each.cost is None else effect_text(each.cost)
            return with_grey_interval(text)
    return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _best(group: Group, finding: Finding) -> ReportCell:
    if finding.best is None:
        raise ValueError("finding must have a best cell")
    return group.cells[finding.best]


def _private(group: Group) -> list[Finding]:
    """Return the findings with privacy: small epsilons first, then by trust model, large deltas first."""
    found = [each for each in findings_of(group) if each.budget.model != "none"]
    return sorted(found, key=lambda each: (each.budget.epsilon, each.budget.model, -each.budget.delta))


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME_EPSILON - 1.0)
