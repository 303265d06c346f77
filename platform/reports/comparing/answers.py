"""The answer of a report in one sentence, and the best cell within each privacy budget as texts."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

from dprl.platform.reports.cell_texts import algorithm_name
from dprl.platform.reports.comparing.findings import Finding, findings_of, reference_of
from dprl.platform.reports.comparing.groups import Group, standing_text
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Table
from dprl.platform.reports.inference.effects import Effect, Estimate, effect, estimate
from dprl.platform.reports.inference.pairs import LEVEL
from dprl.platform.reports.number_texts import (
    cost_text,
    delta_number,
    effect_text,
    epsilon_text,
    estimate_text,
    rounded,
    size_text,
)
from dprl.platform.reports.records import FINAL_SCORE, is_final_score, results_in
from dprl.platform.reports.verdicts import trust_word

_ANSWER = "{algorithm} has the {extreme} {label} {need} on {group}"
_ALONE = "{need} the {label} of {algorithm} is {value} on {group}"
_COSTS = {
    "log": "{need} privacy multiplies the {label} of {algorithm} by {cost} on {group}",
    "linear": "{need} privacy {changes} the {label} of {algorithm} by {cost} on {group}",
}
"""Headings of a single algorithm, by the scale of the cost of privacy."""
_NOTHING = "Nothing was learned within any certified privacy budget on {group}"
_NO_CELL = "no cell certifies this"
_EXTREME = {"low": "lowest", "high": "highest"}
_HEADERS = ("Group", "Metric", "Budget", "Best", "Value", "Cost of privacy", "Next best")
_TEXTS = ("Group", "Metric", "Budget", "Best", "Next best")


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


def budget_table(groups: Sequence[Group]) -> tuple[str, Table]:
    """Return the heading and the table of the best cell at each budget; a metric or group of all is in the heading."""
    answers = [answer for group in groups for answer in answers_of(group)]
    metrics, titles = ({*map(operator.attrgetter(name), answers)} for name in ("metric", "group"))
    words = [min(metrics).lower()] if len(metrics) == 1 else []
    words += [f"on {min(titles)}"] if len(titles) == 1 else []
    rows = [
        [
            each.group if len(titles) > 1 else "",
            each.metric if len(metrics) > 1 else "",
            each.need,
            each.best or _NO_CELL,
            *each[-3:],
        ]
        for each in answers
    ]
    title = "Best cell at each privacy budget"
    return f"{title}: {' '.join(words)}" if words else title, Table(_HEADERS, rows, _TEXTS).without_empty_columns()


def heading(groups: Sequence[Group]) -> str:
    """Return the answer of the report in one sentence, '' if no group has a headline."""
    found = headline_finding(groups)
    if found is None:
        return ""
    if found.best is None:
        return "No cell certifies a finite \u03b5"
    group, cell = found.group, found.cell
    if found.budget.model != "none" and cell.unlearned:
        return _NOTHING.format(group=group.title)
    told, label, value, cost = algorithm_name(cell.row), *_numbers(found)
    named = {"algorithm": told, "group": group.title, "label": label.lower(), "need": _at_text(found)}
    if len({algorithm_name(each.row) for each in group.cells}) > 1:
        extreme = _EXTREME[group.metric.better] if group.metric is not None else ""
        return _ANSWER.format(extreme=extreme, **named | {"label": value_label(group).lower()})
    named["need"] = f"{named['need'][:1].upper()}{named['need'][1:]}"
    if cost is None:
        return _ALONE.format(value=estimate_text(value), **named)
    unsure = cost.lower < 0 < cost.upper  # of a difference: an interval that contains 0 has no direction
    changes = "changes" if unsure else "lowers" if cost.value < 0 else "raises"
    size = effect_text(cost).replace("\u00d7", "") if unsure or cost.scale == "log" else size_text(cost)
    return _COSTS[cost.scale].format(cost=size, changes=changes, **named)


def lead(groups: Sequence[Group]) -> str:
    """Return the numbers behind the heading, '' if there is no best cell."""
    found = headline_finding(groups)
    if found is None or found.best is None:
        return ""
    label, value, cost = _numbers(found)
    told = [f"{label}: {estimate_text(value)}"]
    if cost is not None and cost.scale == "log":
        told.append(f"Cost of privacy: {cost_text(cost)}")
    elif cost is not None:
        told[0] += f", {cost_text(cost)} than without privacy"
    if label == value_label(found.group) and (rival := _rival_text(found, found.best)):
        told.append(f"Next: {rival}")
    return f"{'. '.join(told)}."


def _numbers(finding: Finding) -> tuple[str, Estimate, Effect | None]:
    """Return a number of the best cell, its name, and the cost of privacy in it.

    It is the final score where all cells have one, which is in the first figure, else the headline.
    """
    group, cell = finding.group, finding.cell
    finals = results_in({*cell.row}, is_final_score)
    if not finals or not all(finals[0].name in each.row and each.folders for each in group.cells):
        return value_label(group), shown(group, cell), finding.cost
    places = [] if finding.cost is None or finding.best is None else [reference_of(group, finding.best)]
    ours, *free = (group.cells[i].values_of(finals[0])[1][:, -1] for i in (finding.best, *places) if i is not None)
    cost = effect(ours, free[0], "linear") if free else None
    return FINAL_SCORE, estimate(ours, "linear", finals[0].range(float(cell.row.get("env.horizon", math.inf)))), cost


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
        return _Answer(group.title, need, "", value_label(group), "", "", "")
    cost = "" if finding.cost is None else cost_text(finding.cost)
    name = f"{group.names[finding.best]}{' (nothing was learned)' if finding.cell.unlearned else ''}"
    value = estimate_text(shown(group, finding.cell))
    next_best = _rival_text(finding, finding.best)
    return _Answer(group.title, need, name, value_label(group), value, cost, next_best)


def _budget_text(finding: Finding) -> str:
    """Return the budget, e.g. 'central, certified \u03b5 \u2264 3, \u03b4 \u2264 10\u207b\u2076'."""
    if finding.budget.model == "none":
        return "no privacy"
    model, epsilon, delta = _parts(finding)
    return f"{model}, certified {epsilon}, {delta}"


def _at_text(finding: Finding) -> str:
    """Return the budget in a sentence, e.g. 'at certified \u03b5 \u2264 3 (central, \u03b4 = 0)'."""
    if finding.budget.model == "none":
        return "without privacy"
    model, epsilon, delta = _parts(finding)
    return f"at certified {epsilon} ({model}, {delta})"


def _parts(finding: Finding) -> tuple[str, str, str]:
    model, epsilon, delta = finding.budget
    at = f"\u03b4 \u2264 {delta_number(delta)}" if delta else "\u03b4 = 0"
    return trust_word(model), f"\u03b5 \u2264 {epsilon_text(epsilon, 4)}", at


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
