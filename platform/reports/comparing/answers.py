"""Findings as rows of text: the best algorithm at each privacy budget, and its lead."""

from __future__ import annotations

from dataclasses import dataclass

from dprl.platform.reports.comparing.findings import Finding, findings_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.sentences import MIXED, budget_text, comparison_text, rival_text
from dprl.platform.reports.number_texts import effect_text, estimate_text


@dataclass(frozen=True)
class Answer:
    """The best cell of a group within a budget.

    need: trust model and budget in words. best: its name, '' if no cell is within the budget. value: its headline with
    its interval. next_best: the next cell of another algorithm or noise, with its ratio to the best one and the test;
    where both differ, the ratio at equal noise. cost: the ratio to the same algorithm without privacy. note: further
    remarks. short: next_best without names.
    """

    need: str
    best: str
    value: str
    next_best: str
    cost: str
    note: str
    short: str = ""


def answers_of(group: Group) -> list[Answer]:
    """Return the answers of a group that has a headline, by trust model, small budgets first."""
    several = len({cell.delta for cell in group.cells if cell.private}) > 1
    return [_answer(finding, with_delta=several) for finding in findings_of(group)]


def _answer(finding: Finding, *, with_delta: bool) -> Answer:
    need = budget_text(finding.budget, with_delta=with_delta)
    if finding.best is None:
        return Answer(need, "", "", "", "", "no cell certifies it")
    cost = "" if finding.cost is None else effect_text(finding.cost)
    value = estimate_text(finding.cell.estimate)
    texts = (value, _next_best(finding), cost, _note(finding), _short(finding))
    return Answer(need, finding.name, *texts)


def _next_best(finding: Finding) -> str:
    group, rival, equal = finding.group, finding.next_best, finding.other_algorithm
    if rival is None:
        return ""
    if not rival.mixed:
        return rival_text(group, rival)
    at_equal = "no cell has the same noise" if equal is None else f"at equal noise {rival_text(group, equal)}"
    return f"{group.names[rival.place]}: {MIXED}; {at_equal}"


def _short(finding: Finding) -> str:
    """Return the ratio to the next best cell, at equal noise where algorithm and noise differ, and its test."""
    rival = finding.next_best
    if rival is None:
        return ""
    if rival.mixed:
        equal = finding.other_algorithm
        return MIXED if equal is None else f"{comparison_text(equal)} at equal noise"
    return comparison_text(rival)


def _note(finding: Finding) -> str:
    """Return remarks: whether nothing was learned, and whether the cell is the only one."""
    cells = [cell for cell in finding.group.cells if finding.budget.allows(cell)]
    notes = []
    if cells[0].unlearned:
        every = len(cells) > 1 and all(cell.unlearned for cell in cells)
        notes.append("nothing was learned in any of these cells" if every else "nothing was learned in it")
    if len(cells) == 1:
        notes.append("the only cell")
    return "; ".join(notes)
