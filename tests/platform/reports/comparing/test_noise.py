"""A claim of one algorithm over another says so if their counts have different noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dprl.platform.reports.comparing.groups import groups_of, with_comparison
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.rows import answers_of
from dprl.platform.reports.comparing.sentences import heading, lead
from tests.platform.reports.cases import page
from tests.platform.reports.comparing.cases import report_cell

OURS, PAPER, RANDOM = [9.0, 10.0, 11.0], [29.0, 30.0, 31.0], [99.0, 100.0, 101.0]
SCHEDULE = "(other schedule of releases)"
CLAUSE = f"with 0.55 times the noise of a count of Paper {SCHEDULE}"


def cell(label: str, finals: list[float], noise_sd: float | None, **more: Any) -> ReportCell:
    """A cell with this noise of a count; None for algorithms without counts."""
    noise: dict[str, Any] = {} if noise_sd is None else {"noise_sd": noise_sd}
    names = {"Ours": "bernstein_vi", "Paper": "private_ucb_vi", "Random": "random_vi"}
    return report_cell(finals, algorithm=names[label], algorithm_label=label, **noise, **more)


def both(ours: float | None, paper: float | None, **more: Any) -> list[ReportCell]:
    return [cell("Ours", OURS, ours, releases=50, **more), cell("Paper", PAPER, paper, **more)]


def heading_of(cells: Sequence[ReportCell]) -> str:
    return heading(groups_of(cells))


def answer_of(cells: Sequence[ReportCell]) -> tuple[str, str]:
    (group,) = groups_of(cells)
    (answer,) = answers_of(group)
    return answer.next_best, answer.short


def test_a_heading_at_unequal_noise_says_how_much() -> None:
    told = "Ours has the lowest regret at every certified privacy budget"
    assert heading_of(both(173.0, 316.0)) == f"{told} (no comparison at equal noise), {CLAUSE}"
    # A third algorithm has the same noise, and the lead over it is significant.
    tested = [*both(173.0, 316.0), cell("Random", RANDOM, 173.0, releases=50)]
    assert heading_of(tested) == f"{told}, {CLAUSE}"
    assert f"# {told}, {CLAUSE}" in page(tested)


@pytest.mark.parametrize(("ours", "paper"), [(100.0, 100.4), (100.4, 100.0), (None, 100.0), (100.0, None), (0.0, 1.0)])
def test_equal_or_unknown_noise_is_not_mentioned(ours: float | None, paper: float | None) -> None:
    cells = both(ours, paper)
    texts = [heading_of(cells), *answer_of(cells), *lead(groups_of(cells))]
    assert all("times the noise" not in text for text in texts)


def test_noise_that_differs_by_more_than_half_a_percent_is_unequal() -> None:
    assert f"with 0.990 times the noise of a count of Paper {SCHEDULE}" in heading_of(both(99.0, 100.0))
    assert f"with 1.01 times the noise of a count of Paper {SCHEDULE}" in heading_of(both(101.0, 100.0))


def test_other_noise_without_another_schedule_has_no_such_reason() -> None:
    cells = [cell("Ours", OURS, 50.0), cell("Paper", PAPER, 100.0)]
    assert heading_of(cells).endswith("with 0.50 times the noise of a count of Paper")


def test_a_range_of_ratios_includes_budgets_with_equal_noise() -> None:
    larger: dict[str, Any] = {"claimed": 4.0, "proved": 4.0}
    cells = [*both(50.0, 100.0), cell("Random", RANDOM, 50.0, releases=50)]
    for i, label in enumerate(("Ours", "Paper", "Random"), start=1):
        cells.append(cell(label, [1.0 * i, 1.1 * i, 1.2 * i], 10.0, **larger))
    assert f"with 0.50 to 1 times the noise of a count of Paper {SCHEDULE}" in heading_of(cells)


def test_an_algorithm_that_also_has_a_cell_with_the_same_noise_is_not_mentioned() -> None:
    cells = [*both(173.0, 316.0), cell("Paper", RANDOM, 173.0, releases=50)]
    assert "times the noise" not in heading_of(cells)


def test_more_than_two_algorithms_are_counted() -> None:
    cells = [report_cell([100.0, 101.0, 102.0], algorithm=name, noise_sd=200.0) for name in ("a", "b", "c")]
    assert "with 0.50 times the noise of a count of 3 other algorithms" in heading_of([*both(100.0, None), *cells])


def test_each_trust_model_has_its_own_noise() -> None:
    local = [cell("Paper", OURS, 50.0, model="ldp", releases=50), cell("Ours", PAPER, 100.0, model="ldp")]
    told = heading_of([*both(173.0, 316.0), *local])
    assert told.startswith(f"Ours has the lowest regret under central privacy, {CLAUSE}, Paper under local privacy, ")
    assert f"Paper under local privacy, with 0.50 times the noise of a count of Ours {SCHEDULE}" in told


def test_two_settings_of_one_algorithm_are_compared_with_their_noise() -> None:
    growth = "algorithm.replan_growth"
    cells = [
        report_cell(OURS, algorithm_label="A", noise_sd=50.0, releases=50, **dict[str, Any]({growth: 0.1})),
        report_cell(PAPER, algorithm_label="B", noise_sd=100.0, releases=60, **dict[str, Any]({growth: 0.0})),
    ]
    assert f"with 0.50 times the noise of a count of B {SCHEDULE}" in heading_of(cells)
    assert all(text.endswith(f", with 2.0 times the noise of a count {SCHEDULE}") for text in answer_of(cells))


def test_an_answer_names_the_next_best_cell_and_its_noise() -> None:
    clause = f"algorithm and noise differ, with 1.8 times the noise of a count {SCHEDULE}"
    full, short = answer_of(both(173.0, 316.0))
    assert full == f"Paper, jdp, certified \u03b5 = 1, holds: {clause}; no cell has the same noise"
    assert short == f"Paper: {clause}"
    assert f"the next best (Paper), {clause.partition(', ')[2]}; no cell" in " ".join(
        lead(groups_of(both(173.0, 316.0)))
    )
    assert f"with 1.8 times the noise of a count {SCHEDULE}" in page(both(173.0, 316.0))


def test_a_comparison_on_request_says_how_the_noise_differs() -> None:
    cells = both(173.0, 316.0)
    (group,) = with_comparison(groups_of(cells), *(str(each.row["cell"]) for each in cells))
    (told,) = [sentence for sentence in lead([group]) if sentence.startswith("As asked")]
    assert told.startswith("As asked, Ours")
    assert told.endswith(f", with 0.55 times the noise of a count {SCHEDULE}.")
