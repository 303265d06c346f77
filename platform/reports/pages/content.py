"""The content of a report: the answer first, its figure, the best cell at each budget, claims, all cells, methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from dprl.platform.errors import counted
from dprl.platform.reports.comparing.answers import budget_table, heading, lead, requested
from dprl.platform.reports.comparing.declared import MOST_PAIRS
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.documents.blocks import Block, Figure, Heading, Paragraph, Section, Table, styled
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.pages.cell_tables import cell_blocks, environment_words
from dprl.platform.reports.records import full_label, results_in, title_of

_LEADING = ("gaps", "final")
"""Names of the figures that go to the top."""
_MOST_ROWS = 200
"""Maximum of budgets on a page; `dprl report --json` has all of them."""
ASKED = ("Group", "First", "Second", "Effect", "Test")
"""Headers of the comparisons that a user asked for."""
_INTERVALS = f"""\
Each value of a positive metric is the geometric mean over seeds. The 95% interval is Student's interval of the mean
log value, transformed back, and cut at the range of the metric. Other metrics have the ordinary mean and Student's
interval. The interval of a ratio is Welch's, on logs. Bands of curves are simultaneous (sup-t, multiplier bootstrap
of whole seeds' curves): with 3 or 4 seeds those of rough curves cover about 90% only. With fewer than {FEWEST_SEEDS}
seeds there is no interval and no test."""
_BUDGETS = """\
A cell is within the budget (\u03b5, \u03b4) if its noise certifies at most \u03b5 at some \u03b4 no larger than the
budget's. Figures show a cell at the \u03b5 that its noise certifies, never at one that it only claims. The cost of
privacy is against the same algorithm and constants without privacy; gradients must be clipped alike in both
(clip_norm, clip). The next best cell is that of another algorithm at equal privacy and noise, else of another
algorithm or noise. Counters with other schedules of releases (replan_growth) have other noise."""
_TESTS = f"""\
Comparisons are declared before any result is seen. They are between two algorithms at the same privacy and noise,
two kinds of noise for one algorithm at the same privacy, or two neighbouring \u03b5 for one algorithm and kind of
noise. "Significant" means Welch's test, on logs where values are positive, with Holm's adjustment at 5% for all
declared comparisons of a group: one environment with one number of episodes. There is no adjustment over groups: on
a page of G groups the probability of any false difference is at most 5% times G. Intervals of single values are not
adjusted, not even for the choice of the best cell. "No significant difference" does not mean equal. Where algorithm
and noise differ there is no ratio. All comparisons are in comparisons.csv. A grid with more than {MOST_PAIRS}
comparisons of algorithms or of noise at one privacy declares none of them; --compare declares one that you name."""
_PRIVACY = """\
\u03b5 and \u03b4 are computed from the noise that ran. Central: joint differential privacy, against all other users.
Local: against the server as well. Shuffle: against the server as well, if a trusted shuffler permutes the reports.
Each cell's certificate.json names its neighbours, threat model and channels that are not covered. "No privacy" is the
same algorithm without noise. "No learning" is the regret of the first episodes, or the score of the first policy."""
_METHODS = (("Intervals", _INTERVALS), ("Budgets", _BUDGETS), ("Tests", _TESTS), ("Privacy", _PRIVACY))
"""Headings and texts."""
_MEDIAN = "It is a median over seeds [95% interval, from 6 seeds on]; >K: not within the K episodes of the run."
_HALVED = f"""\
Episodes to half regret: episodes until the regret per episode is at most half of that of the first episode, and stays
at or below it. {_MEDIAN} Noise and bonuses depend on K, so in a run of another length this number would differ."""


def report_document(
    title: str | None,
    groups: Sequence[Group],
    charts: Sequence[Chart],
    sweeps: Sequence[str],
    missing: Sequence[str],
    made: Sequence[str],
    command: str,
    certificates: Sequence[tuple[str, str]] = (),
) -> tuple[str, list[Block]]:
    """Return the title of a report, for a browser's tab, and its blocks.

    title: by default the heading. groups: its cells. charts: its figures, the most important first. sweeps: their names
    and progress. missing: one line for each sweep that is not finished. made: lines on how it was made. command: the
    one that writes it again. certificates: labels and relative paths of the cells' pages.
    """
    answer = heading(groups) or "These cells have no headline to compare"
    leading, others = _figures(charts)
    blocks: list[Block] = [Paragraph(_eyebrow(title, groups, sweeps), "eyebrow")]
    blocks += [Paragraph(line, "missing", "Not finished") for line in missing]
    blocks.append(Heading(answer, 1))
    if told := lead(groups):
        blocks.append(Paragraph(told, "lead"))
    blocks += [*leading, *_budgets(groups)]
    if others:
        first, *folded = others
        further = [Section([figure], folded=figure.chart.title) for figure in folded]
        blocks.append(Section([Heading(first.chart.title), first, *further], "curves"))
    blocks += cell_blocks(groups)
    if certificates:
        links = [Paragraph(Markup('<a href="{}">{}</a>').format(place, label)) for label, place in certificates]
        blocks.append(Section(links, "certificates", folded="Certificates to read, print and sign"))
    texts = (("Metrics", " ".join(_metrics(groups))), *_METHODS)
    methods = [Paragraph(text, "small", name) for name, text in texts if text]
    again = Paragraph(styled(command, "code"), "small", "Regenerate")
    about = [Paragraph(line, "small") for line in made]
    blocks.append(Section([Heading("Methods"), *methods, *about, again], "methods"))
    return title or answer, blocks


def _budgets(groups: Sequence[Group]) -> list[Block]:
    """Return the best cell at each privacy budget, and the comparisons that a user asked for."""
    title, table = budget_table(groups)
    found: list[Block] = []
    if table.body:
        shown = replace(table, body=table.body[:_MOST_ROWS])
        found.append(Section([Heading(title), shown], "budgets"))
    if left_out := len(table.body[_MOST_ROWS:]):
        found.append(Paragraph(f"{left_out:,} further budgets are in the output of dprl report --json.", "note"))
    if asked := requested(groups):
        found.append(Section([Heading("As asked"), Table(ASKED, asked, ASKED)], "asked"))
    return found


def _metrics(groups: Sequence[Group]) -> Iterator[str]:
    """Return the definitions of the headlines and the results."""
    rows = [cell.row for group in groups for cell in group.cells]
    results = results_in({key for row in rows for key in row})
    headlines = [group.metric for group in groups if group.metric is not None]
    for metric in dict.fromkeys([*headlines, *results]):
        text = metric.definition or full_label(metric)
        better = f"; {metric.better}er is better" if metric.headline else ""
        over = f" {_MEDIAN}" if metric.across == "median" else ""
        yield f"{title_of(metric)}: {text}{better}.{over}"
    if any("halved_at" in row for row in rows):
        yield _HALVED


def _eyebrow(title: str | None, groups: Sequence[Group], sweeps: Sequence[str]) -> str:
    """Return the line above the heading: what the report is about."""
    seeds = sorted({cell.seeds for group in groups for cell in group.cells})
    each = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
    named = [] if title is None else [title]
    return " \u00b7 ".join(["dprl report", *named, *environment_words(groups), f"{each} per cell", *sweeps])


def _figures(charts: Sequence[Chart]) -> tuple[list[Figure], list[Figure]]:
    """Return the charts as figures: those that lead, and the others, curves first."""
    leading = list(itertools.takewhile(lambda chart: chart.name in _LEADING, charts)) or list(charts[:1])
    later = [chart for chart in charts if chart.name not in {each.name for each in leading}]
    later.sort(key=lambda chart: not chart.name.startswith("curves"))
    figures = [Figure(chart, i) for i, chart in enumerate([*leading, *later], start=1)]
    return figures[: len(leading)], figures[len(leading) :]
