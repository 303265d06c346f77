"""The game benchmark's own parts: it times what it says, and what it prints says whether a goal was met."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from benchmarks import games
from benchmarks.naive_dp_nash_vi import equilibrium_by_linprog, nearest_closed_form, pure_equilibrium
from dprl.envs.games.equilibria import equilibrium_scratch


def printed(report: object, rows: list[object]) -> str:
    text = io.StringIO()
    assert callable(report)
    report(Console(file=text, width=200), rows)
    return text.getvalue()


def test_games_without_a_pure_equilibrium_have_none() -> None:
    for kind, most in (("any", games._GAMES), ("no pure", 0)):
        upper, lower = games.matrix_games(3, kind)
        pure = sum(pure_equilibrium(u, v) is not None for u, v in zip(upper, lower, strict=True))
        assert pure == 0 if most == 0 else 0 < pure < most
        assert (upper >= lower).all()


def test_the_loop_over_games_solves_the_last_one_last() -> None:
    upper, lower = games.matrix_games(3, "no pure")
    policy = np.zeros((3, 3))
    games.solve_often(2, upper, lower, equilibrium_scratch(3, 3), policy)
    gap = (policy * (upper[-1] - lower[-1])).sum()
    assert gap == pytest.approx(
        (equilibrium_by_linprog(upper[-1], lower[-1]) * (upper[-1] - lower[-1])).sum(), abs=1e-5
    )


@pytest.mark.parametrize("visits", ["few", "many"])
def test_the_loop_over_tables_post_processes_the_last_one_last(visits: str) -> None:
    given = games.programmes(4, 6, visits)
    games.postprocess_often(2, *given)
    last = given.tables[-1]
    expected = nearest_closed_form(last[:-1].T, last[-1], given.precision / 4.0)
    np.testing.assert_allclose(given.found.counts.T, expected, atol=1e-9)


def test_many_visits_are_many_beside_the_noise() -> None:
    few, many = (games.programmes(5, 45, visits).tables[:, :-1] for visits in ("few", "many"))
    assert (few < 0.0).mean() > 0.3
    assert (many < 0.0).mean() < 0.01


def test_kernels_are_timed_beside_linprog() -> None:
    equilibria = games.measure_equilibria(2, "any", effort=1)
    assert 0.0 < 50.0 * equilibria.ours < equilibria.linprog < 1e5
    rows = games.measure_postprocessing(5, 45, "few", effort=1)
    assert 0.0 < 500.0 * rows.ours < rows.linprog < 1e8


def test_the_tables_say_what_was_met() -> None:
    small, large = (case.label for case in games.CASES)
    rows: list[object] = [
        games.Row(small, "jdp", 18.0, 190_000.0, 17_000.0, 600.0, 0.7, 0.6),
        games.Row(large, "ldp", 160.0, 1_500_000.0, 100_000.0, 2_000.0, 0.7, 0.6),
    ]
    central, local = [line for line in printed(games.report_learners, rows).splitlines() if "S=" in line]
    assert "central" in central
    assert "<= 20 met" in central
    assert ">= 10000 met" in central
    assert ">= 1000 missed" in central
    assert "local" in local
    assert "<= 150 missed" in local
    assert ">= 10000 missed" in local
    assert ">= 600 met" in local
    assert "70%, theirs 60%" in local
    equilibria = printed(
        games.report_equilibria,
        [games.EquilibriumRow(3, "any", 0.9, 900.0), games.EquilibriumRow(4, "no pure", 2.5, 900.0)],
    )
    assert "<= 1 met" in equilibria
    assert "<= 2 missed" in equilibria
    rows_of_eq_8 = printed(games.report_postprocessing, [games.PostprocessingRow(5, 45, "few", 16.0, 900_000.0)])
    assert "<= 15 missed" in rows_of_eq_8
    assert ">= 50000 met" in rows_of_eq_8
