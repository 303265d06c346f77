"""The best cell at a budget, its rivals at equal noise and the cost of privacy, and the tables of the page."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dprl.platform.reports import report
from dprl.platform.reports.report import answer_of, budget_table, leading_budget
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Best, Group, best_cells, groups_of
from tests.platform.reports.cases import page, tables_of, text_of
from tests.platform.results.cases import report_cell

LOW, MIDDLE, HIGH, FREE = [9.0, 10.0, 11.0], [9.5, 10.5, 12.0], [99.0, 100.0, 101.0], [1.0, 1.1, 1.2]
COST = "Cost of privacy (against its own run without)"
ONE_HOT: dict[str, Any] = {"privacy.families": "one_hot"}
SEPARATE: dict[str, Any] = {"privacy.families": "separate"}


def found(*cells: Cell) -> tuple[Group, list[Best]]:
    (group,) = groups_of(cells)
    return group, best_cells(group)


def rows(group: Group) -> list[dict[str, str]]:
    """The rows of the table of budgets, by header."""
    table = budget_table([group])
    return [dict(zip(table.headers, row, strict=True)) for row in table.body]


def test_the_next_best_cell_has_a_declared_comparison_with_the_best_one() -> None:
    cells = [report_cell(LOW, algorithm="bernstein_vi", **ONE_HOT), report_cell(MIDDLE, **SEPARATE)]
    cells.append(report_cell(HIGH, **ONE_HOT))
    group, (finding,) = found(*cells)
    assert finding.lead is not None
    assert finding.lead.value == pytest.approx(10.0, rel=0.05)
    assert finding.lead.significant
    (row,) = rows(group)
    assert row["Next best"] == "private_ucb_vi one_hot, jdp epsilon=1: 10\u00d7 [7.8, 13], significant, p = 0.0011"
    group, (alone,) = found(*cells[:2])
    assert (alone.next_best, "is best" in answer_of([group])) == (None, False)


def test_the_cost_of_privacy_is_a_ratio_to_the_same_algorithm() -> None:
    group, (one, _) = found(
        report_cell(LOW, algorithm="bernstein_vi"),
        report_cell(HIGH),
        report_cell(FREE, "none", algorithm="bernstein_vi"),
        report_cell([5.0, 5.1, 5.2], "none"),
    )
    assert one.cost is not None
    assert one.cost.value == pytest.approx(9.08, abs=0.02)
    assert one.cost.lower < 9.08 < one.cost.upper
    assert leading_budget([group]) == one
    budget, value = "At certified \u03b5 \u2264 1 (central, \u03b4 = 0)", "0.0997 [0.0777, 0.128]"
    best = f"{budget}, bernstein_vi is best on riverswim: regret per episode {value}"
    assert answer_of([group]) == f"{best}, 9.1\u00d7 [7.3, 11] relative to its own run without privacy"
    (row, _) = rows(group)
    assert row["Next best"] == "private_ucb_vi, jdp epsilon=1: 10\u00d7 [7.8, 13], significant, p = 0.0011"
    assert (row["Regret per episode"], row[COST]) == (value, "9.1\u00d7 [7.3, 11]")


def test_the_answer_names_both_cells_if_they_do_not_differ() -> None:
    for finals, level in ((MIDDLE, True), (HIGH, False)):
        group, (best,) = found(report_cell(LOW, algorithm="bernstein_vi"), report_cell(finals))
        assert best.lead is not None
        assert best.lead.significant != level
        assert ("bernstein_vi and private_ucb_vi are level" in answer_of([group])) == level
        assert ("bernstein_vi is best" in answer_of([group])) != level


def test_noise_is_equal_only_if_the_error_of_a_count_is() -> None:
    _, (finding,) = found(report_cell(LOW, noise_sd=68.0), report_cell(HIGH, algorithm="pucb", noise_sd=100.0))
    assert finding.next_best is None
    _, (finding,) = found(report_cell(LOW, noise_sd=68.0), report_cell(HIGH, algorithm="pucb", noise_sd=68.01))
    assert finding.next_best is not None


def test_each_budget_has_its_best_cell() -> None:
    group, findings = found(
        report_cell(HIGH),
        report_cell(LOW, algorithm="bernstein_vi"),
        report_cell([1.0, 1.1, 1.2], claimed=4.0, proved=4.0),
        report_cell(LOW, "ldp", 2.0, 2.0),
        report_cell([0.1, 0.2, 0.1], "none"),
    )
    assert [(each.model, each.epsilon) for each in findings] == [("jdp", 1), ("jdp", 4), ("ldp", 2), ("none", math.inf)]
    one, four, local, free = rows(group)
    assert one["Best"] == "bernstein_vi, jdp epsilon=1"
    assert one[COST] == ""
    assert four[COST].startswith("8.7\u00d7 [3.4, ")
    assert local["Budget"] == "certified \u03b5 \u2264 2 (local, \u03b4 = 0)"
    assert (free["Budget"], free["Best"]) == ("no privacy", "private_ucb_vi, none")


def test_a_claim_that_fails_counts_at_the_certified_epsilon_only() -> None:
    one, three = rows(found(report_cell(LOW, proved=3.0))[0])
    assert (one["Budget"], one["Best"]) == ("certified \u03b5 \u2264 1 (central, \u03b4 = 0)", "no cell certifies this")
    assert three["Budget"] == "certified \u03b5 \u2264 3 (central, \u03b4 = 0)"
    assert three["Best"] == "private_ucb_vi, jdp epsilon=3"


def test_what_certifies_nothing_is_no_answer() -> None:
    group, _ = found(report_cell(LOW, proved=math.inf))
    assert [row["Best"] for row in rows(group)] == ["no cell certifies this"]
    assert answer_of([group]) == "No cell certifies a finite \u03b5"


def test_a_larger_delta_does_not_win_within_a_smaller_one() -> None:
    loose = report_cell(LOW, algorithm="pucb", claimed_delta=0.1)
    strict = report_cell(HIGH, claimed_delta=1e-6)
    pure = report_cell([50.0, 51.0, 52.0], algorithm="bernstein_vi")
    best = {row["Budget"]: row["Best"].partition(",")[0] for row in rows(found(loose, strict, pure)[0])}
    assert best == {
        "certified \u03b5 \u2264 1 (central, \u03b4 = 0)": "bernstein_vi",
        "certified \u03b5 \u2264 1 (central, \u03b4 \u2264 10\u207b\u2076)": "bernstein_vi",
        "certified \u03b5 \u2264 1 (central, \u03b4 \u2264 0.1)": "pucb",
    }


@pytest.mark.parametrize(
    ("first", "last", "told"), [(0.5, 0.5, True), (0.5, 0.48, True), (0.5, 0.47, False), (0, 0.1, False)]
)
def test_a_cell_that_ends_like_its_first_policy_has_learned_nothing(first: float, last: float, told: bool) -> None:
    """An optimal first policy has nothing to learn."""
    rates: dict[str, Any] = {"regret_per_episode_first": first, "regret_per_episode_last": last}
    group, _ = found(report_cell(HIGH, **rates))
    assert answer_of([group]).startswith("Nothing was learned within any certified privacy budget") == told
    assert rows(group)[0]["Best"].endswith("(nothing was learned)") == told
    # An offline learner plays one policy throughout.
    assert not found(report_cell(HIGH, optimum_gap=0.0, **rates))[0].cells[0].unlearned


def test_the_headline_is_a_cell_that_learned_at_the_epsilon_nearest_to_1() -> None:
    cells = [report_cell(HIGH, note="saturated"), report_cell(LOW, claimed=4.0, proved=4.0, algorithm="pucb")]
    group, _ = found(*cells, report_cell(LOW, claimed=9.0, proved=9.0, algorithm="pucb"))
    named = leading_budget([group])
    assert named is not None
    assert named.epsilon == 4.0
    # Cells without a headline have no answer.
    assert answer_of([]) == ""


def test_names_have_the_settings_that_are_needed_and_the_labels_of_the_config() -> None:
    scales: dict[str, Any] = {"algorithm.bonus_scale": 0.1, "algorithm.precision_scale": 0.1}
    larger: dict[str, Any] = dict.fromkeys(scales, 1.0)
    group, _ = found(report_cell(LOW, **scales), report_cell(HIGH, **larger))
    assert group.names == [f"private_ucb_vi bonus_scale={scale}, jdp epsilon=1" for scale in ("0.1", "1")]
    ours, theirs = (
        report_cell(LOW, algorithm_label="Ours"),
        report_cell(HIGH, algorithm="pucb", algorithm_label="Theirs"),
    )
    group, _ = found(ours, theirs)
    assert "Ours is best" in answer_of([group])
    assert rows(group)[0]["Next best"].startswith("Theirs, jdp epsilon=1: ")


def at(epsilon: float, finals: list[float] = LOW, **more: Any) -> Cell:
    return report_cell(finals, claimed=epsilon, proved=epsilon, **more)


def test_of_many_cells_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_CELLS", 3)
    blocks = page([at(epsilon) for epsilon in (1.0, 2.0, 3.0, 4.0)])
    assert len(tables_of(blocks)[-1]) == 3
    assert "1 further cells are in report.csv." in text_of(blocks)


def test_a_cell_has_its_environment_its_settings_and_the_cost_of_privacy() -> None:
    other: dict[str, Any] = {"env.name": "random_mdp", "env.horizon": 6}
    large, small = (dict[str, Any]({"algorithm.bonus_scale": scale}) for scale in (1.0, 0.1))
    cells = [at(1.0, **large), at(1.0, **small), report_cell(FREE, "none", **large), at(1.0, HIGH, **other, **large)]
    rows = tables_of(page(cells))[-1]
    assert {row["Group"] for row in rows} == {"riverswim horizon=4", "random_mdp horizon=6"}
    named = ["bonus_scale=1, none", "bonus_scale=1, jdp", "bonus_scale=0.1, jdp", ", jdp"]
    assert all(part in row["Cell"] for part, row in zip(named, rows, strict=True))
    assert [row["Cost of privacy (against its own run without)"] for row in rows] == [
        "",
        "9.1\u00d7 [7.3, 11]",
        "9.1\u00d7 [7.3, 11]",
        "",
    ]


def test_claims_are_counted_by_verdict() -> None:
    printed: dict[str, Any] = {"privacy.calibration": "printed"}
    cells = [at(1.0, note="saturated", theorem="a theorem"), at(4.0, claimed_delta=1e-6, algorithm="pucb")]
    cells += [report_cell(LOW, "ldp", proved=proved, **printed) for proved in (2.0, 3.0)]
    blocks = page(cells)
    text = text_of(blocks)
    assert "\u2713 holds The noise certifies the claimed \u03b5 at the claimed \u03b4. 2 cells." in text
    assert "\u2717 FAILS The noise certifies only a larger \u03b5. 2 cells." in text
    assert "Nothing was learned in 1 of 4 cells: bonus saturated: " in text
    assert ("nothing was learned", "a theorem") in [(row["Note"], row["Covered by"]) for row in tables_of(blocks)[-1]]
    assert "Do the claims hold?" not in text_of(page([report_cell(LOW, "none")]))
