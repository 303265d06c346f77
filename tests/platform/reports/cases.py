"""Cells of a sweep with made-up records, and the contents of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.cell_texts import rows_of
from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.documents.blocks import Block, Section, Table
from dprl.platform.reports.documents.terminal import text_of
from dprl.platform.reports.pages.content import report_document
from dprl.platform.reports.pages.writing import SweepReport
from dprl.platform.reports.records import summary_row
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.summary import by_seed, columns

NONE: dict[str, Any] = {"model": "none"}


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


def page(cells: Sequence[ReportCell]) -> list[Block]:
    """The blocks of the page of these cells, without figures."""
    about: list[str] = []
    return every(report_document(None, groups_of(cells), [], about, about, about, "a test")[1])


def every(blocks: Sequence[Block]) -> list[Block]:
    """Blocks with those inside of sections."""
    return [
        each for block in blocks for each in ([block, *every(block.blocks)] if isinstance(block, Section) else [block])
    ]


def texts_of(blocks: Sequence[Block]) -> str:
    """Blocks as plain text on one line."""
    return " ".join(" ".join(text_of(block) for block in blocks if not isinstance(block, Section)).split())


def tables_of(blocks: Sequence[Block]) -> list[list[dict[str, str]]]:
    """The rows of each table, by header, as plain texts."""
    return [
        [dict(zip(block.headers, (Markup(cell).striptags() for cell in line), strict=True)) for line in block.body]
        for block in blocks
        if isinstance(block, Table)
    ]


def page_of(home: Path, *sweeps: str, title: str | None = None) -> list[Block]:
    """The blocks of the page of finished sweeps, without figures."""
    return every(SweepReport.of(home, sweeps).document([], "a test", title)[1])
