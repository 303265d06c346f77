"""The answer of a report in one sentence, and the best cell within each privacy budget as texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dprl.platform.reports.cell_texts import algorithm_name, trust_word
from dprl.platform.reports.comparing.findings import Finding, findings_of
from dprl.platform.reports.comparing.groups import Group, standing_text
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.inference.effects import Estimate
from dprl.platform.reports.inference.pairs import LEVEL
from dprl.platform.reports.number_texts import delta_number, effect_text, epsilon_text, estimate_text, rounded

_ANSWER = "{algorithm} has the {extreme} {label} within {need} on {group}"
_NOTHING = "Nothing was learned within any certified privacy budget on {group}"
_NUMBERS = "{metric}: {value}. Cost of privacy: {cost}. Next: {next_best}."
_EXTREME = {"low": "lowest", "high": "highest"}
_DASH = "\u2013"
HEADERS = ("Group", "Privacy budget", "Best", "Metric", "Value", "Cost of privacy", "Next best")
TEXTS = ("Group", "Privacy budget", "Best", "Metric", "Next best")
"""Headers of a table of answers, and those of texts."""


class _Answer(NamedTuple):
    """The best cell of a group within a budget, as texts.

    need: trust model and budget. best: its name, '' if no cell is within the budget. metric, value: its headline,
    per episode if it is a sum, with its interval. cost: the ratio to the same algorithm without privacy. next_best: the
    next cell of another algorithm at equal noise, else that of another algorithm or noise, with its effect against the
    best one and the test.
    """

    group: str
    need: str
    best: str
    metric: str
    value: str
    cost: str
    next_best: str


def answers_of(group: Group) -> list[_Answer]:
    """Return the answers of a group that has a headline, by trust model, small budgets first."""
    return [_answer(finding) for finding in findings_of(group)]


def heading(groups: Sequence[Group]) -> str:
    """Return the answer of the report in one sentence, '' if no group has a headline."""
    found = headline_finding(groups)
    if found is None:
        return ""
    if found.best is None:
        return "No cell certifies a finite \u03b5"
    metric = found.group.metric
    template = _NOTHING if found.budget.model != "none" and found.cell.unlearned else _ANSWER
    return template.format(
        algorithm=algorithm_name(found.cell.row),
        extreme=_EXTREME[metric.better] if metric is not None else "",
        label=value_label(found.group).lower(),
        need=_budget_text(found),
        group=found.group.title,
    )


def lead(groups: Sequence[Group]) -> str:
    """Return the numbers behind the heading, '' if there is no best cell."""
    found = headline_finding(groups)
    if found is None or found.best is None:
        return ""
    texts = {key: text or _DASH for key, text in _answer(found)._asdict().items()}
    return _NUMBERS.format(**texts)


def headline_finding(groups: Sequence[Group]) -> Finding | None:
    """Return the finding that represents a report, None if no group has a headline.

    It is of the largest group: with privacy, of the first trust model at the epsilon nearest to 1 among those at which
    most trust models have a best cell that learned; else that without privacy.
    """
    compared = [group for group in groups if group.metric is not None]
    every = [each for group in compared for each in findings_of(group)]
    told = [each for each in every if each.best is not None and each.budget.model != "none"]
    if not told:
        private = [each for each in every if each.budget.model != "none"]
        return next(iter([*private, *every]), None)
    told = [each for each in told if each.group.metric == told[0].group.metric]
    group = max((each.group for each in told), key=lambda group: len(group.cells))
    here = [each for each in told if each.group is group]
    learned = [each for each in here if not each.cell.unlearned] or here

    def rank(epsilon: float) -> tuple[int, float]:
        models = {each.budget.model for each in learned if each.budget.epsilon == epsilon}
        return -len(models), abs(math.log(epsilon)) if epsilon > 0 else math.inf

    epsilon = min(sorted({each.budget.epsilon for each in learned}), key=rank)
    chosen = [each for each in learned if each.budget.epsilon == epsilon]
    # The largest of several deltas, because its cells include those of the others.
    return [each for each in chosen if each.budget.model == chosen[0].budget.model][-1]


def requested(groups: Sequence[Group]) -> list[list[str]]:
    """Return a row for each pair of cells that a user asked to compare: group, both names, effect and test."""
    rows = []
    for group in (group for group in groups if group.metric is not None):
        for i, j in map(sorted, group.asked):
            test = group.comparisons[i, j].test
            names = group.title, group.names[i], group.names[j]
            rows.append([*names, effect_text(test.effect), _test_text(test.adjusted)])
    return rows


def shown(group: Group, cell: ReportCell) -> Estimate:
    """Return a cell's headline over seeds, per episode if it is a sum."""
    found = cell.estimate
    if group.metric is None or group.metric.over != "sum":
        return found
    value, lower, upper = (x / group.episodes for x in found[:3])
    return Estimate(value, lower, upper, found.scale)


def value_label(group: Group) -> str:
    """Return the name of the number that `shown` returns, e.g. 'Regret per episode'."""
    if group.metric is None:
        return ""
    label = group.metric.label.capitalize()
    return f"{label} per {group.unit}" if group.metric.over == "sum" else label


def _answer(finding: Finding) -> _Answer:
    group, need = finding.group, _budget_text(finding)
    if finding.best is None:
        return _Answer(group.title, need, "", "", "", "", "")
    cost = "" if finding.cost is None else effect_text(finding.cost)
    name = f"{group.names[finding.best]}{' (nothing was learned)' if finding.cell.unlearned else ''}"
    value = estimate_text(shown(group, finding.cell))
    next_best = _rival_text(finding, finding.best)
    return _Answer(group.title, need, name, value_label(group), value, cost, next_best)


def _budget_text(finding: Finding) -> str:
    """Return the budget, e.g. 'central privacy, certified \u03b5 \u2264 3, \u03b4 \u2264 10\u207b\u2076'."""
    budget = finding.budget
    if budget.model == "none":
        return "no privacy"
    delta = f"\u03b4 \u2264 {delta_number(budget.delta)}" if budget.delta else "\u03b4 = 0"
    return f"{trust_word(budget.model)} privacy, certified \u03b5 \u2264 {epsilon_text(budget.epsilon, 4)}, {delta}"


def _rival_text(finding: Finding, best: int) -> str:
    """Return the next cell, its effect against the best one, the factors that differ, and the test; '' without one."""
    group, rival = finding.group, finding.other_algorithm or finding.next_best
    if rival is None:
        return ""
    short, own = (group.names[i].replace(f", {standing_text(group.cells[i])}", "") for i in (rival.place, best))
    effect = "no ratio" if rival.effect is None else effect_text(rival.effect)
    noise = "" if math.isnan(rival.noise) or rival.noise == 1.0 else f" ({rounded(rival.noise, 2)} times the noise)"
    name = group.names[rival.place] if short == own else short
    return f"{name}: {effect}, other {' and '.join(rival.differs_in)}{noise}, {_test_text(rival.p_value)}"


def _test_text(adjusted: float) -> str:
    """Return the result of a test by its adjusted p-value, NaN without a test."""
    if math.isnan(adjusted):
        return "not tested"
    p_value = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.2g}"
    return f"significant, {p_value}" if adjusted <= LEVEL else f"no significant difference, {p_value}"
