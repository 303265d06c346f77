"""Findings name the best cell, its rivals at equal noise and the cost of privacy; sentences claim no more."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.reports.comparing.findings import Finding, findings_of
from dprl.platform.reports.comparing.groups import Group, groups_of, with_comparison
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.rows import answers_of, comparison_frame
from dprl.platform.reports.comparing.sentences import MIXED, heading, headline_finding, lead
from tests.platform.reports.comparing.cases import report_cell

LOW, MIDDLE, HIGH, FREE = [9.0, 10.0, 11.0], [9.5, 10.5, 12.0], [99.0, 100.0, 101.0], [1.0, 1.1, 1.2]
ONE_HOT: dict[str, Any] = {"privacy.families": "one_hot"}
SEPARATE: dict[str, Any] = {"privacy.families": "separate"}


def found(*cells: ReportCell) -> tuple[Group, list[Finding]]:
    (group,) = groups_of(cells)
    return group, findings_of(group)


def test_a_ratio_that_mixes_algorithm_and_noise_is_not_given() -> None:
    cells = [
        report_cell(LOW, algorithm="bernstein_vi", **ONE_HOT),
        report_cell(MIDDLE, **SEPARATE),
        report_cell(HIGH, **ONE_HOT),
    ]
    group, (finding,) = found(*cells)
    assert finding.next_best is not None
    assert finding.next_best.mixed
    assert finding.next_best.effect is None
    equal = finding.other_algorithm
    assert equal is not None
    assert equal.effect is not None
    assert equal.effect.value == pytest.approx(10.0, rel=0.05)
    assert equal.significant
    assert any(MIXED in sentence and "at equal noise" in sentence for sentence in lead([group]))
    (answer,) = answers_of(group)
    effect = "10\u00d7 [7.8, 13] (significant, p = 0.0011)"
    assert answer.short == f"private_ucb_vi one_hot: {effect} at equal noise"
    first = "private_ucb_vi separate, jdp, certified \u03b5 = 1, holds: algorithm and noise differ"
    assert answer.next_best == f"{first}; at equal noise {group.names[2]}: {effect}"
    group, (alone,) = found(*cells[:2])
    assert alone.other_algorithm is None
    (answer,) = answers_of(group)
    assert answer.short == "private_ucb_vi: algorithm and noise differ"
    assert answer.next_best.endswith(": algorithm and noise differ; no cell has the same noise")


def test_algorithms_that_never_had_equal_noise_are_not_ranked_by_a_test() -> None:
    group, _ = found(report_cell(LOW, algorithm="bernstein_vi", **ONE_HOT), report_cell(HIGH, **SEPARATE))
    assert heading([group]).endswith("(no comparison at equal noise)")
    assert "no cell of another algorithm has the same noise." in " ".join(lead([group]))


def test_where_only_the_releases_differ_the_report_says_how_the_noise_becomes_equal() -> None:
    slow: dict[str, Any] = {"algorithm.replan_growth": 0.01, "releases": 751}
    fast: dict[str, Any] = {"algorithm.replan_growth": 0.0}
    group, _ = found(report_cell(LOW, algorithm="bernstein_vi", **slow), report_cell(HIGH, **fast))
    assert heading([group]).endswith("(no comparison at equal noise)")
    assert (
        "their counters are for different numbers of releases: set the same algorithm.replan_growth in both"
        in " ".join(lead([group]))
    )


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
    assert lead([group])[0] == (
        "At certified \u03b5 \u2264 1, bernstein_vi loses 0.10 reward per episode under central privacy (\u03b4 = 0), "
        "9.1 times [7.3, 11] its regret without privacy (geometric means over seeds, 95% intervals)."
    )
    assert headline_finding([group]) == one


def test_the_delta_of_a_sentence_is_that_of_its_cell() -> None:
    """The best cell may prove more than its budget asks for."""
    group, _ = found(report_cell(LOW), report_cell(HIGH, algorithm="pucb", claimed_delta=1e-6))
    assert "under central privacy (\u03b4 = 0)" in lead([group])[0]


def test_a_clear_winner() -> None:
    cells = [
        report_cell([x / e for x in values], model, e, e, algorithm)
        for model in ("jdp", "ldp")
        for e in (1.0, 3.0)
        for algorithm, values in (("bernstein_vi", LOW), ("private_ucb_vi", HIGH))
    ]
    group, _ = found(*cells)
    assert heading([group]) == "bernstein_vi has the lowest regret at every certified privacy budget"
    assert lead([group])[1] == "Its lead over private_ucb_vi at equal noise is significant at 4 of 4 budgets."


def test_noise_is_equal_only_if_the_error_of_a_count_is() -> None:
    """Counters with equal scales can have other errors, because their algorithms read them at other times."""
    cells = [report_cell(LOW, noise_sd=68.0), report_cell(HIGH, algorithm="pucb", noise_sd=100.0)]
    group, (finding,) = found(*cells)
    assert finding.other_algorithm is None
    assert not any("at equal noise" in sentence and "significant" in sentence for sentence in lead([group]))
    cells[1] = report_cell(HIGH, algorithm="pucb", noise_sd=68.01)
    assert "at equal noise is significant at 1 of 1 budget." in lead([found(*cells)[0]])[1]


def test_different_presets_are_named() -> None:
    preset = "algorithm.preset"
    tuned = report_cell(LOW, **dict[str, Any]({preset: "tuned"}))
    proved, plain = (report_cell(HIGH, algorithm="pucb", **dict[str, Any]({preset: x})) for x in ("proved", "tuned"))
    assert "Presets differ: private_ucb_vi tuned, pucb proved." in lead([found(tuned, proved)[0]])
    assert not any("Presets" in sentence for sentence in lead([found(tuned, plain)[0]]))


def test_winners_that_differ_by_trust_model() -> None:
    group, _ = found(
        report_cell(LOW, algorithm="pucb"),
        report_cell(HIGH),
        report_cell(LOW, "ldp"),
        report_cell(HIGH, "ldp", algorithm="pucb"),
    )
    assert heading([group]) == ("pucb has the lowest regret under central privacy, private_ucb_vi under local privacy")


def test_no_winner() -> None:
    group, _ = found(report_cell(LOW), report_cell(MIDDLE, algorithm="pucb"))
    assert heading([group]) == "No algorithm is significantly best at \u03b5 \u2264 1"


def test_winners_that_differ_without_a_test_are_not_distinguished() -> None:
    group, _ = found(
        report_cell(LOW),
        report_cell(HIGH, algorithm="pucb"),
        report_cell([x / 3 for x in LOW], "jdp", 3.0, 3.0, "pucb"),
        report_cell([x / 3 for x in MIDDLE], "jdp", 3.0, 3.0),
    )
    assert heading([group]) == "Only private_ucb_vi is significantly best, at 1 of 2 privacy budgets"


def test_budgets_without_a_test_at_equal_noise_are_counted_apart() -> None:
    other: dict[str, Any] = {"privacy.counter": "tree"}
    group, _ = found(
        report_cell(LOW),
        report_cell(HIGH, algorithm="pucb"),
        report_cell([x / 3 for x in LOW], "jdp", 3.0, 3.0, **other),
        report_cell([x / 3 for x in HIGH], "jdp", 3.0, 3.0, "pucb"),
    )
    told = "Only private_ucb_vi is significantly best, at 1 of 2 privacy budgets; 1 is untested at equal noise"
    assert heading([group]) == told


def test_a_winner_everywhere_whose_lead_is_not_significant_everywhere_is_not_called_so() -> None:
    group, _ = found(
        report_cell(LOW),
        report_cell(HIGH, algorithm="pucb"),
        report_cell([x / 3 for x in LOW], "jdp", 3.0, 3.0),
        report_cell([x / 3 for x in MIDDLE], "jdp", 3.0, 3.0, "pucb"),
    )
    assert heading([group]) == "Only private_ucb_vi is significantly best, at 1 of 2 privacy budgets"


def test_winners_by_trust_model_need_significant_leads() -> None:
    group, _ = found(
        report_cell(LOW, algorithm="pucb"),
        report_cell(HIGH),
        report_cell(LOW, "ldp"),
        report_cell(MIDDLE, "ldp", algorithm="pucb"),
    )
    assert heading([group]) == "Only pucb is significantly best, at 1 of 2 privacy budgets"


def test_several_winners_of_which_not_all_leads_are_significant_are_counted() -> None:
    cells = [
        report_cell([x / e for x in values], "jdp", e, e, algorithm)
        for e, order in ((1.0, (LOW, HIGH)), (3.0, (HIGH, LOW)), (4.0, (LOW, MIDDLE)), (9.0, (LOW, HIGH)))
        for algorithm, values in zip(("private_ucb_vi", "pucb"), order, strict=True)
    ]
    group, _ = found(*cells)
    assert heading([group]) == "private_ucb_vi is significantly best at 2 of 4 privacy budgets, pucb at 1"


def test_the_best_must_be_ahead_of_all_others_not_of_the_next_only() -> None:
    spread = [11.0, 100.0, 1000.0]
    group, (finding,) = found(
        report_cell(LOW),
        report_cell([30.0, 31.0, 32.0], algorithm="pucb"),
        report_cell(spread, algorithm="bernstein_vi"),
    )
    assert finding.other_algorithm is not None
    assert finding.other_algorithm.significant
    assert finding.ahead is False
    assert heading([group]) == "No algorithm is significantly best at \u03b5 \u2264 1"


def test_a_geometric_mean_that_a_mean_contradicts_is_no_lead() -> None:
    """Cells with a seed at 0 are compared by means, so the cell with the lowest geometric mean can be the worse one."""
    skewed, even = [1.0] * 9 + [500.0 + i for i in range(11)], [0.0] + [60.0 + i / 10 for i in range(19)]
    group, (finding,) = found(report_cell(skewed), report_cell(even, algorithm="pucb"))
    assert finding.other_algorithm is not None
    assert finding.other_algorithm.significant
    assert finding.ahead is False
    (row,) = comparison_frame([group]).to_dict("records")
    assert row["told_apart"]
    assert row["better"] == group.names[1]
    assert "is significant at 0 of 1 budget" in lead([group])[1]


def test_without_privacy_leads_must_be_significant_too() -> None:
    river = [report_cell(LOW, "none"), report_cell(HIGH, "none", algorithm="pucb")]
    other: dict[str, Any] = {"env.name": "random_mdp"}
    random = [report_cell(LOW, "none", **other), report_cell(MIDDLE, "none", algorithm="pucb", **other)]
    expected = "Only private_ucb_vi is significantly best, in 1 of 2 environments without privacy (riverswim)"
    assert heading(groups_of([*river, *random])) == expected


def test_sentences_on_several_environments_name_those_with_a_lead() -> None:
    names = ["riverswim", "garnet", "gridworld", "deep_sea", "random_mdp"]

    def groups(*winners: str) -> list[Group]:
        cells = []
        for name, winner in zip(names, winners, strict=True):
            other: dict[str, Any] = {"env.name": name}
            cells.append(report_cell(LOW, algorithm=winner or "pucb", **other))
            cells.append(report_cell(HIGH if winner else MIDDLE, **other))
        return groups_of(cells)

    one = groups("", "pucb", "", "", "")
    assert heading(one) == "Only pucb is significantly best, at 1 of 5 privacy budgets (garnet)"
    assert lead(one)[1].endswith(" is significant at 1 of 5 budgets (garnet).")
    assert heading(groups("bernstein_vi", "pucb", "pucb", "", "")) == (
        "pucb is significantly best at 2 of 5 privacy budgets (garnet; gridworld), bernstein_vi at 1 (riverswim)"
    )
    most = groups("pucb", "pucb", "pucb", "pucb", "")
    assert heading(most) == "Only pucb is significantly best, at 4 of 5 privacy budgets (4 of 5 environments)"


def test_without_tests_winners_are_named_if_they_agree() -> None:
    other: dict[str, Any] = {"env.name": "random_mdp"}
    two = [report_cell(LOW[:2], "none"), report_cell(HIGH[:2], "none", algorithm="pucb")]
    swapped = [report_cell(HIGH[:2], "none", **other), report_cell(LOW[:2], "none", algorithm="pucb", **other)]
    assert heading(groups_of(two[:1])) == "private_ucb_vi without privacy"
    assert heading(groups_of(two)) == "private_ucb_vi has the lowest regret without privacy"
    assert heading(groups_of([*two, *swapped])) == "The best algorithm without privacy depends on the environment"


def test_without_tests_winners_that_differ_by_budget_are_not_named() -> None:
    group, _ = found(
        report_cell(LOW[:2]),
        report_cell(HIGH[:2], algorithm="pucb"),
        report_cell([x / 3 for x in LOW[:2]], "jdp", 3.0, 3.0, "pucb"),
    )
    expected = "The algorithm with the lowest regret depends on the privacy budget (fewer than 3 seeds: no test)"
    assert heading([group]) == expected


def test_gaps_of_output_policies_are_beside_those_without_privacy() -> None:
    gaps: dict[str, Any] = {"smallest_gap": 0.12345, "exploitability": 0.5}
    gaps |= {"smallest_gap_lower": 0.1, "smallest_gap_upper": 0.15}
    private = report_cell(LOW, **gaps)
    free = report_cell(FREE, "none", smallest_gap=0.01234, exploitability=0.0321)
    text = "Under central privacy, the output policy has exploitability 0.50 and smallest gap 0.12 [0.10, 0.15]"
    for cells, more in (([private, free], " (without privacy 0.032 and 0.012)"), ([private], "")):
        group, _ = found(*cells)
        assert lead([group])[0] == f"{text}{more}."
        at = "private_ucb_vi at certified \u03b5 \u2264 1 (central privacy)"
        assert heading([group]) == f"{at}: exploitability 0.50, smallest gap 0.12"


def test_fewer_than_three_seeds_have_no_test() -> None:
    group, _ = found(report_cell(LOW[:2]), report_cell(HIGH[:2], algorithm="pucb"))
    assert heading([group]).endswith("at every certified privacy budget (fewer than 3 seeds: no test)")
    assert lead([group])[1] == "Fewer than 3 seeds: no test."


def test_one_algorithm_is_reported_by_what_privacy_costs() -> None:
    group, _ = found(report_cell(LOW), report_cell(FREE, "none"))
    expected = "private_ucb_vi at certified \u03b5 \u2264 1 (central privacy): 9.1 times its regret without privacy"
    assert heading([group]) == expected
    group, _ = found(report_cell(LOW), report_cell(FREE, "none"), report_cell(HIGH, "none", algorithm="pucb"))
    assert heading([group]) == expected


@pytest.mark.parametrize(
    ("free", "less"), [(HIGH, True), (FREE, False), ([1.0, 50.0, 900.0], False), (HIGH[:2], False)]
)
def test_a_run_without_privacy_that_is_worse_is_said_to_have_learned_less(free: list[float], less: bool) -> None:
    group, _ = found(report_cell(LOW), report_cell(free, "none"))
    assert ("its regret without privacy; the run without privacy learned less (" in lead([group])[0]) == less


def test_budgets_are_those_of_the_trust_model_itself() -> None:
    _, findings = found(report_cell(LOW), report_cell(LOW, "ldp", 2.0, 2.0))
    assert [finding.budget for finding in findings] == [("jdp", 1.0, 0.0), ("ldp", 2.0, 0.0)]


def test_a_claim_that_fails_among_the_best_is_named() -> None:
    group, _ = found(report_cell(LOW, proved=3.0), report_cell(HIGH, algorithm="pucb", claimed=3.0, proved=3.0))
    assert (
        "Claims fail among the best cells: private_ucb_vi, jdp, certified \u03b5 = 3 (the claim of 1 fails)."
        in lead([group])
    )


def test_where_nothing_certifies_the_heading_says_so() -> None:
    group, _ = found(report_cell(LOW, proved=float("inf")))
    assert heading([group]) == "No cell certifies a finite \u03b5"
    assert lead([group]) == []


def test_a_regret_of_0_is_reported_as_no_regret() -> None:
    none = [0.0, 0.0, 0.0]
    group, _ = found(report_cell(none), report_cell(none, "none"))
    assert heading([group]) == "private_ucb_vi at certified \u03b5 \u2264 1 (central privacy): no regret"
    assert lead([group])[0] == (
        "At certified \u03b5 \u2264 1, private_ucb_vi has no regret under central privacy (\u03b4 = 0), "
        "the same as without privacy (95% intervals)."
    )
    without, _ = found(report_cell(none, "none"), report_cell(none, "none", algorithm="pucb"))
    assert heading([without]) == "No algorithm is significantly best without privacy"


def test_a_difference_is_per_episode_as_the_regret_before_it() -> None:
    group, _ = found(report_cell([0.0, 0.0, 0.0]), report_cell(LOW, "none"))
    assert (
        "a difference of \u22120.100 [\u22120.125, \u22120.0752] per episode from its regret without"
        in lead([group])[0]
    )


def test_a_report_on_several_environments_names_the_one_of_its_heading() -> None:
    other: dict[str, Any] = {"env.horizon": 9}
    groups = groups_of([report_cell(LOW), report_cell(HIGH, claimed=9.0, proved=9.0, **other)])
    assert " on riverswim horizon=" in heading(groups)
    assert " on " not in heading(groups[:1])


def test_rewards_that_were_mapped_are_explained() -> None:
    mapped: dict[str, Any] = {"derived_reward_low": -100.0, "derived_reward_high": 0.0, "env.env_id": "CliffWalking-v1"}
    group, _ = found(report_cell(LOW, **mapped), report_cell(HIGH, claimed=3.0, proved=3.0, **mapped))
    told = "Mean rewards of CliffWalking-v1 are mapped from [-100, 0] to [0, 1]: 1 is 100 of its own rewards."
    assert told in lead([group])
    assert told not in lead([found(report_cell(LOW))[0]])


def test_a_comparison_of_two_cells_that_a_user_asks_for_is_told() -> None:
    group, _ = found(report_cell(LOW, algorithm="bernstein_vi", **ONE_HOT), report_cell(HIGH, **SEPARATE))
    names = {cell.row["algorithm.name"]: str(cell.row["cell"]) for cell in group.cells}
    (asked,) = with_comparison([group], names["bernstein_vi"], names["private_ucb_vi"])
    (told,) = [sentence for sentence in lead([asked]) if sentence.startswith("As asked, ")]
    assert told.startswith(f"As asked, {group.names[0]} against {group.names[1]}: ")
    assert told.endswith("; other noise).")
    assert "significant" in told
    assert "\u00d7 [" in told
