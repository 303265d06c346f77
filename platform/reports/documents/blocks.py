"""Blocks of a document; each renderer knows all of them. Texts are plain, or Markup with HTML of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from markupsafe import Markup

if TYPE_CHECKING:
    from dprl.platform.reports.figures.charts import Chart


def beside(*parts: str) -> Markup:
    """Return the non-empty parts joined with spaces."""
    return Markup(" ").join(part for part in parts if part)


def styled(text: str, tag: str, style: str = "") -> Markup:
    """Return text in an HTML element of its own; '' stays empty."""
    css = Markup(' class="{}"').format(style) if style else ""
    return Markup("<{0}{1}>{2}</{0}>").format(tag, css, text) if text else Markup("")


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    text: str
    level: int = 2
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. style: its class in HTML. term: bold text before it."""

    text: str
    style: str = ""
    term: str = ""
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Table:
    """A table. texts: headers of columns that are aligned left; the others hold numbers."""

    headers: Sequence[str]
    body: Sequence[Sequence[str]]
    texts: Collection[str]
    kind: ClassVar[str] = "table"

    def without_empty_columns(self) -> Table:
        """Return the table without columns that are empty in all lines."""
        kept = [i for i in range(len(self.headers)) if any(line[i] for line in self.body)]
        return Table([self.headers[i] for i in kept], [[line[i] for i in kept] for line in self.body], self.texts)


@dataclass(frozen=True)
class Facts:
    """Names with texts under a title, such as verdicts; a name repeated in succession is shown once."""

    title: str
    facts: Sequence[tuple[str, str]]
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
    folded: str = ""
    kind: ClassVar[str] = "section"


Block = Heading | Paragraph | Table | Facts | Figure | Section
