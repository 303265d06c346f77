"""Findings of a report: the best cell at each privacy budget, its rivals, and the cost of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dprl.platform.reports.cell_texts import algorithm_name
from dprl.platform.reports.comparing.declared import SAME_EPSILON
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.noise import NoiseRatio, noise_clause, noise_ratio
from dprl.platform.reports.comparing.report_cells import ReportCell, clip_norm, clips_alike
from dprl.platform.reports.inference.effects import Effect

_MIXED = {"algorithm", "noise"}


class Budget(NamedTuple):
    """A privacy budget: a trust model and the largest certified epsilon and delta; infinite without privacy."""

    model: str
    epsilon: float
    delta: float

    def allows(self, cell: ReportCell) -> bool:
        """Whether the cell proves an epsilon at its delta, and both are within the budget."""
        if cell.row["privacy.model"] != self.model:
            return False
        return self.model == "none" or (cell.proved <= self.epsilon * SAME_EPSILON and cell.delta <= self.delta)


class Rival(NamedTuple):
    """A cell compared with the best one.

    place: in the group. differs_in: the factors that differ from those of the best cell. effect: against the best cell,
    a ratio on the log scale; None if both algorithm and noise differ, because a ratio would mix both. p_value: of the
    declared test, adjusted for its family; NaN without one. significant: None without a test. declared: whether the
    comparison is declared; it may still have too few seeds for a test. behind: whether the cell is significantly worse
    than the best one; a significant difference of means need not mean so for geometric means. noise: a clause on its
    noise relative to that of the best cell, '' if equal, unknown, or the only difference.
    """

    place: int
    differs_in: tuple[str, ...]
    effect: Effect | None
    p_value: float
    significant: bool | None
    declared: bool
    behind: bool = False
    noise: str = ""

    @property
    def mixed(self) -> bool:
        """Whether both algorithm and noise differ."""
        return set(self.differs_in) >= _MIXED


@dataclass(frozen=True)
class Finding:
    """The best cell of a group at a privacy budget.

    best: its place in the group, None if no cell is within the budget. next_best: the best of the cells that differ
    from it in algorithm or noise. other_algorithm: the best of the cells of other algorithms at the same privacy and
    noise, a declared comparison. ahead: whether the best cell is significantly better than all of these, None if tests
    are missing. reference: the place of the same algorithm's cell without privacy. cost: the effect of the best cell
    against that reference. others: number of other cells within the budget.
    """

    group: Group
    budget: Budget
    best: int | None
    next_best: Rival | None = None
    other_algorithm: Rival | None = None
    ahead: bool | None = None
    reference: int | None = None
    cost: Effect | None = None
    others: int = 0

    @property
    def cell(self) -> ReportCell:
        """The best cell. Raises ValueError where there is none."""
        return self.group.cells[self.place]

    @property
    def name(self) -> str:
        """The name of the best cell in the group. Raises ValueError where there is none."""
        return self.group.names[self.place]

    @property
    def algorithm(self) -> str:
        """The name of its algorithm. Raises ValueError where there is none."""
        return algorithm_name(self.cell.row)

    @property
    def noise_ratios(self) -> dict[str, NoiseRatio]:
        """The noise of the best cell relative to the best cell of each other algorithm, by the algorithm's name.

        If the algorithm has cells with the same noise as the best cell, the ratio is 1.
        """
        found: dict[str, NoiseRatio] = {}
        for cell in filter(self.budget.allows, self.group.cells):
            name, ratio = algorithm_name(cell.row), noise_ratio(self.cell, cell)
            if name != self.algorithm and (name not in found or ratio.value == 1.0):
                found[name] = ratio
        return found

    @property
    def cost_remark(self) -> str:
        """A remark if all of the cost's interval says that the run without privacy is the worse one, else ''."""
        if self.cost is None or self.group.metric is None:
            return ""
        equal = 1.0 if self.cost.scale == "log" else 0.0
        worse = self.cost.upper < equal if self.group.metric.better == "low" else self.cost.lower > equal
        return "; the run without privacy learned less" if worse else ""

    @property
    def place(self) -> int:
        """The place of the best cell in the group. Raises ValueError where there is none."""
        if self.best is None:
            raise ValueError("finding must have a best cell")
        return self.best


def findings_of(group: Group) -> list[Finding]:
    """Return the findings of a group with a headline, by trust model, small budgets first, no privacy last."""
    if group.metric is None:
        return []
    models = dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells if cell.private)
    budgets = [budget for model in sorted(models) for budget in _budgets(group, model)]
    if any(not cell.private for cell in group.cells):
        budgets.append(Budget("none", math.inf, 0.0))
    return [_finding(group, budget) for budget in budgets]


def _budgets(group: Group, model: str) -> list[Budget]:
    """Return the budgets of a trust model: its cells' claims, and the largest certified epsilon at each delta."""
    cells = [cell for cell in group.cells if cell.row["privacy.model"] == model]
    found = set()
    for delta in {cell.delta for cell in cells}:
        here = [cell for cell in cells if cell.delta == delta]
        claimed = {float(cell.row["claimed_epsilon"]) for cell in here if "claimed_epsilon" in cell.row}
        certified = max((cell.proved for cell in here if math.isfinite(cell.proved)), default=0.0)
        beyond = {certified} if certified > max(claimed, default=0.0) * SAME_EPSILON else set()
        found |= {Budget(model, epsilon, delta) for epsilon in claimed | beyond}
    return sorted(found)


def _finding(group: Group, budget: Budget) -> Finding:
    within = [i for i, cell in enumerate(group.cells) if budget.allows(cell)]
    if not within:
        return Finding(group, budget, None)
    best, *others = within
    factors = group.factors
    mine = (factors[best].algorithm, factors[best].noise)
    unlike = [i for i in others if (factors[i].algorithm, factors[i].noise) != mine]
    rivals = [i for i in unlike if factors[i].algorithm != mine[0] and _kind(group, best, i) == "algorithm"]
    reference = reference_of(group, best) if budget.model != "none" else None
    return Finding(
        group,
        budget,
        best,
        next_best=rival_of(group, best, unlike),
        other_algorithm=rival_of(group, best, rivals),
        ahead=_ahead([rival for i in rivals if (rival := rival_of(group, best, [i]))]),
        reference=reference,
        cost=None if reference is None else group.effect(best, reference),
        others=len(others),
    )


def _kind(group: Group, one: int, other: int) -> str:
    comparison = group.comparison(one, other)
    return "" if comparison is None else comparison.kind


def _ahead(rivals: Sequence[Rival]) -> bool | None:
    """Whether all rivals are significantly worse; None if a test is missing and no other rival decides it."""
    if any(rival.significant is not None and not rival.behind for rival in rivals):
        return False
    return True if rivals and all(rival.behind for rival in rivals) else None


def rival_of(group: Group, best: int, places: Sequence[int]) -> Rival | None:
    """Return the first of the cells at the ordered `places` as a rival of the best one, None if there is none."""
    if not places:
        return None
    place = places[0]
    differs_in = group.factors[place].differences(group.factors[best])
    effect = None if set(differs_in) >= _MIXED else group.effect(place, best)
    noise = ""
    if {"algorithm", "constants"} & set(differs_in):
        noise = noise_clause([noise_ratio(group.cells[place], group.cells[best])])
    comparison = group.comparison(best, place)
    if comparison is None or not comparison.test.tested:
        return Rival(place, differs_in, effect, math.nan, None, comparison is not None, noise=noise)
    test = comparison.test
    behind = group.metric is not None and test.better(group.metric.better) == best
    return Rival(place, differs_in, effect, test.adjusted, test.significant, declared=True, behind=behind, noise=noise)


def reference_of(group: Group, best: int) -> int | None:
    """Return the place of the cell without privacy of the same algorithm and constants, None if there is none.

    If the algorithm has only one cell without privacy, it is that one, whatever its constants. It must clip gradients
    alike.
    """
    if group.metric is None:
        return None
    mine = group.factors[best]
    free = [i for i in without_privacy(group, best) if clips_alike(group.cells[i].row, group.cells[best].row)]
    for i in free:
        if (group.factors[i].algorithm, group.factors[i].constants) == (mine.algorithm, mine.constants):
            return i
    return free[0] if len(free) == 1 else None


def without_privacy(group: Group, best: int) -> list[int]:
    """Return the places of the same algorithm's cells without privacy."""
    name = group.cells[best].row["algorithm.name"]
    return [i for i, cell in enumerate(group.cells) if not cell.private and cell.row["algorithm.name"] == name]


def other_clipping(each: Finding) -> str:
    """Return a remark if the best cell has no reference only because runs without privacy clip gradients otherwise."""
    if each.best is None or each.reference is not None or each.budget.model == "none":
        return ""
    row, free = each.cell.row, [each.group.cells[i].row for i in without_privacy(each.group, each.best)]
    if not free or any(clips_alike(other, row) for other in free):
        return ""
    return (
        "; the cost of privacy is not computed, because the run without privacy clips gradients otherwise: write "
        f"clip_norm: {clip_norm(row)} and the same clip there"
    )
