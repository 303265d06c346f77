"""Tables and named facts as text: with rich on a terminal, else aligned plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TextIO

from markupsafe import Markup
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

WIDTH = 116
_INDENT = "  "
_NAMES = 12
"""Width of the column of names, unless one is longer."""


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
    """Write a table, with a bold head on a terminal, and notes below it, there in grey."""
    if not stream.isatty():
        stream.write("\n".join([table_text(table), *notes, ""]))
        return
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for i, header in enumerate(table.headers):
        shown.add_column(header, justify="left" if header in table.left else "right", no_wrap=i > 0)
    for row in table.body:
        shown.add_row(*(Text(_plain(cell)) for cell in row))
    console = Console(file=stream)
    console.print(shown)
    for note in notes:
        console.print(Text(note, style="dim"), soft_wrap=True)


def _plain(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text
