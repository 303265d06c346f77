"""Tables and facts as text: styled on a terminal, the same words elsewhere."""

from __future__ import annotations

import io

import pytest

from dprl.platform.reports.terminal import Table, facts_text, write_table

TABLE = Table(["cell", "regret"], [["[b]a", "1.5"], ["bb", "12.25"]], ["cell"])
NOTES = ["a [note]", "warning: bonus saturated"]
PLAIN = "cell  regret\n[b]a     1.5\nbb     12.25\na [note]\nwarning: bonus saturated\n"


class Terminal(io.StringIO):
    """A stream that is read on a screen."""

    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO) -> str:
    write_table(stream, TABLE, NOTES)
    return stream.getvalue()


def test_numbers_are_aligned_right_and_texts_left() -> None:
    assert written(io.StringIO()) == PLAIN


def test_a_terminal_has_bold_headers_and_dim_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = written(Terminal()).splitlines()
    assert "\x1b[1mcell\x1b[0m" in lines[0]
    assert "\x1b[1mregret\x1b[0m" in lines[0]
    assert lines[1:3] == ["[b]a     1.5", "bb     12.25"]
    assert lines[3] == "\x1b[2ma [note]\x1b[0m"


def test_columns_without_any_text_are_left_out() -> None:
    table = Table.of([{"a": "1", "b": ""}, {"a": "2", "c": "3"}], ())
    assert (table.headers, table.body) == (["a", "c"], [["1", ""], ["2", "3"]])


def test_facts_name_a_subject_once_and_wrap_their_texts() -> None:
    long = "word " * 30
    lines = facts_text("title", [("proved", "one"), ("proved", long), ("a longer subject", "two")]).splitlines()
    assert lines[0] == "title"
    assert [line[:19] for line in lines[1:]] == ["  proved           ", *2 * [" " * 19], "  a longer subject "]
    assert max(map(len, lines)) <= 116
