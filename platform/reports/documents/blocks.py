"""Blocks of a document; each renderer knows all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from markupsafe import Markup

if TYPE_CHECKING:
    from dprl.platform.reports.figures.charts import Chart


@dataclass(frozen=True)
class Rich:
    """Text with a form of its own in HTML, such as a badge. text: for other renderers."""

    text: str
    html: Markup

    def __str__(self) -> str:
        return self.text

    def __html__(self) -> Markup:
        return self.html

    def __bool__(self) -> bool:
        return bool(self.text or self.html)


Inline = str | Rich


def beside(*parts: Inline) -> Rich:
    """Return the non-empty parts joined with spaces."""
    found = [part for part in parts if part]
    return Rich(" ".join(text for part in found if (text := str(part))), Markup(" ").join(found))


def styled(text: str, tag: str, style: str = "") -> Rich:
    """Return text in an HTML element of its own; '' stays empty."""
    if not text:
        return Rich("", Markup(""))
    css = Markup(' class="{}"').format(style) if style else Markup("")
    return Rich(text, Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), css, text))


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    text: str
    level: int = 2
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. style: its class in HTML. term: bold text before it."""

    text: Inline
    style: str = ""
    term: str = ""
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Column:
    """A column of a table. style: its classes in HTML, with 'n' for numbers. label: of its cells on narrow screens."""

    header: Inline
    style: str = ""
    label: str = ""

    @property
    def numeric(self) -> bool:
        """Whether its texts are aligned right."""
        return "n" in self.style.split()


@dataclass(frozen=True)
class Table:
    """A table. body: its lines; the last cell of a short line spans the missing ones.

    style: its classes in HTML. styles: those of its lines, if they have any.
    """

    columns: Sequence[Column]
    body: Sequence[Sequence[Inline]]
    style: str = ""
    styles: Sequence[str] = ()
    kind: ClassVar[str] = "table"

    def plain(self) -> tuple[list[Column], list[list[str]]]:
        """Return columns and lines as plain texts; columns of drawings only are left out."""
        n = len(self.columns)
        lines = [[str(cell) for cell in line] + [""] * (n - len(line)) for line in self.body]
        kept = [i for i, column in enumerate(self.columns) if str(column.header) or any(line[i] for line in lines)]
        return [self.columns[i] for i in kept], [[line[i] for i in kept] for line in lines]

    def without_empty_columns(self) -> Table:
        """Return the table without columns that are empty in all lines, which must be whole."""
        kept = [i for i in range(len(self.columns)) if any(line[i] for line in self.body)]
        return replace(
            self, columns=[self.columns[i] for i in kept], body=[[line[i] for i in kept] for line in self.body]
        )

    @classmethod
    def of_texts(cls, headers: Sequence[str], lines: Sequence[Sequence[str]], texts: Collection[str]) -> Table:
        """Return a table of plain texts; columns with headers outside of `texts` hold numbers."""
        return cls([Column(header, "" if header in texts else "n") for header in headers], lines)


@dataclass(frozen=True)
class Card:
    """One number in large type, alone or with a badge. sub: its meaning. interval: its ends. facts: further ones."""

    title: str
    big: Inline
    sub: str
    interval: str
    facts: Sequence[tuple[str, Inline]]
    badge: Inline
    kind: ClassVar[str] = "card"


@dataclass(frozen=True)
class Facts:
    """Names with texts under a title, such as verdicts; a name repeated in succession is shown once."""

    title: str
    facts: Sequence[tuple[Inline, Inline]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Figure:
    """A chart with its number."""

    chart: Chart
    number: int
    kind: ClassVar[str] = "figure"

    @property
    def title(self) -> str:
        """Number and title."""
        return f"Figure {self.number}. {self.chart.title}"


@dataclass(frozen=True)
class Section:
    """Blocks that belong together. anchor: their id. folded: a title; HTML shows only this at first."""

    blocks: Sequence[Block]
    anchor: str = ""
    style: str = ""
    folded: str = ""
    kind: ClassVar[str] = "section"


Block = Heading | Paragraph | Table | Card | Facts | Figure | Section


def figures_in(blocks: Sequence[Block]) -> list[Figure]:
    """Return the figures among blocks, in their order."""
    found: list[Figure] = []
    for block in blocks:
        found += (
            [block] if isinstance(block, Figure) else figures_in(block.blocks) if isinstance(block, Section) else []
        )
    return found
