"""Tables and named facts as aligned plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TextIO

from markupsafe import Markup

WIDTH = 116
_INDENT = "  "
_NAMES = 12  # width of the column of names, unless one is longer


class Table(NamedTuple):
    """A table. left: headers of columns that are aligned left; the others hold numbers."""

    headers: Sequence[str]
    body: Sequence[Sequence[str]]
    left: Collection[str]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, str]], left: Collection[str]) -> Table:
        """Return the table of rows by header, without columns that are empty in all rows."""
        known = dict.fromkeys(key for row in rows for key in row)
        headers = [header for header in known if any(row.get(header) for row in rows)]
        return cls(headers, [[row.get(header, "") for header in headers] for row in rows], left)


def table_text(table: Table) -> str:
    """Return a table as plain text without a final newline."""
    lines = [[*table.headers], *([_plain(cell) for cell in row] for row in table.body)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    left = [header in table.left for header in table.headers]
    return "\n".join(
        _INDENT.join(
            text.ljust(width) if at_left else text.rjust(width)
            for text, width, at_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in lines
    )


def facts_text(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """Return names with texts below a title; a name repeated in succession is shown once."""
    lines = [title]
    told = [(_plain(name), _plain(text)) for name, text in facts]
    width, previous = max([_NAMES, *(len(name) + 1 for name, _ in told)]), ""
    for name, text in told:
        head = f"{_INDENT}{name if name != previous else '':<{width}}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        previous = name
    return "\n".join(lines)


def write_table(stream: TextIO, table: Table, notes: Sequence[str] = ()) -> None:
    """Write a table, and notes below it."""
    stream.write("\n".join([table_text(table), *notes, ""]))


def _plain(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text
