"""Cells of a sweep with made-up records, and the contents of their figures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.cell_texts import rows_of
from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Block, Card, Facts, Figure, Heading, Paragraph, Section, Table
from dprl.platform.reports.pages.content import Content
from dprl.platform.reports.pages.writing import SweepReport
from dprl.platform.reports.records import summary_row
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed, columns

NONE: dict[str, Any] = {"model": "none"}
BAR = "\\|"


def finished(one: Experiment, rows: pd.DataFrame) -> CellResults:
    """The results of a cell with these records."""
    return CellResults(rows, one.certificate().to_dict(), 1.0, 0.0, theorem=one.theorem, derived={"c": 0.5})


def jdp(epsilon: float, **more: object) -> dict[str, Any]:
    return {"model": "jdp", "epsilon": epsilon, **more}


def cell(privacy: dict[str, Any], horizon: int = 4, seeds: int = 3) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "private_ucb_vi"},
            "env": {"name": "riverswim", "n_states": 3, "horizon": horizon},
            "privacy": privacy,
            "episodes": 1000,
            "seeds": seeds,
        }
    )


def game_cell(privacy: dict[str, Any], horizon: int = 2, seeds: int = 3) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "dp_nash_vi"},
            "env": {"name": "random_game", "n_states": 2, "n_max_actions": 2, "n_min_actions": 2, "horizon": horizon},
            "privacy": privacy,
            "episodes": 1000,
            "seeds": seeds,
        }
    )


def records(one: Experiment, saturated: float = 0.3) -> pd.DataFrame:
    """Regret that falls with the root of the episode, and in games gaps 2, 1 and 0.5 times as large."""
    episodes = np.arange(5, 1001, 5)
    metrics = one.algorithm.metrics
    frames = []
    for seed in range(one.seeds):
        rate = (1 + 0.1 * seed) / np.sqrt(episodes)
        values = {"regret": 5 * rate.cumsum(), "regret_per_episode": rate, "saturated": saturated}
        values |= {"gap": 2 * rate, "smallest_gap": rate, "exploitability": 0.5 * rate, "infeasible": 0.1}
        values |= {"seed": seed, "episode": episodes}
        frames.append(pd.DataFrame({name: values[name] for name in columns(metrics)}))
    return pd.concat(frames, ignore_index=True)


def summary(cells: Sequence[Experiment]) -> pd.DataFrame:
    rows = [summary_row(one, finished(one, records(one))) for one in cells]
    return pd.DataFrame([{"label": str(i), **row, "seconds": 1.0} for i, row in enumerate(rows)])


def reported(one: Experiment, rows: pd.DataFrame, **more: Any) -> ReportCell:
    """The cell of a report with these records. more: further columns of its row."""
    results = finished(one, rows)
    row = rows_of(pd.DataFrame([{**summary_row(one, results), **more}]))[0]
    metric = headline(one.algorithm.metrics)
    assert metric is not None
    episodes, values = by_seed(rows, metric.name)
    return ReportCell(row, results.certificate, metric, episodes, values.T, ())


def markdown(title: str, blocks: Sequence[Block], figures: str) -> str:
    """The text of a document as Markdown. figures: folder of its figures."""
    texts = (_text(block, figures) for block in blocks if block != Heading(title, 1))
    return "\n\n".join([f"# {title}", *filter(None, texts)]) + "\n"


def _text(block: Block, figures: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * max(2, level)} {text}"
        case Paragraph(text, _, term):
            return _filled(f"**{term}.** {text}" if term else str(text))
        case Table():
            return _table(block)
        case Figure(chart):
            return f"![{block.title}]({figures}/{chart.name}.svg)\n\n{_filled(f'**{block.title}.** {chart.caption}')}"
        case Section(blocks, _, _, folded):
            title = [f"### {folded}"] if folded else []
            return "\n\n".join([*title, *(text for each in blocks if (text := _text(each, figures)))])
        case Card():
            return f"* **{block.title}**: {' '.join(f'{block.big} {block.interval} {block.sub}'.split())}"
        case Facts(title, facts):
            head = [f"**{title}**\n"] if title else []
            return "\n".join([*head, *(f"* **{name}**: {told}" for name, told in facts)])


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _table(table: Table) -> str:
    columns, rows = table.plain()
    rule = ["--:" if column.numeric else ":--" for column in columns]
    lines = ([str(column.header) for column in columns], rule, *rows)
    return "\n".join(f"| {' | '.join(cell.replace('|', BAR) for cell in line)} |" for line in lines)


def page(cells: Sequence[ReportCell], compared: tuple[str, str] | None = None) -> str:
    """The text of the page of these cells, without figures."""
    about: list[str] = []
    content = Content(None, groups_of(cells), [], about, about, about, "a test", compared=compared)
    return markdown(*content.document(), "figures")


def tables_of(text: str) -> list[list[dict[str, str]]]:
    """The rows of each table of a Markdown page, by header."""
    found = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            headers, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
            found.append([dict(zip(headers, line, strict=True)) for line in lines])
    return found


def page_of(home: Path, *sweeps: str, compared: tuple[str, str] | None = None, title: str | None = None) -> str:
    """The text of the page of finished sweeps, without figures."""
    found = SweepReport.of(home, sweeps, compared)
    return markdown(*found._content([], "a test", title).document(), "figures")
