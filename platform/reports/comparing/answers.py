"""Which algorithm, at which epsilon: the best cell of every group within each privacy budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dprl.platform.errors import counted
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.verdicts import number

_MOST_NAMED = 3
"""Cells that are named one by one; of further ones the number is enough."""
NO_TEST = f"no test: fewer than {FEWEST_SEEDS} seeds"
_SAME = 1.0 + 1e-6
"""Proved epsilons may exceed a budget by roundings."""


@dataclass(frozen=True)
class Answer:
    """The best cell of a group within a budget.

    need: trust model and budget in words. best: its name, '' if no cell is within the budget. value: its headline with
    Student's interval. tied: what is not told apart from it, with p-values. note: what else must be known. n_tied: how
    many of the n_others within the budget are not told apart from it.
    """

    need: str
    best: str
    value: str
    tied: str
    note: str
    n_tied: int = 0
    n_others: int = 0

    @property
    def short(self) -> str:
        """The tests on one short line."""
        if not self.n_tied or self.tied == NO_TEST:
            return self.tied
        return f"not told apart from {self.n_tied} of {self.n_others}"


class _Budget(NamedTuple):
    """What a user may want at most."""

    epsilon: float
    delta: float

    def allows(self, cell: ReportCell) -> bool:
        """Whether the cell proves its epsilon at its delta, and both are within the budget."""
        return cell.proved <= self.epsilon * _SAME and _delta(cell) <= self.delta

    def text(self, *, named: bool) -> str:
        """Return it in words, its delta if it is to be `named`."""
        text = f"proved \u03b5 \u2264 {number(self.epsilon)}"
        if not named:
            return text
        return f"{text} at \u03b4 \u2264 {self.delta:g}" if self.delta else f"{text} at \u03b4 = 0"


def answers_of(group: Group) -> list[Answer]:
    """Return the answers of a group that has a headline: trust model by trust model, small budgets first."""
    if group.metric is None:
        return []
    models = dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells if cell.private)
    found = [_answer(group, model, budget) for model in sorted(models) for budget in _budgets(group, model)]
    free = [i for i, cell in enumerate(group.cells) if not cell.private]
    return [*found, _best(group, "no privacy", free)] if free else found


def value_text(cell: ReportCell, ends: tuple[float, float]) -> str:
    """Return the headline of a cell's whole run, the mean over its seeds, with these ends if they are known."""
    mean = number(float(cell.finals.mean()))
    return mean if math.isnan(ends[0]) else f"{mean} [{number(ends[0])}, {number(ends[1])}]"


def interval_ends(cell: ReportCell) -> tuple[float, float]:
    """Return the ends of Student's interval of a cell's headline, which is one number a seed."""
    if cell.metric is None:
        return math.nan, math.nan
    low, high = (float(cell.row.get(f"{cell.metric.name}_{end}", math.nan)) for end in ("lower", "upper"))
    return max(low, 0.0) if cell.metric.over == "sum" else low, high


def band_ends(cell: ReportCell) -> tuple[float, float]:
    """Return the ends of the band of a cell's headline: of a sum those of the band of its whole curve at its end.

    A mean over the run is no point of a curve, and has Student's interval.
    """
    if cell.metric is None or cell.metric.over != "sum":
        return interval_ends(cell)
    mean, half = cell.band
    return max(float(mean[-1] - half[-1]), 0.0), float(mean[-1] + half[-1])


def _delta(cell: ReportCell) -> float:
    """Return the delta at which a cell's epsilon is claimed and proved, 0 for a pure one."""
    return float(cell.row.get("claimed_delta", 0.0))


def _budgets(group: Group, model: str) -> list[_Budget]:
    """Return what cells of a trust model claim, and beyond it at each delta the largest epsilon that is proved."""
    cells = [cell for cell in group.cells if cell.row["privacy.model"] == model]
    found = set()
    for delta in {_delta(cell) for cell in cells}:
        here = [cell for cell in cells if _delta(cell) == delta]
        claimed = {float(cell.row["claimed_epsilon"]) for cell in here if "claimed_epsilon" in cell.row}
        proved = max((cell.proved for cell in here if math.isfinite(cell.proved)), default=0.0)
        beyond = {proved} if proved > max(claimed, default=0.0) * _SAME else set()
        found |= {_Budget(epsilon, delta) for epsilon in claimed | beyond}
    return sorted(found)


def _answer(group: Group, model: str, budget: _Budget) -> Answer:
    several = len({_delta(cell) for cell in group.cells if cell.private}) > 1
    need = f"{model}, {budget.text(named=several)}"
    fit = [i for i, cell in enumerate(group.cells) if cell.row["privacy.model"] == model]
    within = [i for i in fit if budget.allows(group.cells[i])]
    if not within:
        return Answer(need, "", "", "", "no cell proves it")
    return _best(group, need, within)


def _best(group: Group, need: str, fit: Sequence[int]) -> Answer:
    """Return the answer among the cells at the places `fit`, which are in order."""
    best, *others = fit
    cell = group.cells[best]
    notes = ["nothing was learned in it"] if cell.saturated else []
    if cell.saturated and all(group.cells[i].saturated for i in fit) and others:
        notes = ["nothing was learned in any of these cells"]
    if not others:
        notes.append("the only cell")
    value, tied = value_text(cell, interval_ends(cell)), _tied(group, best, others)
    n_tied = sum(not group.pair(best, i).differs for i in others)
    return Answer(need, group.names[best], value, tied, "; ".join(notes), n_tied, len(others))


def _tied(group: Group, best: int, others: Sequence[int]) -> str:
    """Return which of the others are not told apart from the best one."""
    tests = {i: group.pair(best, i) for i in others}
    if tests and all(math.isnan(pair.adjusted) for pair in tests.values()):
        return NO_TEST
    same = [i for i, pair in tests.items() if not pair.differs]
    if not same:
        return f"better than {'the other' if len(others) == 1 else f'all {len(others)} others'}" if others else ""
    named = [f"{group.names[i]} ({p_text(tests[i].adjusted)})" for i in same[:_MOST_NAMED]]
    if len(same) > _MOST_NAMED:
        named.append(f"{counted(len(same) - _MOST_NAMED, 'other')}")
    return f"not told apart from {'; '.join(named)}"


def p_text(p_value: float) -> str:
    """Return an adjusted p-value in words."""
    if math.isnan(p_value):
        return NO_TEST
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
