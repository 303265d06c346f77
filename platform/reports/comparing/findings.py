"""Findings of a report: the best cell at each privacy budget, its rivals, and the cost of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dprl.platform.reports.comparing.declared import SAME_EPSILON
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell, clips_alike
from dprl.platform.reports.inference.effects import Effect

_MIXED = {"algorithm", "noise"}
_EQUAL = 0.005
"""Noise that differs by a smaller fraction counts as equal."""


class _Budget(NamedTuple):
    """A privacy budget: a trust model and the largest certified epsilon and delta; infinite without privacy."""

    model: str
    epsilon: float
    delta: float

    def allows(self, cell: ReportCell) -> bool:
        """Whether the cell proves an epsilon at its delta, and both are within the budget."""
        if cell.row["privacy.model"] != self.model:
            return False
        return self.model == "none" or (cell.proved <= self.epsilon * SAME_EPSILON and cell.delta <= self.delta)


class _Rival(NamedTuple):
    """A cell compared with the best one.

    place: in the group. differs_in: the factors that differ from those of the best cell. effect: against the best cell,
    a ratio on the log scale; None if both algorithm and noise differ, because a ratio would mix both. p_value: of the
    declared test, adjusted for its family; NaN without one. significant: None without a test. noise: standard
    deviation of a count, divided by that in the best cell; NaN if unknown.
    """

    place: int
    differs_in: tuple[str, ...]
    effect: Effect | None
    p_value: float
    significant: bool | None
    noise: float


@dataclass(frozen=True)
class Finding:
    """The best cell of a group at a privacy budget.

    best: its place in the group, None if no cell is within the budget. next_best: the best of the cells that differ
    from it in algorithm or noise. other_algorithm: the best of the cells of other algorithms at the same privacy and
    noise, a declared comparison. cost: the effect of the best cell against the same algorithm without privacy.
    """

    group: Group
    budget: _Budget
    best: int | None
    next_best: _Rival | None = None
    other_algorithm: _Rival | None = None
    cost: Effect | None = None

    @property
    def cell(self) -> ReportCell:
        """The best cell. Raises ValueError where there is none."""
        if self.best is None:
            raise ValueError("finding must have a best cell")
        return self.group.cells[self.best]


def findings_of(group: Group) -> list[Finding]:
    """Return the findings of a group with a headline, by trust model, small budgets first, no privacy last."""
    if group.metric is None:
        return []
    models = dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells if cell.private)
    budgets = [budget for model in sorted(models) for budget in _budgets(group, model)]
    if any(not cell.private for cell in group.cells):
        budgets.append(_Budget("none", math.inf, 0.0))
    return [_finding(group, budget) for budget in budgets]


def _budgets(group: Group, model: str) -> list[_Budget]:
    """Return the budgets of a trust model: its cells' claims, and the largest certified epsilon at each delta."""
    cells = [cell for cell in group.cells if cell.row["privacy.model"] == model]
    found = set()
    for delta in {cell.delta for cell in cells}:
        here = [cell for cell in cells if cell.delta == delta]
        claimed = {float(cell.row["claimed_epsilon"]) for cell in here if "claimed_epsilon" in cell.row}
        certified = max((cell.proved for cell in here if math.isfinite(cell.proved)), default=0.0)
        beyond = {certified} if certified > max(claimed, default=0.0) * SAME_EPSILON else set()
        found |= {_Budget(model, epsilon, delta) for epsilon in claimed | beyond}
    return sorted(found)


def _finding(group: Group, budget: _Budget) -> Finding:
    within = [i for i, cell in enumerate(group.cells) if budget.allows(cell)]
    if not within:
        return Finding(group, budget, None)
    best, *others = within
    factors = group.factors
    mine = (factors[best].algorithm, factors[best].noise)
    unlike = [i for i in others if (factors[i].algorithm, factors[i].noise) != mine]
    comparisons = ((i, group.comparison(best, i)) for i in unlike if factors[i].algorithm != mine[0])
    equal = [i for i, comparison in comparisons if comparison is not None and comparison.kind == "algorithm"]
    reference = reference_of(group, best) if budget.model != "none" else None
    return Finding(
        group,
        budget,
        best,
        next_best=_rival(group, best, unlike),
        other_algorithm=_rival(group, best, equal),
        cost=None if reference is None else group.effect(best, reference),
    )


def _rival(group: Group, best: int, places: Sequence[int]) -> _Rival | None:
    """Return the first of the cells at the ordered `places` as a rival of the best one, None if there is none."""
    if not places:
        return None
    place = places[0]
    differs_in = group.factors[place].differences(group.factors[best])
    effect = None if set(differs_in) >= _MIXED else group.effect(place, best)
    mine, its = (float(group.cells[i].row.get("noise_sd", math.nan)) for i in (best, place))
    noise = its / mine if mine > 0.0 and its > 0.0 else math.nan
    noise = 1.0 if math.isclose(noise, 1.0, rel_tol=_EQUAL) else noise
    comparison = group.comparison(best, place)
    if comparison is None or not comparison.test.tested:
        return _Rival(place, differs_in, effect, math.nan, None, noise)
    return _Rival(place, differs_in, effect, comparison.test.adjusted, comparison.test.significant, noise)


def reference_of(group: Group, best: int) -> int | None:
    """Return the place of the cell without privacy of the same algorithm and constants, None if there is none.

    If the algorithm has only one cell without privacy, it is that one, whatever its constants. It must clip gradients
    alike.
    """
    if group.metric is None:
        return None
    mine, name = group.factors[best], group.cells[best].row["algorithm.name"]
    free = [i for i, cell in enumerate(group.cells) if not cell.private and cell.row["algorithm.name"] == name]
    free = [i for i in free if clips_alike(group.cells[i], group.cells[best])]
    for i in free:
        if (group.factors[i].algorithm, group.factors[i].constants) == (mine.algorithm, mine.constants):
            return i
    return free[0] if len(free) == 1 else None


def finding_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the findings of all groups as plain data; missing values are None."""
    return [_finding_row(finding) for group in groups for finding in findings_of(group)]


def _finding_row(finding: Finding) -> dict[str, Any]:
    group, budget = finding.group, finding.budget
    row: dict[str, Any] = {"group": group.title, "model": budget.model, "delta": budget.delta}
    row["epsilon"] = budget.epsilon if math.isfinite(budget.epsilon) else None
    if finding.best is None:
        return row
    cell = finding.cell
    row |= {"best": group.names[finding.best], "cell": str(cell.row["cell"])}
    row |= _numbers(*cell.estimate[:3]) | {"scale": cell.estimate.scale}
    row["next_best"] = _rival_row(group, finding.next_best)
    row["other_algorithm"] = _rival_row(group, finding.other_algorithm)
    row["cost_of_privacy"] = _effect_row(finding.cost)
    return row


def _rival_row(group: Group, rival: _Rival | None) -> dict[str, Any] | None:
    if rival is None:
        return None
    about = {"name": group.names[rival.place], "cell": str(group.cells[rival.place].row["cell"])}
    test = {"significant": rival.significant, "p_holm": None if math.isnan(rival.p_value) else rival.p_value}
    return {**about, "differs_in": list(rival.differs_in), **test, "effect": _effect_row(rival.effect)}


def _effect_row(found: Effect | None) -> dict[str, Any] | None:
    return None if found is None else _numbers(found.value, found.lower, found.upper) | {"scale": found.scale}


def _numbers(value: float, lower: float, upper: float) -> dict[str, float | None]:
    ends = {"lower": lower, "upper": upper}
    return {"value": value} | {name: None if math.isnan(end) else end for name, end in ends.items()}
