"""The report answers which cell is best within a privacy budget, by the proved epsilon."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dprl.platform.reports.comparing.groups import groups_of, standing_text
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.rows import Answer, answers_of
from dprl.platform.reports.comparing.sentences import heading, lead
from tests.platform.reports.comparing.cases import report_cell

LOW, MIDDLE, HIGH = [9.0, 10.0, 11.0], [9.5, 10.5, 12.0], [99.0, 100.0, 101.0]


def answers(*cells: ReportCell) -> dict[str, Answer]:
    (group,) = groups_of(cells)
    return {answer.need: answer for answer in answers_of(group)}


def test_each_budget_has_its_best_cell_and_the_next_best() -> None:
    found = answers(
        report_cell(HIGH),
        report_cell(LOW, algorithm="bernstein_vi"),
        report_cell(MIDDLE, algorithm="pucb"),
        report_cell([1.0, 1.1, 1.2], claimed=4.0, proved=4.0),
        report_cell([0.1, 0.2, 0.1], "none"),
    )
    assert list(found) == [
        "central privacy, certified \u03b5 \u2264 1",
        "central privacy, certified \u03b5 \u2264 4",
        "no privacy",
    ]
    one, four, free = found.values()
    assert one.best == "bernstein_vi, jdp, certified \u03b5 = 1, holds"
    assert one.value == "9.97 [7.77, 12.8]"
    assert one.next_best.startswith("pucb, jdp, certified \u03b5 = 1, holds: 1.1\u00d7 [0.83, 1.4] (no significant")
    assert one.cost == ""
    assert four.best == "private_ucb_vi, jdp, certified \u03b5 = 4, holds"
    assert four.cost.startswith("8.7\u00d7 [3.4, ")
    assert (free.best, free.note) == ("private_ucb_vi, no privacy (\u03b5 = \u221e)", "the only cell")


def test_a_claim_that_fails_counts_at_the_certified_epsilon_only() -> None:
    found = answers(report_cell(LOW, proved=3.0))
    one, three = found.values()
    assert (one.best, one.note) == ("", "no cell certifies it")
    assert one.need == "central privacy, certified \u03b5 \u2264 1"
    assert three.need == "central privacy, certified \u03b5 \u2264 3"
    assert three.best == "private_ucb_vi, jdp, certified \u03b5 = 3 (the claim of 1 fails)"


def test_what_proves_nothing_is_no_answer() -> None:
    (one,) = answers(report_cell(LOW, proved=float("inf"))).values()
    assert (one.need, one.best) == ("central privacy, certified \u03b5 \u2264 1", "")


def test_a_larger_delta_does_not_win_within_a_smaller_one() -> None:
    loose = report_cell(LOW, algorithm="pucb", claimed_delta=0.1)
    strict = report_cell(HIGH, claimed_delta=1e-6)
    pure = report_cell([50.0, 51.0, 52.0], algorithm="bernstein_vi")
    found = {need: answer.best.partition(",")[0] for need, answer in answers(loose, strict, pure).items()}
    assert found == {
        "central privacy, certified \u03b5 \u2264 1, \u03b4 = 0": "bernstein_vi",
        "central privacy, certified \u03b5 \u2264 1, \u03b4 \u2264 10\u207b\u2076": "bernstein_vi",
        "central privacy, certified \u03b5 \u2264 1, \u03b4 \u2264 0.1": "pucb",
    }
    without_pure = {need: answer.best.partition(",")[0] for need, answer in answers(loose, strict).items()}
    assert list(without_pure.values()) == ["private_ucb_vi", "pucb"]


def test_an_audit_is_named() -> None:
    refuted = report_cell(LOW, proved=3.0, audit={"verdict": "refuted", "contradicts_proof": False})
    assert standing_text(refuted).endswith("REFUTED by its audit")
    wrong = report_cell(LOW, audit={"verdict": "refuted", "contradicts_proof": True})
    assert standing_text(wrong) == "jdp, NO PRIVACY: its audit REFUTES the proof"


def test_where_nothing_was_learned_the_answer_says_so() -> None:
    one, four = answers(
        report_cell(HIGH, note="saturated"), report_cell(LOW, claimed=4.0, proved=4.0, algorithm="pucb")
    ).values()
    assert one.note == "nothing was learned in it; the only cell"
    assert four.note == ""
    (both,) = answers(report_cell(HIGH, note="x"), report_cell(LOW, note="x", algorithm="pucb")).values()
    assert both.note == "nothing was learned in any of these cells"


@pytest.mark.parametrize(
    ("first", "last", "told"), [(0.5, 0.5, True), (0.5, 0.48, True), (0.5, 0.47, False), (0, 0.1, False)]
)
def test_a_cell_that_ends_like_its_first_policy_has_learned_nothing(first: float, last: float, told: bool) -> None:
    """An optimal first policy has nothing to learn."""
    rates: dict[str, Any] = {"regret_per_episode_first": first, "regret_per_episode_last": last}
    (one,) = answers(report_cell(HIGH, **rates)).values()
    assert ("nothing was learned" in one.note) == told
    # An offline learner plays one policy throughout.
    (offline,) = answers(report_cell(HIGH, optimum_gap=0.0, **rates)).values()
    assert "nothing was learned" not in offline.note


def test_two_seeds_have_no_interval_and_no_test() -> None:
    (one,) = answers(report_cell([1.0, 2.0]), report_cell([3.0, 4.0], algorithm="pucb")).values()
    assert one.value == "1.41"
    assert "fewer than 3 seeds: no test" in one.next_best


def test_groups_share_environment_and_length() -> None:
    cells = [report_cell(LOW, **dict[str, Any]({"env.horizon": h}), episodes=k) for h in (4, 6) for k in (100, 200)]
    titles = [group.title for group in groups_of(cells)]
    assert titles == [f"riverswim horizon={h} K={k}" for h in (4, 6) for k in (100, 200)]


def test_names_have_the_settings_that_are_needed_and_no_others() -> None:
    scales: dict[str, Any] = {"algorithm.bonus_scale": 0.1, "algorithm.precision_scale": 0.1}
    larger: dict[str, Any] = dict.fromkeys(scales, 1.0)
    (group,) = groups_of([report_cell(LOW, **scales), report_cell(HIGH, **larger)])
    assert list(group.names.values()) == [
        f"private_ucb_vi bonus_scale={scale}, jdp, certified \u03b5 = 1, holds" for scale in ("0.1", "1")
    ]
    one = report_cell(LOW)
    for key in ("release", "audit"):
        (group,) = groups_of([dataclasses.replace(one, row={**one.row, key: value}) for value in (False, True)])
        names = [name.partition(",")[0] for name in group.names.values()]
        assert names == [f"private_ucb_vi {key}={value}" for value in (False, True)]


def test_the_answer_calls_algorithms_by_their_labels() -> None:
    groups = groups_of(
        [
            report_cell([10.0, 11.0, 12.0], algorithm_label="Ours"),
            report_cell([20.0, 21.0, 22.0], algorithm="pucb", algorithm_label="Theirs"),
        ]
    )
    text = " ".join([heading(groups), *lead(groups)])
    assert "Ours" in text
    assert "pucb" not in text
    assert "private_ucb_vi" not in text
