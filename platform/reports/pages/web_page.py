"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dprl.platform.errors import counted
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import heading, lead
from dprl.platform.reports.figures.catalogue import palette_of
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.pages.budget_tables import BudgetTables
from dprl.platform.reports.pages.cell_tables import CellTables
from dprl.platform.reports.pages.inline_figures import figure_colours, inline_figure
from dprl.platform.reports.pages.markup import Names
from dprl.platform.reports.pages.methods import METHODS
from dprl.platform.reports.pages.stylesheet import stylesheet
from dprl.platform.reports.pages.template import PAGE
from dprl.platform.reports.pages.values import environment_words
from dprl.platform.reports.records import SATURATION_NOTE, SATURATION_REMEDY

_CURVES = "curves"
_NO_HEADLINE = "These cells have no headline to compare"


class Figure(NamedTuple):
    """A chart inside a page: two SVG elements, for wide and narrow screens, with title and caption."""

    wide: Markup
    narrow: Markup
    title: str
    caption: str


@dataclass(frozen=True)
class Page:
    """A report before it is written.

    title: of the browser's tab, by default the heading. groups: its cells. charts: its figures, the one that answers
    most first. sweeps: their names, and how far they are. missing: one line for each sweep that is not finished. made:
    how it was made, line by line. command: that writes it again.
    """

    title: str | None
    groups: Sequence[Group]
    charts: Sequence[Chart]
    sweeps: Sequence[str]
    missing: Sequence[str]
    made: Sequence[str]
    command: str

    def html(self) -> str:
        """Return the page."""
        budgets = BudgetTables([group for group in self.groups if group.metric is not None], self._names)
        cells = CellTables(self.groups, self._names)
        figures = self._figures()
        answer = heading(self.groups) or _NO_HEADLINE
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
        return environment.from_string(PAGE).render(
            title=self.title or answer,
            style=Markup(stylesheet(self._names.shades, figure_colours(self.charts))),
            eyebrow=self._eyebrow(),
            missing=self.missing,
            heading=answer,
            lead=" ".join(lead(self.groups)),
            leading=figures[:1],
            cards=budgets.cards(),
            tables=budgets.tables(),
            tables_left_out=budgets.left_out,
            later=figures[1:],
            claims=cells.claims(),
            cells_title=f"All {counted(len(self._cells), 'cell')}" if len(self._cells) > 1 else "The cell",
            cell_tables=cells.tables(),
            methods=METHODS,
            made=self.made,
            command=self.command,
            saturation=SATURATION_NOTE,
            remedy=SATURATION_REMEDY,
        )

    @property
    def _cells(self) -> list[ReportCell]:
        return [cell for group in self.groups for cell in group.cells]

    @cached_property
    def _names(self) -> Names:
        return Names(self._cells, palette_of(self._cells))

    def _eyebrow(self) -> list[str]:
        seeds = sorted({cell.seeds for cell in self._cells})
        each = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
        named = [] if self.title is None else [self.title]
        return ["dprl report", *named, *environment_words(self.groups), f"{each} per cell", *self.sweeps]

    def _figures(self) -> list[Figure]:
        """Return the charts as figures of the page: the first, then curves, then the others."""
        found = []
        later = sorted(self.charts[1:], key=lambda chart: not chart.name.startswith(_CURVES))
        for i, chart in enumerate([*self.charts[:1], *later], start=1):
            wide, narrow = map(Markup, inline_figure(chart, f"f{i}"))
            found.append(Figure(wide, narrow, chart.title, chart.caption))
        return found
