"""The best algorithm at each privacy budget: cards at one budget, and a table for every group of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dprl.platform.reports.cell_texts import algorithm_name, trust_word
from dprl.platform.reports.comparing.declared import SAME_EPSILON
from dprl.platform.reports.comparing.findings import Budget, Finding, Rival, findings_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.sentences import far_below_budget, headline_finding
from dprl.platform.reports.documents.blocks import (
    Block,
    Card,
    Column,
    Heading,
    Inline,
    Paragraph,
    Rich,
    Section,
    Table,
    beside,
    styled,
)
from dprl.platform.reports.number_texts import delta_number, effect_text, epsilon_text, estimate_text
from dprl.platform.reports.pages.markup import (
    BADGES,
    DASH,
    Names,
    Strips,
    badge_of,
    effect_inline,
    small,
    with_grey_interval,
)
from dprl.platform.reports.pages.values import (
    IN_CSV,
    capital,
    own_rewards,
    result_text,
    settings_of,
    short_title,
    shown,
    value_label,
)
from dprl.platform.reports.records import SATURATION_NOTE, SATURATION_REMEDY, is_gap, results_in

_MOST_GROUPS = 12
"""Maximum of groups with a table; the others are in report.csv."""
_MOST_ROWS = 60
"""Maximum of budgets in a table; the others are in report.csv."""
_MOST_CARDS, _MOST_OTHERS = 6, 3
_REGRET_STAYED = "Their last policies have nearly the regret of the first ones."


@dataclass(frozen=True)
class BudgetTables:
    """The findings of a report as cards and tables. groups: those with a headline. names: of their algorithms."""

    groups: Sequence[Group]
    names: Names

    def blocks(self) -> list[Block]:
        """Return the section of cards at the budget of the lead, if there is one, and that of the tables."""
        found = headline_finding(self.groups)
        cards = [] if found is None else [self._cards(found.group, found.budget.epsilon)]
        if not self.groups:
            return [*cards]
        first = [found.group] if found is not None else []
        ordered = [*first, *(group for group in self.groups if group not in first)]
        leading, *others = ordered[:_MOST_GROUPS]
        tables: list[Block] = [Heading(self._title(leading), 3), *self._table(leading)]
        tables += [Section(self._table(group), folded=self._title(group)) for group in others]
        if len(ordered) > _MOST_GROUPS:
            left_out = len(ordered) - _MOST_GROUPS
            tables.append(Paragraph(beside(f"And {left_out} further groups of cells, see", IN_CSV), "note"))
        return [*cards, Section(tables, "budgets")]

    def _cards(self, group: Group, epsilon: float) -> Section:
        here = [each for each in _private(group) if each.best is not None and _same(each.budget.epsilon, epsilon)]
        others = [each for each in self.groups if each is not group and each.metric == group.metric][:_MOST_OTHERS]
        costs = any(each.cost is not None for each in here)
        what = value_label(group).lower()
        note = f"The best {what} of all cells within the budget."
        if costs:
            of = " of the best algorithm, against" if _several(group) else ", against"
            note = f"{value_label(group)}{of} the same algorithm without privacy."
        if others:
            note = f"{note} The first value is for {short_title(group, self.groups)}."
        title = f"{'What privacy costs' if costs else 'The best'} at \u03b5 \u2264 {epsilon_text(epsilon, 4)}"
        cards = Section([self._card(each, others) for each in here[:_MOST_CARDS]], style="cards")
        return Section([Heading(title), Paragraph(note, "note"), cards], "cost")

    def _card(self, finding: Finding, others: Sequence[Group]) -> Card:
        group, cell = finding.group, finding.cell
        value, cost = estimate_text(shown(group, cell)), finding.cost
        big, _, interval = (value if cost is None else effect_text(cost)).partition(" [")
        word = group.metric.label if group.metric is not None else ""
        sub = value_label(group).lower()
        rows: list[tuple[str, Inline]] = [
            (
                "best" if _several(group) else "algorithm",
                beside(self.names.with_swatch(cell), small(settings_of(group, cell))),
            ),
            *([("its noise", own)] if (own := far_below_budget(finding)) else []),
        ]
        if cost is not None:
            sub = f"the {word} without privacy" if cost.scale == "log" else f"{word} against no privacy"
            sub += finding.cost_remark
            rows.append((word, beside(with_grey_interval(value), small(own_rewards(group, cell)))))
        rows += [(short_title(other, self.groups), text) for other in others if (text := _elsewhere(other, finding))]
        rows += [
            (metric.label, with_grey_interval(result_text(cell.row, metric))) for metric in results_in(cell.row, is_gap)
        ]
        key, title = badge_of(cell.certificate), _budget_title(finding.budget)
        badge = "" if key == "holds" else BADGES[key].inline
        return Card(capital(title), big, sub, f"[{interval}" if interval else "", rows, badge)

    def _title(self, group: Group) -> str:
        findings = findings_of(group)
        where = "at each budget" if any(each.budget.model != "none" for each in findings) else "without privacy"
        what = "Best algorithm" if _several(group) else "Results"
        return f"{what} {where}{', ' + short_title(group, self.groups) if len(self.groups) > 1 else ''}"

    def _table(self, group: Group) -> list[Block]:
        """Return the table of a group, and notes on it."""
        findings = [*_private(group), *(each for each in findings_of(group) if each.budget.model == "none")]
        cut = findings[:_MOST_ROWS]
        axis = Strips([each.cost for each in cut])
        label = value_label(group)
        columns = [Column("Budget", "budget"), Column("Trust and \u03b4", "trust")]
        columns.append(Column("Best algorithm" if _several(group) else "Algorithm", "best"))
        columns.append(Column(label, "n value", label.lower()))
        if costs := any(each.cost is not None for each in cut):
            columns += [Column("Cost of privacy", "n cost"), Column(axis.header(), "st")]
        if rivals := any(each.next_best is not None for each in cut):
            columns.append(Column("Next, at equal noise", "next", "next"))
        lines, styles = [], []
        for i, each in enumerate(cut):
            first = i == 0 or not _same(each.budget.epsilon, cut[i - 1].budget.epsilon)
            cells = [*_budget_cells(each, first=first), *self._cells(each, axis)]
            kept = [cells[:4], cells[4:6] * costs, cells[6:] * rivals]
            lines.append([cell for part in kept for cell in part])
            styles.append("first" if first else "")
        return [Table(columns, lines, "budgets", styles), *self._notes(group, len(findings) - len(cut))]

    def _notes(self, group: Group, left_out: int) -> list[Block]:
        notes: list[Block] = []
        if left_out:
            notes.append(Paragraph(beside(f"And {left_out} further budgets, see", IN_CSV), "note"))
        if unlearned := sum(cell.unlearned for cell in group.cells):
            term = f"Nothing was learned in {unlearned} of {len(group.cells)} cells"
            saturated = any(cell.saturated for cell in group.cells)
            why = f"{capital(SATURATION_NOTE)}; try {SATURATION_REMEDY}." if saturated else _REGRET_STAYED
            notes.append(Paragraph(why, "note", term))
        return notes

    def _cells(self, finding: Finding, axis: Strips) -> list[Inline]:
        """Return the best cell with its value, its cost with a strip, and the next best cell."""
        if finding.best is None:
            return ["no cell certifies it"]
        group, cell, free = finding.group, finding.cell, finding.budget.model == "none"
        key = badge_of(cell.certificate)
        badge = "" if key in ("holds", "reference") else BADGES[key].inline
        tag = styled("nothing was learned", "span", "tag") if cell.unlearned else ""
        return [
            beside(self.names.with_swatch(cell), small(settings_of(group, cell)), badge, tag),
            beside(with_grey_interval(estimate_text(shown(group, cell))), small(own_rewards(group, cell))),
            DASH if free else effect_inline(finding.cost),
            axis.strip(finding.cost, self.names.css(cell)),
            self._rival(finding),
        ]

    def _rival(self, finding: Finding) -> Inline:
        """Return the next best cell and its effect: at equal noise if a cell of another algorithm has it."""
        rival = finding.other_algorithm or finding.next_best
        if rival is None:
            return ""
        cell = finding.group.cells[rival.place]
        settings = settings_of(finding.group, cell) if "algorithm" not in rival.differs_in else ()
        effect = "" if rival.effect is None else effect_text(rival.effect).partition(" [")[0]
        noise = (rival.noise.removeprefix(", "),) if rival.noise else ()
        return beside(self.names.plain(cell), effect, _tag(rival), small((*settings, *noise)))


def _budget_cells(finding: Finding, *, first: bool) -> list[Inline]:
    """Return a budget and its trust model; an epsilon equal to the one above is shown on narrow screens only."""
    budget, free = finding.budget, finding.budget.model == "none"
    epsilon = "\u03b5 = \u221e" if free else f"\u03b5 \u2264 {epsilon_text(budget.epsilon, 4)}"
    return [styled(epsilon, "b", "" if first else "again"), "no privacy" if free else _budget_title(budget)]


def _budget_title(budget: Budget) -> str:
    """Return trust model and delta of a budget, e.g. 'central, \u03b4 \u2264 10\u207b\u2076'."""
    sign = "\u2264" if budget.delta else "="
    return f"{trust_word(budget.model)}, \u03b4 {sign} {delta_number(budget.delta)}"


def _tag(rival: Rival) -> Rich:
    """Return the limits of a comparison with the next best cell, '' for a significant one at equal noise."""
    text = "" if rival.significant else "not significant" if rival.significant is not None else "not tested"
    if "noise" in rival.differs_in:
        text = "other noise, too" if rival.effect is None else f"other noise{', ' + text if text else ''}"
    return styled(text, "span", "tag")


def _elsewhere(group: Group, finding: Finding) -> Rich | None:
    """Return the cost, or the headline, of another group's best cell at the same budget."""
    for each in _private(group):
        if each.budget == finding.budget and each.best is not None:
            text = estimate_text(shown(group, each.cell)) if each.cost is None else effect_text(each.cost)
            return with_grey_interval(text)
    return None


def _private(group: Group) -> list[Finding]:
    """Return the findings with privacy: small epsilons first, then by trust model, large deltas first."""
    found = [each for each in findings_of(group) if each.budget.model != "none"]
    return sorted(found, key=lambda each: (each.budget.epsilon, each.budget.model, -each.budget.delta))


def _several(group: Group) -> bool:
    """Whether a group has several algorithms; one alone is not the best of them."""
    return len({algorithm_name(cell.row) for cell in group.cells}) > 1


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME_EPSILON - 1.0)
