"""The content of a report: the answer first, its figure, the cost of privacy, budgets, claims, all cells, methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from dprl.platform.errors import counted
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import heading, lead
from dprl.platform.reports.documents.blocks import Block, Figure, Heading, Paragraph, Rich, Section, styled
from dprl.platform.reports.documents.markdown import VERBATIM
from dprl.platform.reports.figures.catalogue import palette_of
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.pages.budget_tables import BudgetTables
from dprl.platform.reports.pages.cell_tables import cell_blocks
from dprl.platform.reports.pages.comparison import halving_comparison
from dprl.platform.reports.pages.markup import Names
from dprl.platform.reports.pages.methods import HALVED, MEDIAN, METHODS
from dprl.platform.reports.pages.user_tables import needed_tables
from dprl.platform.reports.pages.values import environment_words
from dprl.platform.reports.records import full_label, results_in

_CURVES = "curves"
_LEADING = ("gaps", "final", "users")
"""Names of the figures that go to the top."""
_NO_HEADLINE = "These cells have no headline to compare"


@dataclass(frozen=True)
class Content:
    """The content of a report.

    title: by default the heading. groups: its cells. charts: its figures, the most important first. sweeps: their names
    and progress. missing: one line for each sweep that is not finished. made: lines on how it was made. command: the
    one that writes it again. preface: text at the top. compared: two algorithms for a comparison of the episodes to
    half regret. certificates: labels and relative paths of the cells' pages.
    """

    title: str | None
    groups: Sequence[Group]
    charts: Sequence[Chart]
    sweeps: Sequence[str]
    missing: Sequence[str]
    made: Sequence[str]
    command: str
    preface: str = ""
    compared: tuple[str, str] | None = None
    certificates: Sequence[tuple[str, str]] = ()

    def document(self) -> tuple[str, list[Block]]:
        """Return the title of the report, for a browser's tab, and its blocks."""
        answer = heading(self.groups) or _NO_HEADLINE
        return self.title or answer, [*self._head(answer), *self._body(), self._methods()]

    @cached_property
    def names(self) -> Names:
        """The names of the algorithms with their colours."""
        return Names(self._cells, palette_of(self._cells))

    @property
    def _cells(self) -> list[ReportCell]:
        return [cell for group in self.groups for cell in group.cells]

    def _head(self, answer: str) -> Iterator[Block]:
        words = [styled(word, "span") for word in self._eyebrow()]
        text = " \u00b7 ".join(map(str, words))
        yield Paragraph(Rich(text, Markup("").join(words)), "eyebrow")
        for line in self.missing:
            yield Paragraph(line, "missing", "Not finished")
        yield Heading(answer, 1)
        if self.preface:
            yield Paragraph(self.preface, VERBATIM)
        if told := " ".join(lead(self.groups)):
            yield Paragraph(told, "lead")

    def _body(self) -> Iterator[Block]:
        leading, others = self._figures
        yield from leading
        yield from needed_tables(self._cells)
        yield from BudgetTables([group for group in self.groups if group.metric is not None], self.names).blocks()
        if self.compared is not None:
            yield from halving_comparison(self.groups, *self.compared)
        if others:
            first, *folded = others
            further = [Section([figure], folded=figure.chart.title) for figure in folded]
            yield Section([Heading(first.chart.title), first, *further], "curves")
        yield from cell_blocks(self.groups, self.names)
        if self.certificates:
            links = (Markup('<a href="{}">{}</a>').format(place, label) for label, place in self.certificates)
            lines = [Paragraph(Rich(str(link.striptags()), link)) for link in links]
            yield Section(lines, "certificates", folded="Certificates to read, print and sign")

    def _methods(self) -> Section:
        again = Rich(f"`{self.command}`", styled(self.command, "code").html)
        found = (("Metrics", " ".join(self._metrics())), *METHODS)
        told: list[Block] = [Heading("Methods"), *(Paragraph(text, "", name) for name, text in found if text)]
        return Section([*told, *map(Paragraph, self.made), Paragraph(again, "", "Regenerate")], "methods", "small")

    def _metrics(self) -> Iterator[str]:
        """Return the definitions of the headlines and the results."""
        rows = [cell.row for cell in self._cells]
        results = results_in({key for row in rows for key in row})
        headlines = [group.metric for group in self.groups if group.metric is not None]
        for metric in dict.fromkeys([*headlines, *results]):
            text = metric.definition or full_label(metric)
            better = f"; {metric.better}er is better" if metric.headline else ""
            over = f" {MEDIAN}" if metric.across == "median" else ""
            yield f"{metric.label[:1].upper()}{metric.label[1:]}: {text}{better}.{over}"
        if any("halved_at" in row for row in rows):
            yield HALVED

    def _eyebrow(self) -> list[str]:
        seeds = sorted({cell.seeds for cell in self._cells})
        each = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
        named = [] if self.title is None else [self.title]
        return ["dprl report", *named, *environment_words(self.groups), f"{each} per cell", *self.sweeps]

    @property
    def _figures(self) -> tuple[list[Figure], list[Figure]]:
        """The charts as figures: those that lead, and the others, curves first."""
        leading = list(itertools.takewhile(lambda chart: chart.name in _LEADING, self.charts)) or list(self.charts[:1])
        later = [chart for chart in self.charts if chart.name not in {each.name for each in leading}]
        later.sort(key=lambda chart: not chart.name.startswith(_CURVES))
        figures = [Figure(chart, i) for i, chart in enumerate([*leading, *later], start=1)]
        return figures[: len(leading)], figures[len(leading) :]
