"""The report as data: its columns are contracts, and its numbers those of the page."""

from __future__ import annotations

import math

import pytest

from dprl.platform.results.compare import Group, best_frame, cell_frame, comparison_frame, groups_of
from tests.platform.results.cases import report_cell

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
