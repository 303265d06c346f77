"""Panels have few curves, which differ in grey too; no claim that fails has a full marker."""

from __future__ import annotations

import itertools
import math

import pytest

from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.figures.facets import MOST_CURVES, MOST_PANELS, Facet, facets_at_equal_privacy, facets_of
from tests.platform.reports.comparing.cases import report_cell

FINALS = [1.0, 2.0, 3.0]


def test_few_cells_share_a_panel() -> None:
    cells = [report_cell(FINALS, claimed=e, proved=e) for e in (1.0, 2.0)] + [report_cell(FINALS, "none")]
    (facet,) = facets_of(cells)
    assert len(facet.cells) == 3
    assert facet.title == "private_ucb_vi jdp"


def test_many_cells_are_split_by_algorithm_and_trust_model_and_the_rest_is_told() -> None:
    cells = [
        report_cell(FINALS, model, e, e, algorithm)
        for algorithm, model, e in itertools.product(("pucb", "best_ucb_vi"), ("jdp", "ldp"), range(1, 12))
    ]
    free = [report_cell(FINALS, "none", algorithm=name) for name in ("pucb", "best_ucb_vi")]
    facets = facets_of([*cells, *free])
    assert len(facets) == 4
    for facet in facets:
        first, *private = facet.cells
        assert not first.private
        assert len(facet.cells) == MOST_CURVES
        assert facet.title.endswith(", 8 of 12")
        assert len({cell.row["algorithm.name"] for cell in facet.cells}) == 1
        assert len({cell.row["privacy.model"] for cell in private}) == 1
        proved = [cell.proved for cell in private]
        assert (proved[0], proved[-1]) == (1, 11)
        assert proved == sorted(set(proved))


def test_no_cell_is_left_out_of_a_panel_that_has_room() -> None:
    cells = [report_cell(FINALS, claimed=e, proved=e) for e in range(1, MOST_CURVES + 1)]
    (facet,) = facets_of(cells)
    assert [cell.proved for cell in facet.cells] == list(range(1, MOST_CURVES + 1))
    assert "of" not in facet.title


@pytest.mark.parametrize(
    ("private", "free", "shown"), [(0, 10, (0, 8)), (2, 10, (2, 6)), (10, 5, (4, 4)), (10, 1, (7, 1))]
)
def test_a_full_panel_has_as_many_as_fit_of_both_kinds(private: int, free: int, shown: tuple[int, int]) -> None:
    cells = [report_cell(FINALS, claimed=e, proved=e) for e in range(1, private + 1)]
    (facet,) = facets_of([*cells, *(report_cell(FINALS, "none") for _ in range(free))])
    assert sum(cell.private for cell in facet.cells) == shown[0]
    assert len(facet.cells) == sum(shown)


def test_curves_differ_without_colour() -> None:
    cells = [report_cell(FINALS, claimed=e, proved=e) for e in range(1, 8)] + [report_cell(FINALS, "none")]
    (facet,) = facets_of(cells)
    looks = {(str(style["ls"]), style.get("marker")) for style in facet.styles()}
    assert len(looks) == MOST_CURVES


def test_a_claim_that_fails_has_a_hollow_marker_and_its_proved_epsilon() -> None:
    (facet,) = facets_of([report_cell(FINALS), report_cell(FINALS, proved=5.0)])
    holds, fails = facet.styles()
    assert (holds["mfc"], fails["mfc"]) == (holds["color"], "white")
    assert facet.name(facet.cells[1]) == "private_ucb_vi, jdp, proved \u03b5 = 5 (the claim of 1 fails)"


def of_two_algorithms(*epsilons: float) -> list[ReportCell]:
    return [report_cell(FINALS, "jdp", e, e, algorithm) for algorithm in ("pucb", "best_ucb_vi") for e in epsilons]


def proved(facet: Facet) -> set[float]:
    return {cell.proved for cell in facet.cells if cell.private}


def test_algorithms_that_prove_the_same_lie_side_by_side() -> None:
    cells = of_two_algorithms(1.0, 2.0, 4.0, 8.0)
    alone, fails = report_cell(FINALS, "jdp", 3.0, 3.0), report_cell(FINALS, "jdp", 1.0, 2.0)
    unproved = [report_cell(FINALS, "jdp", 1.0, math.inf, name) for name in ("pucb", "best_ucb_vi")]
    free = [report_cell(FINALS, "none", algorithm=name) for name in ("pucb", "best_ucb_vi")]
    facets = facets_at_equal_privacy([*cells, alone, fails, *unproved, *free])
    assert [facet.title for facet in facets] == [f"jdp, proved \u03b5 = {e}" for e in (1, 2, 4, 8)]
    for facet in facets:
        assert [cell.private for cell in facet.cells] == [False, False, True, True]
        assert len(proved(facet)) == 1
        names = [facet.name(cell) for cell in facet.cells]
        assert len(set(names)) == 4
    shown = [cell for facet in facets for cell in facet.cells]
    assert not any(cell is other for cell in shown for other in (alone, fails, *unproved))


def test_there_are_no_such_panels_where_all_cells_share_one_or_none_prove_the_same() -> None:
    assert facets_at_equal_privacy(of_two_algorithms(1.0, 2.0, 4.0, 8.0)) == []
    assert facets_at_equal_privacy([report_cell(FINALS, claimed=e, proved=e) for e in range(1, 20)]) == []


def test_of_many_epsilons_some_have_panels_and_the_title_says_so() -> None:
    facets = facets_at_equal_privacy(of_two_algorithms(*range(1, 21)))
    assert len(facets) == MOST_PANELS
    assert (proved(facets[0]), proved(facets[-1])) == ({1}, {20})
    assert all(facet.title.endswith(f"({MOST_PANELS} of 20)") for facet in facets)


def test_trust_models_have_panels_of_their_own() -> None:
    cells = [
        report_cell(FINALS, model, e, e, algorithm)
        for model, algorithm, e in itertools.product(("ldp", "jdp"), ("pucb", "best_ucb_vi"), (1.0, 2.0, 3.0))
    ]
    facets = facets_at_equal_privacy(cells)
    assert [facet.title[:3] for facet in facets] == ["jdp"] * 3 + ["ldp"] * 3
