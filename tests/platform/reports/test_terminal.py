"""Tables and facts as text."""

from __future__ import annotations

import io

from dprl.platform.reports.terminal import Table, facts_text, write_table

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
