"""Only comparisons of one factor are declared, and Holm's method adjusts for these."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Group, comparison_frame, groups_of
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
    assert kinds(group_of(*both, *others)) == {
        ("algorithm", frozenset({10, 20})),
        ("algorithm", frozenset({11, 21})),
    }


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
def test_two_thousand_cells_have_a_comparison_each_for_a_factor_or_two(seeds: int) -> None:
    """All their pairs would be two million rows and 468 MB."""
    generator = np.random.default_rng(seeds)
    cells = [
        report_cell(generator.lognormal(3.0, 0.5, seeds).tolist(), "jdp", epsilon, epsilon, algorithm, **noise)
        for epsilon in np.geomspace(0.1, 100.0, 250).tolist()
        for algorithm in ("private_ucb_vi", "bernstein_vi", "pucb", "private_ucb_po")
        for noise in (ONE_HOT, SEPARATE)
    ]
    group = group_of(*cells)
    frame = comparison_frame([group])
    assert len(cells) == 2000
    assert len(frame) == 250 * (2 * 6 + 4) + 249 * 8
    assert len(frame.to_csv(index=False)) < 3e6
    assert bool(frame["p_holm"].isna().all()) == (seeds < 3)
