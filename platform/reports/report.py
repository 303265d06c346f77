"""The report of some sweeps: one sentence of answer, figures, the best cell at each privacy budget, all cells."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprl.algorithms import Metric
from dprl.atomic_files import write_bytes, write_json, write_text
from dprl.platform.errors import UserError
from dprl.platform.reports.charts import MOST_CHARTS, Chart, report_charts
from dprl.platform.reports.drawing import FORMATS, draw, render, style_of
from dprl.platform.reports.number_texts import bound, delta_number, effect_text, episode_reached, estimate_text, number
from dprl.platform.reports.templates import sentence, template
from dprl.platform.reports.terminal import Table
from dprl.platform.reports.verdicts import VERDICTS, badge, certificate_page, trust_word, verdict_id
from dprl.platform.results.cells import EPISODES, Cell, Row, algorithm_name, read_cells, rows_of, shared_settings
from dprl.platform.results.compare import (
    MOST_PAIRS,
    Best,
    Group,
    best_cells,
    best_frame,
    cell_frame,
    comparison_frame,
    groups_of,
    reference_of,
)
from dprl.platform.results.inference import FEWEST_SEEDS, Estimate
from dprl.platform.results.layout import SweepLayout, sweep_layout
from dprl.platform.results.summary import SATURATION_NOTE, full_label, headline_label, results_in, title_of

_PAGE, _TABLES = "report.html", ("report.csv", "comparisons.csv")
_FIGURES_FILE = "report_figures.json"
"""List of a report's figures, so that the next report in the same folder removes these files and no others."""
_MOST_CELLS = 300  # rows of the page's table of cells; report.csv has all
_COST = "Cost of privacy (against its own run without)"
"""A better algorithm may have a larger one, so that it compares no algorithms."""


# ---- the answer ----


def answer_of(groups: Sequence[Group]) -> str:
    """Return the answer of a report in one sentence without a full stop, '' if no group has a headline."""
    best = leading_budget(groups)
    if best is None:
        return ""
    if best.place is None:
        return "No cell certifies a finite \u03b5"
    algorithm, rival = algorithm_name(best.cell.row), ""
    if best.next_best is not None and best.lead is not None and best.lead.tested and not best.lead.significant:
        rival = algorithm_name(best.group.cells[best.next_best].row)
        if rival == algorithm:  # with other noise
            algorithm, rival = (best.group.names[place] for place in (best.place, best.next_best))
    return sentence(
        "answer",
        best=best,
        budget=_budget(best),
        algorithm=algorithm,
        rival=rival,
        label=headline_label(best.group.metric, best.group.unit),
        value=estimate_text(shown(best.cell)),
        cost="" if best.cost is None else effect_text(best.cost),
    )


def leading_budget(groups: Sequence[Group]) -> Best | None:
    """Return the budget that represents a report, None if no group has a headline.

    It is of the largest group: with privacy, that nearest to epsilon 1 whose best cell learned, else that without.
    """
    every = [each for group in groups for each in best_cells(group)]
    told = [each for each in every if each.place is not None and each.model != "none"]
    if not told:
        return next(iter([*(each for each in every if each.model != "none"), *every]), None)
    group = max((each.group for each in told if each.group.metric == told[0].group.metric), key=lambda g: len(g.cells))
    here = [each for each in told if each.group is group]
    learned = [each for each in here if not each.cell.unlearned] or here
    # The largest of several deltas, because its cells include those of the others.
    return min(reversed(learned), key=lambda each: (abs(math.log(max(each.epsilon, 1e-300))), each.model))


def _budget(best: Best) -> str:
    """Return a budget in words, e.g. 'certified epsilon <= 1 (central, delta = 0)'."""
    delta = f"\u03b4 \u2264 {delta_number(best.delta)}" if best.delta else "\u03b4 = 0"
    return f"certified \u03b5 \u2264 {bound(best.epsilon)} ({trust_word(best.model)}, {delta})"


def shown(cell: Cell) -> Estimate:
    """Return a cell's headline over seeds, per episode if it is a sum."""
    each = int(cell.row[EPISODES]) if cell.metric is not None and cell.metric.over == "sum" else 1
    value, lower, upper, scale = cell.estimate
    return Estimate(value / each, lower / each, upper / each, scale)


# ---- tables ----


def budget_table(groups: Sequence[Group]) -> Table:
    """Return the best cell at each budget, its value, the cost of privacy, and the next best cell with its test."""
    rows = list[dict[str, str]]()
    for best in (each for group in groups for each in best_cells(group)):
        group = best.group
        budget = "no privacy" if best.model == "none" else _budget(best)
        row = {"Group": group.title if len(groups) > 1 else "", "Budget": budget, "Best": "no cell certifies this"}
        if best.place is not None:
            row["Best"] = group.names[best.place]
            row[headline_label(group.metric, group.unit)] = estimate_text(shown(best.cell))
            if best.cell.unlearned:  # such a cell is the best of no others, and its value no cost of privacy
                row["Best"] += " (nothing was learned)"
            else:
                row[_COST] = "" if best.cost is None else effect_text(best.cost)
            if best.next_best is not None and best.lead is not None and not best.cell.unlearned:
                p_value = "p < 0.001" if best.lead.adjusted < 0.001 else f"p = {best.lead.adjusted:.2g}"
                told = f"{'significant' if best.lead.significant else 'no significant difference'}, {p_value}"
                told = told if best.lead.tested else "not tested"
                row["Next best"] = f"{group.names[best.next_best]}: {effect_text(best.lead)}, {told}"
        rows.append(row)
    return Table.of(rows, ("Group", "Budget", "Best", "Next best"))


def cell_table(groups: Sequence[Group]) -> Table:
    """Return the table of all cells."""
    results = results_in({key for group in groups for cell in group.cells for key in cell.row})
    rows = []
    for group in groups:
        for i, cell in enumerate(group.cells):
            row, reference = cell.row, reference_of(group, i) if cell.private else None
            claimed = number(float(row["claimed_epsilon"])) if "claimed_epsilon" in row else ""
            label = headline_label(group.metric, group.unit)
            rows.append(
                {
                    "Group": group.title if len(groups) > 1 else "",
                    "Cell": group.names[i],
                    "Claimed \u03b5": claimed if cell.private else "",
                    "\u03b4": delta_number(cell.delta) if cell.private else "",
                    "Certified \u03b5": bound(cell.proved, "\u221e"),
                    "Claim": badge(verdict_id(cell.certificate)),
                    **({label: estimate_text(shown(cell))} if label else {}),
                    _COST: "" if reference is None else effect_text(group.effect(i, reference)),
                    "To half regret": _median_text(row, "halved_at"),
                    **{title_of(each): result_text(row, each) for each in results if each != group.metric},
                    "Seeds": str(cell.seeds),
                    "Covered by": str(row.get("theorem", "")),
                    "Note": "nothing was learned" if cell.unlearned else "",
                }
            )
    return Table.of(rows, ("Group", "Cell", "Claim", "Covered by", "Note"))


def result_text(row: Row, metric: Metric) -> str:
    """Return a metric after the last episode with its interval, '' if the cell's algorithm does not report it."""
    if metric.unit == "episodes":
        return _median_text(row, metric.name)
    if metric.name not in row:
        return ""
    lower, upper = (float(row.get(f"{metric.name}_{end}", math.nan)) for end in ("lower", "upper"))
    return estimate_text(Estimate(float(row[metric.name]), lower, upper, "linear"))


def _median_text(row: Row, column: str) -> str:
    """Return a median episode with its interval; numbers beyond a run of K episodes are '>K', and alone if all are."""
    if column not in row:
        return ""
    episodes, names = int(row[EPISODES]), [f"{column}{end}" for end in ("", "_lower", "_upper")]
    median, *ends = (episode_reached(row[name], episodes, ",") for name in names if name in row)
    return median if {*ends} <= {f">{episodes:,}"} else f"{median} [{', '.join(ends)}]"


# ---- the page ----


@dataclass(frozen=True)
class SweepReport:
    """The report of some sweeps, before it is written.

    layouts: folders of the sweeps. groups: their finished cells. missing: a line for each sweep that is not finished
    and for each cell with unreadable files.
    """

    layouts: Sequence[SweepLayout]
    groups: Sequence[Group]
    missing: Sequence[str]

    @classmethod
    def of(cls, home: Path, names: Sequence[str]) -> SweepReport:
        """Read sweeps, given by their names in `home` or the paths of their folders. Raises UserError."""
        layouts, damaged, missing = [sweep_layout(home, name) for name in names], list[str](), list[str]()
        for layout in layouts:
            # The status is older if the sweep was killed.
            done, status = len(layout.require_finished()), layout.status()
            if done != status["cells"]:
                missing.append(sentence("missing", layout.name, done, status, layout.logs))
        cells = read_cells(layouts, damaged)
        if not cells:
            raise UserError(f"SWEEP: must have a cell that can be read: {damaged[0]}")
        return cls(layouts, groups_of(cells), [*missing, *(f"left out: {line}" for line in damaged)])

    @property
    def cells(self) -> list[Cell]:
        """All cells, group by group."""
        return [cell for group in self.groups for cell in group.cells]

    def data(self) -> dict[str, Any]:
        """Return the content of the page, for a program."""
        return {
            "sweeps": [layout.name for layout in self.layouts],
            "missing": list(self.missing),
            "answer": answer_of(self.groups),
            "findings": rows_of(best_frame(self.groups)),
            "cells": rows_of(cell_frame(self.groups)),
            "comparisons": rows_of(comparison_frame(self.groups)),
        }

    def write(self, folder: Path, command: str, title: str | None = None) -> list[Path]:
        """Write everything into `folder` and return the files, the page first.

        command: the one that made the report, shown on the page. title: of the page, by default the answer. Raises
        OSError if the folder cannot be written.
        """
        certificates = []
        for group in self.groups:
            for cell, name in zip(group.cells, group.names, strict=True):
                if cell.folder.path.is_relative_to(folder):
                    label, file = f"{group.title}: {name}", cell.folder.certificate_page
                    heading = f"{label} ({cell.folder.path.name})"
                    write_text(file, certificate_page(cell.certificate, cell.folder.versions(), heading))
                    certificates.append((label, file.relative_to(folder).as_posix()))
        charts = report_charts(self.cells, MOST_CHARTS)
        rows, comparisons = (frame(self.groups).to_csv(index=False) for frame in (cell_frame, comparison_frame))
        texts = (self.page(charts, command, title, certificates), rows, comparisons)
        files = dict(zip((_PAGE, *_TABLES), texts, strict=True))
        figures = {f"{chart.name}.png": chart for chart in charts}
        for old in _figures_before(folder) - figures.keys():
            (folder / old).unlink(missing_ok=True)
        for name, text in files.items():
            write_text(folder / name, text)
        # Pages and tables first: whoever stops the drawing has them. The list comes before its files.
        write_json(folder / _FIGURES_FILE, list(figures))
        for name, chart in figures.items():
            write_bytes(folder / name, render(draw(chart, style_of("paper")), "png"))
        return [folder / name for name in (*files, *figures)]

    def page(
        self, charts: Sequence[Chart], command: str, title: str | None, certificates: Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return the page with these figures. certificates: labels and relative paths of pages; others: see `write`."""
        cells = self.cells
        rows, table = [cell.row for cell in cells], cell_table(self.groups)
        verdicts = [verdict_id(cell.certificate) for cell in cells]
        answer = answer_of(self.groups) or "These cells have no headline to compare"
        headlines = [group.metric for group in self.groups if group.metric is not None]
        metrics = dict.fromkeys([*headlines, *results_in({key for row in rows for key in row})])
        return template("report").render(
            title=title or answer,
            answer=answer,
            sweeps=[(layout.name, len(layout.finished_cells()), layout.status()) for layout in self.layouts],
            missing=self.missing,
            figures=[(chart, render(draw(chart, style_of("page")), "svg")) for chart in charts],
            best=budget_table(self.groups),
            claims=[(key, each.meaning, verdicts.count(key)) for key, each in VERDICTS.items() if key in verdicts],
            seeds=sorted({cell.seeds for cell in cells}),
            cells=len(cells),
            table=table._replace(body=table.body[:_MOST_CELLS]),
            further=len(table.body[_MOST_CELLS:]),
            unlearned=sum(cell.unlearned for cell in cells),
            saturated=any(cell.saturated for cell in cells),
            saturation=SATURATION_NOTE,
            certificates=certificates,
            metrics=[(title_of(each), each.definition or full_label(each), each) for each in metrics],
            badge=badge,
            halves=any("halved_at" in row for row in rows),
            shared=shared_settings(rows),
            versions=dict.fromkeys(cell.folder.made_by() for cell in cells),
            command=command,
            fewest_seeds=FEWEST_SEEDS,
            most_pairs=MOST_PAIRS,
        )


def remove_report(folder: Path) -> None:
    """Remove the page, tables and figures of a report in `folder`, and nothing else."""
    for name in [_PAGE, *_TABLES, *_figures_before(folder), _FIGURES_FILE]:
        (folder / name).unlink(missing_ok=True)


def _figures_before(folder: Path) -> set[str]:
    """Return the names of the figures that an earlier report has written into `folder`."""
    try:
        names = json.loads((folder / _FIGURES_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return set()
    names = names if isinstance(names, list) else []
    return {name for name in map(str, names) if name == Path(name).name and Path(name).suffix[1:] in FORMATS}
