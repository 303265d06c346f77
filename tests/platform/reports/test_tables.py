"""The table of a sweep in the terminal: its columns and its width; tables and facts as text."""

from __future__ import annotations

import io

import pandas as pd

from dprl.platform.reports.tables import write_summary
from dprl.platform.reports.terminal import Table, facts_text, write_table
from tests.platform.reports.cases import NONE, cell, game_cell, jdp, summary


def table(*cells: object) -> tuple[list[str], list[list[str]], str]:
    """Headers, rows and footer of the table of these cells."""
    stream = io.StringIO()
    write_summary(stream, summary(cells))  # type: ignore[arg-type]
    header, *lines = stream.getvalue().splitlines()
    assert max(map(len, (header, *lines[: len(cells)]))) <= 100  # with labels of up to 8 letters
    return header.split(), [line.split() for line in lines[: len(cells)]], lines[len(cells)]


def test_a_sweep_of_games_has_columns_of_gap_and_exploitability() -> None:
    headers, rows, legend = table(game_cell(NONE), game_cell(jdp(1)))
    at = headers.index("halving") + 1
    assert headers[at : at + 3] == ["gap", "exploit.", "claim"]
    found = summary([game_cell(jdp(1))]).iloc[0]
    assert rows[1][at : at + 2] == [f"{found['smallest_gap']:.2g}", f"{found['exploitability']:.2g}"]
    assert "; gap: smallest gap of the output policy after the last episode; " in legend
    assert "; exploit.: exploitability of the output policy after the last episode; " in legend


def test_a_cell_without_a_gap_beside_one_that_has_it_is_marked() -> None:
    headers, rows, _ = table(cell(jdp(1)), game_cell(jdp(1)))
    at = headers.index("gap")
    assert rows[0][at : at + 2] == ["-", "-"]
    assert "-" not in rows[1][at : at + 2]


def test_a_table_of_many_cells_shows_some_and_says_where_the_others_are() -> None:
    stream = io.StringIO()
    noisy = cell(jdp(1, counter="binary_tree", families="separate"))
    rows = pd.concat([summary([cell(NONE), noisy])] * 1000, ignore_index=True)
    write_summary(stream, rows.assign(note="bonus saturated"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 204
    assert lines[201] == "... and 1800 cells more, in summary.csv"
    assert lines[-1].endswith("; and 1,997 more)")
    assert len(lines[-1]) <= 300


TABLE = Table(["cell", "regret"], [["[b]a", "1.5"], ["bb", "12.25"]], ["cell"])
NOTES = ["a [note]", "warning: bonus saturated"]
PLAIN = "cell  regret\n[b]a     1.5\nbb     12.25\na [note]\nwarning: bonus saturated\n"


def written(stream: io.StringIO) -> str:
    write_table(stream, TABLE, NOTES)
    return stream.getvalue()


def test_numbers_are_aligned_right_and_texts_left() -> None:
    assert written(io.StringIO()) == PLAIN


def test_columns_without_any_text_are_left_out() -> None:
    table = Table.of([{"a": "1", "b": ""}, {"a": "2", "c": "3"}], ())
    assert (table.headers, table.body) == (["a", "c"], [["1", ""], ["2", "3"]])


def test_facts_name_a_subject_once_and_wrap_their_texts() -> None:
    long = "word " * 30
    lines = facts_text("title", [("proved", "one"), ("proved", long), ("a longer subject", "two")]).splitlines()
    assert lines[0] == "title"
    assert [line[:19] for line in lines[1:]] == ["  proved           ", *2 * [" " * 19], "  a longer subject "]
    assert max(map(len, lines)) <= 116
