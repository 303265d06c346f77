"""Renders documents as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

from dprl.platform.reports.documents.blocks import (
    Block,
    Card,
    Facts,
    Figure,
    Heading,
    Paragraph,
    Section,
    Table,
)

_WIDTH = 120
_BAR = "\\|"
VERBATIM = "verbatim"
"""Style of paragraphs that are Markdown already."""


def markdown(title: str, blocks: Sequence[Block], figures: str) -> str:
    """Return a document as Markdown. figures: folder of its figures as SVG, named after their charts."""
    texts = (_text(block, figures) for block in blocks if block != Heading(title, 1))
    return "\n\n".join([f"# {title}", *filter(None, texts)]) + "\n"


def markdown_table(rows: Sequence[Mapping[str, str]], texts: Collection[str]) -> str:
    """Return a table of rows, texts by header, with the columns `texts` aligned left, the others right; '' for none."""
    return _table(Table.of_texts([*rows[0]], [[*row.values()] for row in rows], texts)) if rows else ""


def _text(block: Block, figures: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * max(2, level)} {text}"
        case Paragraph(text, style, term):
            if style == VERBATIM:
                return str(text)
            return _filled(f"**{term}.** {text}" if term else str(text))
        case Table():
            return _table(block)
        case Figure(chart):
            return f"![{block.title}]({figures}/{chart.name}.svg)\n\n{_filled(f'**{block.title}.** {chart.caption}')}"
        case Section(blocks, _, _, folded):
            title = [f"### {folded}"] if folded else []
            return "\n\n".join([*title, *(text for each in blocks if (text := _text(each, figures)))])
        case Card():
            return f"* **{block.title}**: {' '.join(f'{block.big} {block.interval} {block.sub}'.split())}"
        case Facts(title, facts):
            head = [f"**{title}**\n"] if title else []
            return "\n".join([*head, *(f"* **{name}**: {told}" for name, told in facts)])


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(table: Table) -> str:
    columns, rows = table.plain()
    rule = ["--:" if column.numeric else ":--" for column in columns]
    lines = ([str(column.header) for column in columns], rule, *rows)
    return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)
