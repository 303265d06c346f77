"""The report of some sweeps: one sentence of answer, figures, the best cell at each privacy budget, all cells."""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dprl.algorithms import Metric
from dprl.atomic_files import write_bytes, write_json, write_text
from dprl.platform.configs.experiment import varies
from dprl.platform.errors import UserError, counted
from dprl.platform.reports.certificate_page import certificate_page
from dprl.platform.reports.charts import MOST_CHARTS, Chart, report_charts
from dprl.platform.reports.drawing import FORMATS, draw, render, style_of
from dprl.platform.reports.number_texts import (
    bound,
    cost_text,
    delta_number,
    effect_text,
    episode_reached,
    epsilon_text,
    estimate_text,
    rounded,
)
from dprl.platform.reports.tables import noise_note
from dprl.platform.reports.templates import badge, template
from dprl.platform.reports.terminal import Table
from dprl.platform.reports.verdicts import BADGES, badge_of, privacy_text, standing_text, trust_word
from dprl.platform.results.cells import (
    ENV_NAMING,
    EPISODES,
    Cell,
    Row,
    algorithm_name,
    environment_keys,
    environment_name,
    environment_text,
    read_cells,
    rows_of,
    setting_text,
    shared_settings,
    short_setting,
)
from dprl.platform.results.compare import (
    MOST_PAIRS,
    Best,
    Group,
    Rival,
    best_cells,
    best_rows,
    cell_frame,
    comparison_frame,
    groups_of,
    naming_keys,
    reference_of,
    with_comparison,
)
from dprl.platform.results.inference import FEWEST_SEEDS, LEVEL, Effect, Estimate, effect, estimate
from dprl.platform.results.layout import SweepLayout, sweep_layout
from dprl.platform.results.summary import (
    SATURATION_NOTE,
    SATURATION_REMEDY,
    full_label,
    is_final_score,
    results_in,
    title_of,
)

_FORMAT = "png"
"""Of the figures beside the page; the page itself has them as SVG."""
_PAGE, _TABLES = "report.html", ("report.csv", "comparisons.csv")
_FIGURES_FILE = "report_figures.json"
"""List of a report's figures, so that the next report in the same folder removes these files and no others."""
_MOST_BUDGETS, _MOST_CELLS = 200, 300
"""Rows of the page's tables; report.csv and `dprl report --json` have all."""
_ANSWER = "{need}, {algorithm} has the {extreme} {label} on {group}: {value}{cost}"
_ALONE = "{need}, the {label} of {algorithm} on {group} is {value}{cost}"
_NOTHING = "Nothing was learned within any certified privacy budget on {group}"
_NO_CELL = "No cell certifies a finite \u03b5"


# ---- the answer ----


def answer_of(groups: Sequence[Group]) -> str:
    """Return the answer of a report in one sentence without a full stop, '' if no group has a headline."""
    found = leading_budget(groups)
    if found is None:
        return ""
    if found.place is None:
        return _NO_CELL
    group = found.group
    if found.model != "none" and found.cell.unlearned:
        return _NOTHING.format(group=group.title)
    label, value, cost = _numbers(found)
    several = len({algorithm_name(cell.row) for cell in group.cells}) > 1
    better = "" if group.metric is None else {"low": "lowest", "high": "highest"}[group.metric.better]
    need = "Without privacy"
    if found.model != "none":
        delta = f"\u03b4 \u2264 {delta_number(found.delta)}" if found.delta else "\u03b4 = 0"
        need = f"At certified \u03b5 \u2264 {bound(found.epsilon)} ({trust_word(found.model)}, {delta})"
    without = "that without privacy" if cost is not None and cost.scale == "log" else "than without privacy"
    return (_ANSWER if several else _ALONE).format(
        need=need,
        algorithm=algorithm_name(found.cell.row),
        extreme=better,
        label=label.lower(),
        group=group.title,
        value=estimate_text(value),
        cost="" if cost is None else f", {cost_text(cost)} {without}",
    )


def leading_budget(groups: Sequence[Group]) -> Best | None:
    """Return the budget that represents a report, None if no group has a headline.

    It is of the largest group: with privacy, of the first trust model at the epsilon nearest to 1 among those at which
    most trust models have a best cell that learned; else that without privacy.
    """
    every = [each for group in groups for each in best_cells(group)]
    told = [each for each in every if each.place is not None and each.model != "none"]
    if not told:
        return next(iter([*(each for each in every if each.model != "none"), *every]), None)
    told = [each for each in told if each.group.metric == told[0].group.metric]
    group = max((each.group for each in told), key=lambda group: len(group.cells))
    here = [each for each in told if each.group is group]
    learned = [each for each in here if not each.cell.unlearned] or here

    def rank(epsilon: float) -> tuple[int, float]:
        models = {each.model for each in learned if each.epsilon == epsilon}
        return -len(models), abs(math.log(epsilon)) if epsilon > 0 else math.inf

    epsilon = min(sorted({each.epsilon for each in learned}), key=rank)
    chosen = [each for each in learned if each.epsilon == epsilon]
    # The largest of several deltas, because its cells include those of the others.
    return [each for each in chosen if each.model == chosen[0].model][-1]


def _numbers(best: Best) -> tuple[str, Estimate, Effect | None]:
    """Return a number of the best cell with its name, and the cost of privacy in it.

    It is the final score where all cells have one, which is in the first figure, else the headline.
    """
    group, cell = best.group, best.cell
    finals = results_in({*cell.row}, is_final_score)
    if not finals or not all(finals[0].name in each.row and each.folders for each in group.cells):
        return value_label(group), shown(group, cell), best.cost
    ours = cell.values_of(finals[0])[1][:, -1]
    free = None if best.reference is None else group.cells[best.reference].values_of(finals[0])[1][:, -1]
    cost = None if free is None else effect(ours, free, "linear")
    return title_of(finals[0]), estimate(ours, "linear", cell.range_of(finals[0])), cost


def shown(group: Group, cell: Cell) -> Estimate:
    """Return a cell's headline over seeds, per episode if it is a sum."""
    each = group.episodes if group.metric is not None and group.metric.over == "sum" else 1
    value, lower, upper, scale = cell.estimate
    return Estimate(value / each, lower / each, upper / each, scale)


def value_label(group: Group) -> str:
    """Return the name of the number that `shown` returns, e.g. 'Regret per episode'."""
    if group.metric is None:
        return ""
    label = group.metric.label.capitalize()
    return f"{label} per {group.unit}" if group.metric.over == "sum" else label


# ---- tables ----


def budget_table(groups: Sequence[Group]) -> Table:
    """Return the best cell at each budget, its value, the cost of privacy, and the next best cell with its test."""
    rows, labels = [], {value_label(group) for group in groups if group.metric is not None}
    for best in (each for group in groups for each in best_cells(group)):
        group, need = best.group, "no privacy"
        if best.model != "none":
            delta = f"\u03b4 \u2264 {delta_number(best.delta)}" if best.delta else "\u03b4 = 0"
            need = f"{trust_word(best.model)}, certified \u03b5 \u2264 {bound(best.epsilon)}, {delta}"
        row = [group.title if len(groups) > 1 else "", value_label(group) if len(labels) > 1 else "", need]
        if best.place is None:
            rows.append([*row, "no cell certifies this", "", "", ""])
            continue
        name = f"{group.settings[best.place]}, {standing_text(best.cell.certificate)}"
        if best.cell.unlearned:  # such a cell is the best of no others, and its value no cost of privacy
            rows.append([*row, f"{name} (nothing was learned)", estimate_text(shown(group, best.cell)), "", ""])
            continue
        cost = "" if best.cost is None else cost_text(best.cost)
        next_best = _rival_text(group, best.other_algorithm or best.next_best)
        rows.append([*row, name, estimate_text(shown(group, best.cell)), cost, next_best])
    headers = ("Group", "Metric", "Budget", "Best", "Value", "Cost of privacy", "Next best")
    return Table(headers, rows, ("Group", "Metric", "Budget", "Best", "Next best")).without_empty_columns()


def _rival_text(group: Group, rival: Rival | None) -> str:
    """Return the next cell, its effect against the best one, the factors that differ, and the test; '' without one."""
    if rival is None:
        return ""
    ratio = "no ratio" if rival.effect is None else effect_text(rival.effect)
    noise = "" if math.isnan(rival.noise) or rival.noise == 1.0 else f" ({rounded(rival.noise, 2)} times the noise)"
    differs = f"other {' and '.join(rival.differs_in)}{noise}"
    return f"{group.settings[rival.place]}: {ratio}, {differs}, {_test_text(rival.effect)}"


def _test_text(found: Effect | None) -> str:
    if found is None or not found.tested:
        return "not tested"
    p_value = "p < 0.001" if found.adjusted < 0.001 else f"p = {found.adjusted:.2g}"
    return f"significant, {p_value}" if found.adjusted <= LEVEL else f"no significant difference, {p_value}"


def asked_table(groups: Sequence[Group]) -> Table:
    """Return a row for each pair of cells that a user asked to compare: group, both names, effect and test."""
    rows = []
    for group in (group for group in groups if group.metric is not None):
        for i, j in map(sorted, group.asked):
            found = group.comparisons[i, j].effect
            rows.append([group.title, group.names[i], group.names[j], effect_text(found), _test_text(found)])
    headers = ("Group", "First", "Second", "Effect", "Test")
    return Table(headers, rows, headers)


def cell_tables(groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    """Yield the table of all cells of each headline, with its title and notes; of many cells only the best."""
    by_metric: dict[Metric | None, list[Group]] = {}
    for group in groups:
        by_metric.setdefault(group.metric, []).append(group)
    for alike in by_metric.values():
        places = [(group, i) for group in alike for i in range(len(group.cells))]
        most = max(1, _MOST_CELLS // len(by_metric))
        kept = sorted(sorted(range(len(places)), key=lambda k: places[k][1])[:most])  # best cells of every group first
        columns = _columns(alike)
        if len(places) > 1:  # what all cells share is below, under Methods
            texts = {header: {text(*at) for at in places} for header, text in columns.items() if header in _SHARED}
            columns = {header: text for header, text in columns.items() if len(texts.get(header, "ab")) > 1}
        rows = [[text(*places[k]) for text in columns.values()] for k in kept]
        notes, unlearned = [], [cell for group in alike for cell in group.cells if cell.unlearned]
        if len(places) > len(kept):
            notes.append(f"{len(places) - len(kept):,} further cells are in report.csv.")
        if unlearned:
            why = "Their last policies have nearly the regret of the first."
            if any(cell.saturated for cell in unlearned):
                why = f"{SATURATION_NOTE[:1].upper()}{SATURATION_NOTE[1:]}; try {SATURATION_REMEDY}."
            notes.append(f"Nothing was learned in {len(unlearned)} of {counted(len(places), 'cell')}. {why}")
        table = Table([*columns], rows, _LEFT).without_empty_columns()
        yield {"title": value_label(alike[0]) if len(by_metric) > 1 else "", "table": table, "notes": notes}


_LEFT = {"Environment", "Algorithm", "Settings", "Trust model", "Claim", "Note"}
_SHARED = {"Algorithm", "Settings", "Trust model", "\u03b4"}
"""Columns that are left out if all cells have the same text."""


def _columns(groups: Sequence[Group]) -> dict[str, Callable[[Group, int], str]]:
    """Return the texts of a cell at a place of a group, by header, of groups with one headline."""
    cells = [cell for group in groups for cell in group.cells]
    of_algorithm = {cell.algorithm: naming_keys([c for c in cells if c.algorithm == cell.algorithm]) for cell in cells}
    told = environment_keys([cell.row for cell in cells])

    def settings(cell: Cell) -> str:
        keys = [key for key in of_algorithm[cell.algorithm] if key in cell.row]
        return str(cell.row.get("cell_label", "")) or ", ".join(setting_text(key, cell.row[key]) for key in keys)

    def of(text: Callable[[Cell], str]) -> Callable[[Group, int], str]:
        return lambda group, i: text(group.cells[i])

    def cost(group: Group, i: int) -> str:
        reference = reference_of(group, i) if group.cells[i].private else None
        return "" if reference is None else cost_text(group.effect(i, reference))

    found: dict[str, Callable[[Group, int], str]] = {
        "Environment": of(lambda cell: environment_text(cell.row, told, _sized) or environment_name(cell.row)),
        "Algorithm": of(lambda cell: algorithm_name(cell.row)),
        "Settings": of(settings),
        "Trust model": of(lambda cell: trust_word(cell.model)),
        "Claimed \u03b5": of(_claimed),
        "\u03b4": of(lambda cell: delta_number(cell.delta) if cell.private else ""),
        "Certified \u03b5": of(lambda cell: bound(cell.proved, "\u221e")),
        "Claim": of(lambda cell: badge(badge_of(cell.certificate))),
    }
    if groups[0].metric is not None:
        found[value_label(groups[0])] = _value
    found["Cost of privacy"] = cost
    found["To half regret"] = of(lambda cell: _median_text(cell.row, "halved_at"))
    for metric in results_in({key for cell in cells for key in cell.row}):
        if metric != groups[0].metric:
            found[title_of(metric)] = of(partial(_result_of, metric))
    found["Seeds"] = of(lambda cell: str(cell.seeds))
    found["Note"] = of(_note)
    hidden = {"Environment"} if len(groups) == 1 else set()
    hidden |= {"Seeds"} if len({cell.seeds for cell in cells}) == 1 else set()
    return {header: text for header, text in found.items() if header not in hidden}


def _sized(key: str, value: object) -> str:
    return f"{int(str(value)):,} episodes" if key == EPISODES else short_setting(key, value)


def _value(group: Group, place: int) -> str:
    """Return a cell's headline, also in the environment's own rewards where these are mapped to [0, 1]."""
    metric, row, found = group.metric, group.cells[place].row, shown(group, group.cells[place])
    if metric is None or metric.unit != "reward" or "derived_reward_high" not in row:
        return estimate_text(found)
    low, high = float(row["derived_reward_low"]), float(row["derived_reward_high"])
    # Of a value, not of a difference of two, the lowest return is added.
    own = found.value * (high - low) + (float(row["env.horizon"]) * low if metric.better == "high" else 0.0)
    return f"{estimate_text(found)}, {own:.3g} in own rewards"


def _note(cell: Cell) -> str:
    words = ["nothing was learned"] if cell.unlearned else []
    return "; ".join([*words, *([f"covered by {cell.row['theorem']}"] if cell.row.get("theorem") else [])])


def _claimed(cell: Cell) -> str:
    known = cell.private and "claimed_epsilon" in cell.row
    return epsilon_text(float(cell.row["claimed_epsilon"]), 4) if known else ""


def _result_of(metric: Metric, cell: Cell) -> str:
    return result_text(cell.row, metric)


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
    episodes, names = int(row["episodes"]), [f"{column}{end}" for end in ("", "_lower", "_upper")]
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
    def of(cls, home: Path, names: Sequence[str], compared: tuple[str, str] | None = None) -> SweepReport:
        """Read sweeps, given by their names in `home` or the paths of their folders. Raises UserError.

        compared: two algorithms or cells; their comparison is declared, too.
        """
        layouts = [sweep_layout(home, name) for name in names]
        for layout in layouts:
            layout.require_finished()
        damaged: list[str] = []
        cells = read_cells(layouts, damaged)
        if not cells:
            raise UserError(f"SWEEP: must have a cell that can be read: {damaged[0]}")
        missing = [*filter(None, map(_missing, layouts)), *(f"left out: {line}" for line in damaged)]
        groups = groups_of(cells)
        return cls(layouts, groups if compared is None else with_comparison(groups, *compared), missing)

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
            "findings": best_rows(self.groups),
            "cells": rows_of(cell_frame(self.groups)),
            "comparisons": rows_of(comparison_frame(self.groups)),
        }

    def write(self, folder: Path, command: str, title: str | None = None) -> list[Path]:
        """Write everything into `folder` and return the files, the page first.

        command: the one that made the report, shown on the page. title: of the page, by default the answer. Raises
        OSError if the folder cannot be written.
        """
        self._write_certificates(folder)
        charts = report_charts(self.cells, MOST_CHARTS)
        rows, comparisons = (frame(self.groups).to_csv(index=False) for frame in (cell_frame, comparison_frame))
        page = self.page(charts, command, title, self._certificates(folder))
        files = {_PAGE: page.encode(), **dict(zip(_TABLES, (rows.encode(), comparisons.encode()), strict=True))}
        figures = [f"{chart.name}.{_FORMAT}" for chart in charts]
        for old in _figures_before(folder) - set(figures):
            (folder / old).unlink(missing_ok=True)
        for name, data in files.items():
            write_bytes(folder / name, data)
        # Pages and tables first: whoever stops the drawing has them. The list comes before its files.
        write_json(folder / _FIGURES_FILE, figures)
        for chart in charts:
            write_bytes(folder / f"{chart.name}.{_FORMAT}", render(draw(chart, style_of("paper")), _FORMAT))
        return [folder / name for name in (*files, *figures)]

    def page(
        self, charts: Sequence[Chart], command: str, title: str | None, certificates: Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return the page with these figures. certificates: labels and relative paths of pages; others: see `write`."""
        cells, answer = self.cells, answer_of(self.groups) or "These cells have no headline to compare"
        rows = [cell.row for cell in cells]
        leading = len([*itertools.takewhile(lambda chart: chart.name in ("gaps", "final"), charts)]) or 1
        later = sorted(charts[leading:], key=lambda chart: not chart.name.startswith("curves"))
        figures = [
            {"chart": chart, "title": f"Figure {i}. {chart.title}", "source": _source(chart)}
            for i, chart in enumerate([*charts[:leading], *later], start=1)
        ]
        best, verdicts = budget_table(self.groups), [badge_of(cell.certificate) for cell in cells]
        claims = [(key, BADGES[key][1], verdicts.count(key)) for key in BADGES if key in verdicts]
        return template("report").render(
            title=title or answer,
            eyebrow=self._eyebrow(title),
            missing=self.missing,
            answer=answer,
            leading=figures[:leading],
            others=figures[leading:],
            best=best._replace(body=best.body[:_MOST_BUDGETS]),
            further=len(best.body[_MOST_BUDGETS:]),
            asked=asked_table(self.groups),
            claims=claims if {*verdicts} != {"reference"} else [],
            noise=noise_note(rows),
            cells=len(cells),
            tables=[*cell_tables(self.groups)],
            certificates=certificates,
            metrics=[*self._metrics(rows)],
            halves=any("halved_at" in row for row in rows),
            made=self._made(command),
            command=command,
            fewest_seeds=FEWEST_SEEDS,
            most_pairs=MOST_PAIRS,
        )

    def _eyebrow(self, title: str | None) -> str:
        """Return the line above the answer: what the report is about."""
        rows, seeds = [cell.row for cell in self.cells], sorted({cell.seeds for cell in self.cells})
        each = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
        keys = [key for key in rows[0] if key.startswith("env.") and all(key in row for row in rows)]
        keys = [key for key in keys if key not in ENV_NAMING and not varies(key, rows) and rows[0][key] != ""]
        names, units = {environment_name(row) for row in rows}, {group.unit for group in self.groups}
        words = [*(names if len(names) == 1 else []), *(short_setting(key, rows[0][key]) for key in keys)]
        env = [", ".join(words)] if words else []
        lengths = {int(row["episodes"]) for row in rows}
        unit = units.pop() if len(units) == 1 else "episode"
        env += [f"{min(lengths):,} {unit}s"] if len(lengths) == 1 else []
        told = [] if title is None else [title]
        done = []
        for layout in self.layouts:
            finished = len(layout.finished_cells())
            done.append(f"{layout.name}: {finished} of {counted(max(finished, layout.status().cells), 'cell')} done")
        return " \u00b7 ".join([*told, *env, f"{each} per cell", *done])

    def _metrics(self, rows: Sequence[Row]) -> Iterator[tuple[str, str, bool]]:
        """Yield name, definition, and whether it is a median, of the headlines and the results."""
        headlines = [group.metric for group in self.groups if group.metric is not None]
        for metric in dict.fromkeys([*headlines, *results_in({key for row in rows for key in row})]):
            better = f"; {metric.better}er is better" if metric.headline else ""
            yield title_of(metric), f"{metric.definition or full_label(metric)}{better}", metric.across == "median"

    def _write_certificates(self, folder: Path) -> None:
        """Write the page of the certificate of every cell that has its folder in `folder`."""
        for cell in self.cells:
            row, low = cell.row, float(cell.row.get("derived_reward_low", 0.0))
            named = (row.get("cell_label", ""), row.get("algorithm_label", ""), cell.algorithm)
            about = environment_text(row, ("env.name", "env.horizon"), setting_text)
            for part in (each for each in cell.folders if each.path.is_relative_to(folder)):
                certificate = part.certificate()
                title = ", ".join([*filter(None, named), privacy_text(certificate), part.path.name])
                rewards = (low, float(row.get("derived_reward_high", 1.0)))
                page = certificate_page(certificate, part.versions(), title, rewards, about)
                write_text(part.certificate_page, page)

    def _certificates(self, folder: Path) -> list[tuple[str, str]]:
        """Return the label and the page's path in `folder` of each cell with a certificate page there."""
        found = []
        for group, i in [(each, i) for each in self.groups for i in range(len(each.cells))]:
            where = f"{group.title}: " if len(self.groups) > 1 else ""
            for page in (each.certificate_page for each in group.cells[i].folders):
                if page.is_file() and page.is_relative_to(folder):
                    found.append((f"{where}{group.names[i]}", page.relative_to(folder).as_posix()))
        return found

    def _made(self, command: str) -> list[str]:
        ran = {layout.name: layout.status().command for layout in self.layouts}
        lines = [f"{name} was run by: {ran[name]}" for name in ran if ran[name] != command]
        if shared := shared_settings([cell.row for cell in self.cells]):
            lines.append(f"All cells: {', '.join(shared)}")
        versions = dict.fromkeys(folder.made_by() for cell in self.cells for folder in cell.folders)
        return [*lines, *(f"Cells were run with {text}" for text in versions)]


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
    found = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return {name for name in found if name == Path(name).name and Path(name).suffix[1:] in FORMATS}


def _missing(layout: SweepLayout) -> str:
    """Return the missing cells of a sweep and the command that resumes it, '' if it is finished."""
    status = layout.status()
    lacks = status.cells - len(layout.finished_cells())  # the status is older if the sweep was killed
    if status.cells and not lacks:
        return ""
    failed = f", {status.cells_failed} of them failed (logs in {layout.logs})" if status.cells_failed else ""
    told = f"{layout.name} lacks {lacks} of {counted(status.cells, 'cell')}{failed}"
    if not status.cells:
        told = f"{layout.name} does not say how many cells it has"
    return f"{told}; resume with: {status.command}"


def _source(chart: Chart) -> str:
    """Return a chart as the address of an image that contains it."""
    drawn = render(draw(chart, style_of("page")), "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
