"""Tables of the users needed by private runs for 90 % of the final score without privacy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.comparing.users_needed import users_needed
from dprl.platform.reports.documents.blocks import Block, Heading, Section, Table
from dprl.platform.reports.figures.catalogue import palette_of
from dprl.platform.reports.figures.frontier import needed_title
from dprl.platform.reports.figures.lines import EPISODES, Lines, column_of, columns_of
from dprl.platform.reports.number_texts import epsilon_text, rounded
from dprl.platform.reports.records import is_final_score, results_in, unit_of

_TEXTS = ("Environment", "Algorithm", "Trust model")


def needed_tables(cells: Sequence[ReportCell]) -> Iterator[Block]:
    """Yield a section for each final score that has runs of one algorithm with and without privacy."""
    for metric in results_in({key for cell in cells for key in cell.row}, is_final_score):
        found = users_needed(cells, metric)
        shown = list(itertools.chain.from_iterable(each.cells for each in found))
        if not any(cell.private for cell in shown):
            continue
        lines, unit = Lines(shown, palette_of(shown)), unit_of(cell.row for cell in shown)
        titles, rows = columns_of(shown, EPISODES), []
        for each in sorted(found, key=lambda each: each.cells[-1].proved):
            cell, name = each.cells[-1], lines.name(each.cells[-1])
            words = ", ".join((name.algorithm, *name.words)), name.model or "none", epsilon_text(cell.proved, 3)
            rows.append([titles[column_of(cell, EPISODES)], *words, each.text(unit), rounded(each.level)])
        headers = [*_TEXTS, "Certified \u03b5", f"{unit.capitalize()}s needed", "Score to reach"]
        table = Table.of_texts(headers, rows, _TEXTS).without_empty_columns()
        yield Section([Heading(needed_title(unit), 3), table])
