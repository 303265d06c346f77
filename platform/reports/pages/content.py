"""The content of a report: the answer first, its figure, the cost of privacy, budgets, claims, all cells, methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from dprl.platform.errors import counted
from dprl.platform.reports.comparing.declared import MOST_PAIRS
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.sentences import heading, lead
from dprl.platform.reports.documents.blocks import Block, Figure, Heading, Paragraph, Rich, Section, styled
from dprl.platform.reports.figures.catalogue import palette_of
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.pages.budget_tables import BudgetTables
from dprl.platform.reports.pages.cell_tables import cell_blocks
from dprl.platform.reports.pages.comparison import halving_comparison
from dprl.platform.reports.pages.markup import Names
from dprl.platform.reports.pages.values import environment_words
from dprl.platform.reports.records import full_label, results_in

_CURVES = "curves"
_LEADING = ("gaps", "final")
"""Names of the figures that go to the top."""
_NO_HEADLINE = "These cells have no headline to compare"
_INTERVALS = f"""\
Each value of a positive metric is the geometric mean over seeds. The 95% interval is Student's interval of the mean
log value, transformed back, and cut at the range of the metric. Other metrics have the ordinary mean and Student's
interval. The interval of a ratio is Welch's, on logs. Bands of curves are simultaneous (sup-t, multiplier bootstrap
of whole seeds' curves): with 3 or 4 seeds those of rough curves cover about 90% only. With fewer than {FEWEST_SEEDS}
seeds there is no interval and no test."""
_BUDGETS = """\
A cell is within the budget (\u03b5, \u03b4) if its noise certifies at most \u03b5 at some \u03b4 no larger than the
budget's. Figures show a cell at the \u03b5 that its noise certifies, never at one that it only claims."""
_TESTS = f"""\
Comparisons are declared before any result is seen. They are between two algorithms at the same privacy and noise,
two kinds of noise for one algorithm at the same privacy, or two neighbouring \u03b5 for one algorithm and kind of
noise. "Significant" means Welch's test, on logs where values are positive, with Holm's adjustment at 5% for all
declared comparisons of a group: one environment with one number of episodes. There is no adjustment over groups: on
a page of G groups the probability of any false difference is at most 5% times G. Intervals of single values are not
adjusted, not even for the choice of the best cell. "Not significant" does not mean equal. "Other noise, too" marks a
next best cell that differs in algorithm and noise; no ratio is then shown. All comparisons are in comparisons.csv. A
grid with more than {MOST_PAIRS} comparisons of algorithms or of noise at one privacy declares none of them;
--compare declares one that you name."""
_PRIVACY = """\
\u03b5 and \u03b4 are computed from the noise that ran. Central: joint differential privacy, against all other users.
Local: against the server as well. Shuffle: against the server as well, if a trusted shuffler permutes the reports.
Each cell's certificate.json names its neighbours, threat model and channels that are not covered. "No privacy" is the
same algorithm without noise. "No learning" is the regret of the first episodes, or the score of the first policy."""
_METHODS = (("Intervals", _INTERVALS), ("Budgets", _BUDGETS), ("Tests", _TESTS), ("Privacy", _PRIVACY))
"""Headings and texts."""
_MEDIAN = "It is a median over seeds [95% interval, from 6 seeds on]; >K: not within the K episodes of the run."
_HALVED = """\
Episodes to half regret: episodes until the regret per episode is at most half of that of the first episode, and stays
at or below it; median over seeds [95% interval, from 6 seeds on]; >K: not within the K episodes of the run. Noise and
bonuses depend on K, so in a run of another length this number would differ."""


@dataclass(frozen=True)
class Content:
    """The content of a report.

    title: by default the heading. groups: its cells. charts: its figures, the most important first. sweeps: their names
    and progress. missing: one line for each sweep that is not finished. made: lines on how it was made. command: the
    one that writes it again. compared: two algorithms for a comparison of the episodes to
    half regret. certificates: labels and relative paths of the cells' pages.
    """

    title: str | None
    groups: Sequence[Group]
    charts: Sequence[Chart]
    sweeps: Sequence[str]
    missing: Sequence[str]
    made: Sequence[str]
    command: str
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
        if told := " ".join(lead(self.groups)):
            yield Paragraph(told, "lead")

    def _body(self) -> Iterator[Block]:
        leading, others = self._figures
        yield from leading
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
        found = (("Metrics", " ".join(self._metrics())), *_METHODS)
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
            over = f" {_MEDIAN}" if metric.across == "median" else ""
            yield f"{metric.label[:1].upper()}{metric.label[1:]}: {text}{better}.{over}"
        if any("halved_at" in row for row in rows):
            yield _HALVED

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
