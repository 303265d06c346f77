"""Renders documents as text: tables with rich on a terminal, else aligned plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO

from markupsafe import Markup
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from dprl.platform.reports.documents.blocks import Block, Facts, Figure, Heading, Paragraph, Section, Table

WIDTH = 116
_INDENT = "  "
_NAMES = 12
"""Width of the column of names, unless one is longer."""


def write(stream: TextIO, blocks: Sequence[Block]) -> None:
    """Write blocks one below the other."""
    for block in blocks:
        if not (stream.isatty() and _write_rich(stream, block)):
            stream.write(text_of(block) + "\n")


def text_of(block: Block) -> str:
    """Return a block as plain text without a final newline."""
    match block:
        case Table():
            return "\n".join(_aligned(block))
        case Facts():
            return "\n".join(_facts(block))
        case Heading(text):
            return _plain(text)
        case Paragraph(text, style, term):
            told = f"{term}: {_plain(text)}" if term else _plain(text)
            return _INDENT + told if style == "lead" else told
        case Figure():
            return block.title
        case Section(blocks):
            return "\n".join(map(text_of, blocks))


def _plain(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text


def _aligned(table: Table) -> list[str]:
    lines = [[*table.headers], *([_plain(cell) for cell in line] for line in table.body)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    return [
        _INDENT.join(
            text.ljust(width) if header in table.texts else text.rjust(width)
            for text, width, header in zip(line, widths, table.headers, strict=True)
        ).rstrip()
        for line in lines
    ]


def _write_rich(stream: TextIO, block: Block) -> bool:
    """Write a table with a bold head, or a dim note; return whether the block is one of these."""
    if isinstance(block, Table):
        shown = RichTable(box=None, pad_edge=False, header_style="bold")
        for i, header in enumerate(block.headers):
            shown.add_column(header, justify="left" if header in block.texts else "right", no_wrap=i > 0)
        for row in block.body:
            shown.add_row(*(Text(_plain(cell)) for cell in row))
        Console(file=stream).print(shown)
        return True
    if isinstance(block, Paragraph) and block.style == "note":
        Console(file=stream).print(Text(text_of(block), style="dim"), soft_wrap=True)
        return True
    return False


def _facts(block: Facts) -> list[str]:
    lines = [block.title]
    facts = [(_plain(name), _plain(text)) for name, text in block.facts]
    width, previous = max([_NAMES, *(len(name) + 1 for name, _ in facts)]), ""
    for name, text in facts:
        head = f"{_INDENT}{name if name != previous else '':<{width}}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        previous = name
    return lines
