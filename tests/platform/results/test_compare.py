"""Declared comparisons of one factor, adjusted by Holm's method, and the report's rows as data."""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np
import pytest

from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Group, best_frame, cell_frame, comparison_frame, groups_of
from tests.platform.results.cases import report_cell

ONE_HOT: dict[str, Any] = {"privacy.families": "one_hot"}
SEPARATE: dict[str, Any] = {"privacy.families": "separate"}


def finals(mean: float, seeds: int = 4) -> list[float]:
    return [mean * (1.0 + 0.01 * i) for i in range(seeds)]


def group_of(*cells: Cell) -> Group:
    (group,) = groups_of(cells)
    return group


def kinds(group: Group) -> set[tuple[str, frozenset[float]]]:
    """The kind of each comparison, and the cells by their first seed's headline."""
    return {
        (comparison.kind, frozenset(round(float(group.cells[k].finals[0])) for k in pair))
        for pair, comparison in group.comparisons.items()
    }


def test_cells_that_differ_in_one_factor_are_compared() -> None:
    group = group_of(
        report_cell(finals(10), **ONE_HOT),
        report_cell(finals(20), **SEPARATE),
        report_cell(finals(30), algorithm="pucb", **ONE_HOT),
        report_cell(finals(40), claimed=3.0, proved=3.0, **ONE_HOT),
        report_cell(finals(50), claimed=9.0, proved=9.0, **ONE_HOT),
        report_cell(finals(60), "ldp", **ONE_HOT),
        report_cell(finals(70), claimed_delta=1e-6, **ONE_HOT),
        report_cell(finals(1), "none"),
        report_cell(finals(2), "none", algorithm="pucb"),
    )
    assert kinds(group) == {
        ("algorithm", frozenset({10, 30})),
        ("noise", frozenset({10, 20})),
        ("epsilon", frozenset({10, 40})),
        ("epsilon", frozenset({40, 50})),
        ("algorithm", frozenset({1, 2})),
    }


def test_algorithms_are_compared_only_if_their_counters_release_equally_often() -> None:
    slow: dict[str, Any] = {"algorithm.replan_growth": 0.01}
    fast: dict[str, Any] = {"algorithm.replan_growth": 0.0}
    group = group_of(
        report_cell(finals(10), algorithm="bernstein_vi", releases=751, **slow),
        report_cell(finals(20), releases=751, **slow),
        report_cell(finals(30), **fast),
    )
    assert kinds(group) == {("algorithm", frozenset({10, 20}))}
    local = report_cell(finals(40), "ldp", **fast), report_cell(finals(50), "ldp", algorithm="bernstein_vi", **slow)
    assert kinds(group_of(*local)) == {("algorithm", frozenset({40, 50}))}
    # Of one algorithm, the setting stands for it, and the noise follows from the setting.
    one = report_cell(finals(10), releases=751, **slow), report_cell(finals(20), **fast)
    assert kinds(group_of(*one)) == {("algorithm", frozenset({10, 20}))}


def test_algorithms_are_compared_at_equal_constants_or_each_as_it_was_tuned() -> None:
    name = "algorithm.bonus_scale"
    both = [report_cell(finals(10 + i), **dict[str, Any]({name: x})) for i, x in enumerate((1.0, 0.1))]
    others = [
        report_cell(finals(20 + i), algorithm="pucb", **dict[str, Any]({name: x})) for i, x in enumerate((1.0, 0.3))
    ]
    assert kinds(group_of(*both, *others)) == {("algorithm", frozenset({10, 20})), ("algorithm", frozenset({11, 21}))}


def test_settings_of_the_only_algorithm_stand_for_algorithms() -> None:
    cells = [report_cell(finals(10 * x), **dict[str, Any]({"algorithm.bonus_scale": x})) for x in (1.0, 2.0, 3.0)]
    assert len(group_of(*cells).comparisons) == 3


def test_a_large_grid_of_settings_declares_only_the_next_epsilon() -> None:
    scales = [0.1 * i for i in range(1, 22)]
    cells = [
        report_cell(finals(10 * x), claimed=epsilon, proved=epsilon, **dict[str, Any]({"algorithm.bonus_scale": x}))
        for x in scales
        for epsilon in (1.0, 3.0)
    ]
    few = [cell for cell in cells if cell.row["algorithm.bonus_scale"] < 2.05]
    assert collections.Counter(kind for kind, _ in group_of(*few).comparisons.values()) == {
        "algorithm": 2 * 190,
        "epsilon": 20,
    }
    assert {kind for kind, _ in group_of(*cells).comparisons.values()} == {"epsilon"}


def test_what_certifies_nothing_is_in_no_comparison() -> None:
    cells = [report_cell(finals(10), proved=float("inf")), report_cell(finals(20), algorithm="pucb")]
    assert not group_of(*cells).comparisons


def test_a_failing_claim_is_compared_at_its_certified_epsilon() -> None:
    failing = report_cell(finals(10), proved=3.0)
    assert kinds(
        group_of(
            failing,
            report_cell(finals(20), algorithm="pucb", claimed=3.0, proved=3.0),
            report_cell(finals(30), algorithm="bernstein_vi"),
        )
    ) == {("algorithm", frozenset({10, 20}))}


@pytest.mark.parametrize("seeds", [1, 3])
def test_many_cells_have_a_comparison_each_for_a_factor_or_two(seeds: int) -> None:
    """All pairs of 2,000 cells would be two million rows and 468 MB."""
    generator = np.random.default_rng(seeds)
    cells = [
        report_cell(generator.lognormal(3.0, 0.5, seeds).tolist(), "jdp", epsilon, epsilon, algorithm, **noise)
        for epsilon in np.geomspace(0.1, 100.0, 50).tolist()
        for algorithm in ("private_ucb_vi", "bernstein_vi", "pucb", "private_ucb_po")
        for noise in (ONE_HOT, SEPARATE)
    ]
    group = group_of(*cells)
    frame = comparison_frame([group])
    assert len(cells) == 400
    assert len(frame) == 50 * (2 * 6 + 4) + 49 * 8
    assert len(frame.to_csv(index=False)) < 6e5
    assert bool(frame["p_holm"].isna().all()) == (seeds < 3)


# The report as data: its columns are contracts, and its numbers those of the page.


LOW, HIGH, FREE = [9.0, 10.0, 11.0], [99.0, 100.0, 101.0], [1.0, 1.1, 1.2]


@pytest.fixture
def group() -> Group:
    audit = {"verdict": "not refuted", "contradicts_proof": False}
    cells = [report_cell(HIGH), report_cell(LOW, algorithm="pucb", audit=audit)]
    (found,) = groups_of([*cells, report_cell(FREE, "none", algorithm="pucb")])
    return found


def test_a_cell_has_its_rank_its_headline_and_its_audit(group: Group) -> None:
    rows = cell_frame([group]).to_dict("records")
    own = ["group", "name", "n_seeds", "metric", "unit", "rank", "headline", "band_lower", "band_upper", "scale"]
    assert [*rows[0]][: len(own) + 1] == [*own, "audit_verdict"]
    assert [(row["algorithm.name"], row["rank"]) for row in rows] == [("pucb", 1), ("pucb", 2), ("private_ucb_vi", 3)]
    one = rows[1]
    assert (one["group"], one["metric"], one["unit"], one["scale"], one["n_seeds"]) == (
        *(group.title, "regret", "reward", "log"),
        3,
    )
    assert one["band_lower"] < one["headline"] < one["band_upper"]
    assert one["headline"] == pytest.approx(math.prod(LOW) ** (1 / 3))
    assert [row["audit_verdict"] for row in rows] == ["", "not refuted", ""]


def test_a_comparison_has_the_difference_the_effect_and_the_test(group: Group) -> None:
    (row,) = comparison_frame([group]).to_dict("records")
    assert (row["group"], row["metric"], row["kind"], row["scale"]) == (group.title, "regret", "algorithm", "log")
    assert (row["first"], row["second"]) == (group.names[1], group.names[2])
    assert (row["first_cell"], row["second_cell"]) == tuple(cell.row["cell"] for cell in group.cells[1:])
    assert row["difference"] == pytest.approx(-90.0)
    assert row["effect_lower"] < row["effect"] < row["effect_upper"] < 1.0
    assert (row["told_apart"], row["better"], row["with_the_best"]) == (True, group.names[1], False)
    assert 0.0 < row["p_value"] == row["p_holm"] < 0.05
    two = groups_of([report_cell(HIGH[:2]), report_cell(LOW[:2], algorithm="pucb")])
    (row,) = comparison_frame(two).to_dict("records")
    assert math.isnan(row["p_holm"])
    assert (row["told_apart"], row["better"], row["with_the_best"]) == (False, "", True)


def test_a_budget_has_its_best_cell_the_next_one_and_the_cost_of_privacy(group: Group) -> None:
    private, free = best_frame([group]).to_dict("records")
    assert (private["model"], private["epsilon"], private["delta"]) == ("jdp", 1.0, 0.0)
    assert (private["best"], private["cell"]) == (group.names[1], group.cells[1].row["cell"])
    assert private["lower"] < private["value"] < private["upper"]
    assert private["scale"] == "log"
    assert (private["next_best"], private["next_cell"]) == (group.names[2], group.cells[2].row["cell"])
    assert private["next_adjusted"] < 0.05
    assert private["next_value"] == pytest.approx(10.0, rel=0.01)
    assert private["cost_value"] == pytest.approx(9.1, rel=0.01)
    assert (free["model"], free["epsilon"]) == ("none", math.inf)
    assert math.isnan(free["cost_value"])
    assert "best" not in best_frame(groups_of([report_cell(LOW, proved=math.inf)]))
