"""Pages of games show gaps with their bands, also side by side; pages of other sweeps are as without them."""

from __future__ import annotations

from dprl.platform.reports.cell_texts import rows_of
from dprl.platform.reports.pages.markdown_tables import page
from tests.platform.reports.cases import NONE, cell, game_cell, jdp, summary

GAP, EXPLOITABILITY = "smallest gap [95 %]", "exploitability [95 %]"


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, headers first, without the rule below them."""
    lines = [line for line in text.splitlines() if line.startswith("|") and ":--" not in line]
    return [[each.strip() for each in line.strip("|").split("|")] for line in lines]


def test_a_page_of_games_shows_gaps_with_their_bands() -> None:
    text = page("Games", rows_of(summary([game_cell(NONE), game_cell(jdp(1))])), [])
    headers, _, private = rows(text)
    found = summary([game_cell(jdp(1))]).iloc[0]
    for header, column in ((GAP, "smallest_gap"), (EXPLOITABILITY, "exploitability")):
        value, lower, upper = (f"{found[column + end]:.4g}" for end in ("", "_lower", "_upper"))
        assert private[headers.index(header)] == f"{value} [{lower}, {upper}]"
    assert "\n`smallest gap`: the least V_up - V_lo" in text


def test_few_seeds_have_no_band() -> None:
    headers, line = rows(page("Games", rows_of(summary([game_cell(jdp(1), seeds=2)])), []))
    assert "[" not in line[headers.index(GAP)]
    assert float(line[headers.index(GAP)]) > 0


def test_gaps_stand_side_by_side_where_scales_do() -> None:
    one = summary([game_cell(jdp(1)), game_cell(jdp(4))])
    other = one.iloc[:1].assign(**{"algorithm.bonus_scale": 0.03, "smallest_gap": 0.125})
    cells = [*rows_of(one), *rows_of(other)]
    headers, first, second = rows(page("Games", cells, []))
    places = [i for i, header in enumerate(headers) if header == GAP]
    assert len(places) == 2
    assert first[places[1]].startswith("0.125 [")
    assert second[places[1]] == ""
    assert second[places[0]]
    assert len(headers) == len(first) == len(second)


def test_algorithms_without_gaps_leave_blanks_beside_those_that_have_them() -> None:
    both = summary([game_cell(jdp(1)), cell(jdp(1))])
    settings = [key for key in both.columns if key.startswith("env.") and key != "env.name"]
    cells = rows_of(both.drop(columns=settings).assign(**{"env.name": "one for both"}))
    headers, *lines = rows(page("Both", cells, []))
    assert sorted(line[headers.index(GAP)] == "" for line in lines) == [False, True]


def test_an_algorithm_is_shown_by_its_label() -> None:
    labelled = summary([cell(jdp(1.0))]).assign(algorithm_label="Ours")
    assert rows(page("Labels", rows_of(labelled), []))[1][0] == "Ours"


def test_other_pages_are_without_gaps() -> None:
    text = page("Regret", rows_of(summary([cell(NONE), cell(jdp(1))])), [])
    assert "gap" not in text
    assert "exploitab" not in text
