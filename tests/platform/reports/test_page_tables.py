"""The tables of a page: budgets with rivals, cells with their settings and claims, and limits at their exact sizes."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.reports import report
from dprl.platform.results.cells import Cell
from tests.platform.reports.cases import page, tables_of, text_of
from tests.platform.results.cases import report_cell

LOW, MIDDLE, HIGH, FREE = [9.0, 10.0, 11.0], [9.5, 10.5, 12.0], [99.0, 100.0, 101.0], [1.0, 1.1, 1.2]


def at(epsilon: float, finals: list[float] = LOW, **more: Any) -> Cell:
    return report_cell(finals, claimed=epsilon, proved=epsilon, **more)


def test_of_many_cells_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_CELLS", 3)
    envs: list[dict[str, Any]] = [{"env.horizon": horizon} for horizon in (3, 4)]
    blocks = page([at(1.0, finals, **env) for env in envs for finals in (HIGH, LOW)])
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
