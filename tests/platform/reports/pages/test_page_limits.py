"""Limits of a page at their exact sizes, and its tables of the best cells, their rivals and their claims."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.pages import cell_tables
from tests.platform.reports.cases import page, tables_of
from tests.platform.reports.comparing.cases import report_cell

LOW, MIDDLE, HIGH, FREE = [9.0, 10.0, 11.0], [9.5, 10.5, 12.0], [99.0, 100.0, 101.0], [1.0, 1.1, 1.2]
ONE_HOT: dict[str, Any] = {"privacy.families": "one_hot"}
SEPARATE: dict[str, Any] = {"privacy.families": "separate"}


def at(epsilon: float, finals: list[float] = LOW, **more: Any) -> ReportCell:
    return report_cell(finals, claimed=epsilon, proved=epsilon, **more)


@pytest.mark.parametrize(("groups", "note"), [(12, ""), (14, "And 2 further groups of cells, see report.csv.")])
def test_a_page_has_tables_of_at_most_twelve_groups(groups: int, note: str) -> None:
    text = page([at(1.0, LOW, **{"env.horizon": horizon}) for horizon in range(1, groups + 1)])
    assert text.count("### Results at each budget, horizon ") == 12
    assert f"\n{note}\n" in text
    assert ("further groups" in text) == bool(note)


@pytest.mark.parametrize(("budgets", "note"), [(60, ""), (63, "And 3 further budgets, see report.csv.")])
def test_a_table_has_at_most_sixty_budgets(budgets: int, note: str) -> None:
    text = page([at(float(epsilon)) for epsilon in range(1, budgets + 1)])
    best, cells = tables_of(text)
    assert (len(best), len(cells)) == (60, budgets)
    assert [row["Budget"] for row in best[:2]] == ["\u03b5 \u2264 1", "\u03b5 \u2264 2"]
    assert f"\n{note}\n" in text
    assert ("further budgets" in text) == bool(note)


@pytest.mark.parametrize(
    ("most", "title", "kept"), [(4, "All 4 cells", [9.97, 100.0] * 2), (2, "The best of 4 cells", [9.97, 9.97])]
)
def test_of_many_cells_the_best_of_every_group_are_shown(
    most: int, title: str, kept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_tables, "_MOST_ROWS", most)
    cells = [at(1.0, finals, **{"env.horizon": h}) for h in (3, 4) for finals in (HIGH, LOW)]
    text = page(cells)
    assert f"## {title}\n" in text
    rows = tables_of(text)[-1]
    found = [float(row["Regret per episode"].partition(" ")[0]) * 100 for row in rows]
    assert found == pytest.approx(kept, rel=0.01)
    assert ("2 further cells are in report.csv." in text) == (most == 2)


def test_settings_that_differ_are_columns_those_of_the_environment_first() -> None:
    other: dict[str, Any] = {"env.name": "random_mdp", "env.horizon": 6}
    large, small = ({"algorithm.bonus_scale": scale, **ONE_HOT} for scale in (1.0, 0.1))
    cells = [at(1.0, **large), at(1.0, **small), at(1.0, **other, **large), at(1.0, **other, **SEPARATE)]
    rows = tables_of(page([*cells, at(1.0, episodes=2000, **other, **large)]))[-1]
    assert list(rows[0])[2:7] == ["Environment", "Horizon", "Episodes", "Bonus scale", "Families"]
    assert {(row["Environment"], row["Horizon"]) for row in rows} == {("riverswim", "4"), ("random_mdp", "6")}
    assert {row["Episodes"] for row in rows} == {"100", "2,000"}
    assert {row["Bonus scale"] for row in rows} == {"1", "0.1", ""}


def test_a_note_of_all_cells_is_below_their_table() -> None:
    cells = [at(1.0, theorem="a theorem"), at(1.0, MIDDLE, algorithm="pucb", theorem="a theorem")]
    text = page(cells)
    assert text.count("covered by a theorem") == 1
    assert "All cells above: covered by a theorem." in text
    assert "Note" not in tables_of(text)[-1][0]
    assert "Note" in tables_of(page([cells[0], at(4.0)]))[-1][0]


def test_the_table_of_budgets_tells_rivals_by_noise_and_tests() -> None:
    best, mixed, equal = (
        at(1.0, algorithm="bernstein_vi", **ONE_HOT),
        at(1.0, MIDDLE, **SEPARATE),
        at(1.0, HIGH, **ONE_HOT),
    )
    free = report_cell(FREE, "none", algorithm="bernstein_vi")
    row, without = tables_of(page([best, mixed, equal, free]))[0]
    assert row["Next, at equal noise"] == "private_ucb_vi 10\u00d7"
    assert (row["Cost of privacy"], without["Cost of privacy"]) == ("9.1\u00d7 [7.3, 11]", "\u2013")
    assert (without["Budget"], without["Trust and \u03b4"]) == ("\u03b5 = \u221e", "no privacy")
    (row,) = tables_of(page([best, mixed]))[0]
    assert row["Next, at equal noise"] == "private_ucb_vi other noise, too"
    (row,) = tables_of(page([at(1.0), at(1.0, MIDDLE, algorithm="pucb")]))[0]
    assert row["Next, at equal noise"] == "pucb 1.1\u00d7 not significant"
    (row,) = tables_of(page([at(1.0, LOW[:2]), at(1.0, HIGH[:2], algorithm="pucb")]))[0]
    assert row["Next, at equal noise"].endswith(" not tested")
    (row,) = tables_of(page([at(1.0, **ONE_HOT), at(1.0, HIGH, **SEPARATE)]))[0]
    assert row["Next, at equal noise"] == "private_ucb_vi 10\u00d7 other noise separate"


def test_a_card_has_the_cost_of_privacy_or_the_headline() -> None:
    text = page([at(1.0), report_cell(FREE, "none")])
    assert "## What privacy costs at \u03b5 \u2264 1\n" in text
    assert "* **Central, \u03b4 = 0**: 9.1\u00d7 [7.3, 11] the regret without privacy\n" in text
    text = page([at(1.0, claimed_delta=1e-6)])
    assert "## The best at \u03b5 \u2264 1\n\nThe best regret per episode of all cells within the budget.\n" in text
    assert "* **Central, \u03b4 \u2264 10\u207b\u2076**: 0.0997 [0.0777, 0.128] regret per episode\n" in text
    zero = [0.0, 0.0, 0.0]
    assert "regret against no privacy; the run without privacy learned less\n" in page(
        [report_cell(zero), report_cell(LOW, "none")]
    )


def test_claims_are_counted_by_verdict_with_the_factors_of_those_that_fail() -> None:
    printed: dict[str, Any] = {"privacy.calibration": "printed"}
    cells = [at(1.0, note="saturated"), at(4.0, claimed_delta=1e-6, algorithm="pucb")]
    cells += [report_cell(LOW, "ldp", proved=proved, factor=proved, **printed) for proved in (2.0, 3.0)]
    text = page(cells)
    assert "* **holds**: The noise certifies the claimed \u03b5 at the claimed \u03b4. 2 cells.\n" in text
    fails = "2 cells: private_ucb_vi, local, printed noise, certifies 2.0 to 3.0 times the \u03b5 it claims.\n"
    assert f"* **FAILS**: The noise certifies only a larger \u03b5. {fails}" in text
    assert "**Nothing was learned in 1 of 4 cells.** Bonus saturated: " in text
    best, every = tables_of(text)
    assert best[0]["Best algorithm"] == "private_ucb_vi nothing was learned"
    assert {row["Algorithm"]: row["Note"] for row in every if row["Note"]} == {"private_ucb_vi": "nothing was learned"}
    flat = dict[str, Any](regret_per_episode_first=0.4, regret_per_episode_last=0.39)
    text = page([at(1.0), at(4.0, algorithm="pucb", **flat)])
    assert "**Nothing was learned in 1 of 2 cells.** Their last policies have nearly the regret of the first" in text
