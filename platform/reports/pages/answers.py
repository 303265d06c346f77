"""Which algorithm, at which epsilon: the best cell of every group within each privacy budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dprl.platform.errors import counted
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.pages.groups import Group
from dprl.platform.reports.pages.report_cells import ReportCell
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
    the ends of its band. tied: what is not told apart from it, with p-values. note: what else must be known.
    """

    need: str
    best: str
    value: str
    tied: str
    note: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        if not self.best:
            return f"{self.need}: {self.note}"
        tied = f"; {self.tied}" if self.tied else ""
        return f"{self.need}: best is {self.best}: {self.value}{tied}{f'; {self.note}' if self.note else ''}"


def answers_of(group: Group) -> list[Answer]:
    """Return the answers of a group that has a headline: trust model by trust model, small budgets first."""
    if group.metric is None:
        return []
    models = dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells if cell.private)
    found = [_answer(group, model, budget) for model in sorted(models) for budget in _budgets(group, model)]
    free = [i for i, cell in enumerate(group.cells) if not cell.private]
    return [*found, _best(group, "no privacy", free)] if free else found


def value_text(cell: ReportCell) -> str:
    """Return the headline of a cell's whole run, the mean over its seeds, with the band if there is one."""
    low, high = value_ends(cell)
    mean = number(float(cell.finals.mean()))
    return mean if math.isnan(low) else f"{mean} [{number(low)}, {number(high)}]"


def value_ends(cell: ReportCell) -> tuple[float, float]:
    """Return the ends of the band of a cell's headline: of a sum those of the simultaneous band at its end.

    Of a mean those of Student's interval: it is one number, and no point of a curve.
    """
    if cell.metric is None:
        return math.nan, math.nan
    if cell.metric.over == "sum":
        mean, half = cell.band
        return max(float(mean[-1] - half[-1]), 0.0), float(mean[-1] + half[-1])
    low, high = (float(cell.row.get(f"{cell.metric.name}_{end}", math.nan)) for end in ("lower", "upper"))
    return low, high


def _budgets(group: Group, model: str) -> list[float]:
    """Return the epsilons that cells of a trust model claim, and beyond them the largest that is proved."""
    cells = [cell for cell in group.cells if cell.row["privacy.model"] == model]
    claimed = {float(cell.row["claimed_epsilon"]) for cell in cells if "claimed_epsilon" in cell.row}
    proved = [cell.proved for cell in cells if math.isfinite(cell.proved)]
    beyond = {max(proved)} if proved and max(proved) > max(claimed, default=0.0) * _SAME else set()
    return sorted(claimed | beyond)


def _answer(group: Group, model: str, budget: float) -> Answer:
    need = f"{model}, proved \u03b5 \u2264 {number(budget)}"
    fit = [i for i, cell in enumerate(group.cells) if cell.row["privacy.model"] == model]
    within = [i for i in fit if group.cells[i].proved <= budget * _SAME]
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
    return Answer(need, group.names[best], value_text(cell), _tied(group, best, others), "; ".join(notes))


def _tied(group: Group, best: int, others: Sequence[int]) -> str:
    """Return which of the others are not told apart from the best one."""
    tests = {i: group.pair(best, i) for i in others}
    if tests and all(math.isnan(pair.adjusted) for pair in tests.values()):
        return NO_TEST
    same = [i for i, pair in tests.items() if not pair.differs]
    if not same:
        return f"told apart from {'the other' if len(others) == 1 else f'all {len(others)} others'}" if others else ""
    named = [f"{group.names[i]} ({p_text(tests[i].adjusted)})" for i in same[:_MOST_NAMED]]
    if len(same) > _MOST_NAMED:
        named.append(f"{counted(len(same) - _MOST_NAMED, 'other')}")
    return f"not told apart from {'; '.join(named)}"


def p_text(p_value: float) -> str:
    """Return an adjusted p-value in words."""
    if math.isnan(p_value):
        return NO_TEST
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
