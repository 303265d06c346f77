"""Entries of a whole sweep in MLflow: headline metrics of its best cells, and its result in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from dprl.platform.reports.report import answer_of, budget_table, leading_budget
from dprl.platform.results.cells import Cell
from dprl.platform.results.compare import Group

ANSWER_HEADING = "### Answer"
_BEST = "best"
_MOST_GROUPS = 12
"""Most environments with their own metrics. Each is a section of MLflow's charts."""
_MOST_LINES = 30
_NOT_IN_KEYS = re.compile(r"[^\w.\- /:]")
_UNFINISHED = "No cell is finished that could be compared."


SweepEntries = tuple[dict[str, float], str]
"""Entries of a sweep's own run: constants by their keys, and its description in Markdown."""


def sweep_entries(groups: Sequence[Group], command: str) -> SweepEntries:
    """Return the entries of a sweep with these groups of finished cells; `command` resumes it.

    The metrics `best/MODEL/...` are the headline, as mean over seeds, and the certified epsilon of each trust model's
    best cell; `best/...` are those of the cell in the report's first sentence, if there is one, else of the best cell.
    With several environments each has metrics under its title. A private cell without a finite certified epsilon is
    never the best.
    """
    compared = [group for group in groups if group.metric is not None][:_MOST_GROUPS]
    metrics = dict[str, float]()
    for group in compared:
        best = dict(_best_cells(group))
        folder = _BEST if len(compared) == 1 else f"{_BEST}/{_NOT_IN_KEYS.sub(' ', group.title)}"
        for model, cell in best.items():
            metrics |= _numbers(f"{folder}/{model}", cell)
        if group is compared[0] and best:
            metrics |= _numbers(_BEST, next(iter(best.values())))
    named = leading_budget(groups)
    if named is not None and named.place is not None:
        metrics |= _numbers(_BEST, named.cell)
    return metrics, _note(groups, command)


def unfinished_note(command: str) -> str:
    """Return the description of a sweep without a finished cell."""
    return _with_command(_UNFINISHED, command)


def _best_cells(group: Group) -> Iterator[tuple[str, Cell]]:
    """Yield every trust model with its best cell, the first one in the group."""
    for model in dict.fromkeys(str(cell.row["privacy.model"]) for cell in group.cells):
        fit = [cell for cell in group.cells if cell.row["privacy.model"] == model]
        found = next((cell for cell in fit if not cell.private or math.isfinite(cell.proved)), None)
        if found is not None:
            yield model, found


def _numbers(folder: str, cell: Cell) -> dict[str, float]:
    """Return the finite numbers of a best cell by their keys."""
    if cell.metric is None:
        return {}
    numbers = {f"{folder}/{cell.metric.name}": float(cell.finals.mean())}
    if cell.private:
        numbers[f"{folder}/certified_epsilon"] = cell.proved
    return {key: number for key, number in numbers.items() if math.isfinite(number)}


def _note(groups: Sequence[Group], command: str) -> str:
    """Return the answer of the report's heading, its numbers, and the best cell within each privacy budget."""
    answer = answer_of(groups)
    if not answer:
        return unfinished_note(command)
    table = budget_table(groups)
    lines = [f"| {' | '.join(row)} |" for row in ([*table.headers], ["---"] * len(table.headers), *table.body)]
    more = ["", "All others: report.html"] * (len(lines) > _MOST_LINES)
    return _with_command("\n".join([f"**{answer}.**", "", *lines[:_MOST_LINES], *more]), command)


def _with_command(answer: str, command: str) -> str:
    return f"{ANSWER_HEADING}\n\n{answer}\n\nThis command resumes or repeats the sweep:\n\n    {command}\n"
