"""Cells of a sweep with made-up records, the contents of their figures, and their charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.charts import Chart, report_charts
from dprl.platform.reports.report import SweepReport
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.cells import Cell, rows_of
from dprl.platform.results.compare import groups_of
from dprl.platform.results.summary import by_seed, columns, summary_row
from tests.platform.results.cases import NOWHERE

NONE: dict[str, Any] = {"model": "none"}


def finished(one: Experiment, rows: pd.DataFrame) -> CellResults:
    """The results of a cell with these records."""
    return CellResults(
        rows, one.certificate().to_dict(), 1.0, 0.0, theorem=one.algorithm.covered_by or "", derived={"c": 0.5}
    )


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
    """Regret falls with the root of the episode, gaps of games are 2, 1 and 0.5 times as large, and all else is 0.5."""
    episodes = np.arange(5, 1001, 5)
    metrics = one.algorithm.metrics
    frames = []
    for seed in range(one.seeds):
        rate = (1 + 0.1 * seed) / np.sqrt(episodes)
        values = {"regret": 5 * rate.cumsum(), "regret_per_episode": rate, "saturated": saturated}
        values |= {"gap": 2 * rate, "smallest_gap": rate, "exploitability": 0.5 * rate, "infeasible": 0.1}
        values |= {"seed": seed, "episode": episodes}
        frames.append(pd.DataFrame({name: values.get(name, 0.5) for name in columns(metrics)}))
    return pd.concat(frames, ignore_index=True)


def summary(cells: Sequence[Experiment]) -> pd.DataFrame:
    rows = [summary_row(one, finished(one, records(one))) for one in cells]
    return pd.DataFrame([{"label": str(i), **row, "seconds": 1.0} for i, row in enumerate(rows)])


def reported(one: Experiment, rows: pd.DataFrame, **more: Any) -> Cell:
    """The cell of a report with these records. more: further columns of its row."""
    results = finished(one, rows)
    row = rows_of(pd.DataFrame([{**summary_row(one, results), **more}]))[0]
    metric = headline(one.algorithm.metrics)
    assert metric is not None
    episodes, values = by_seed(rows, metric.name)
    return Cell(row, results.certificate, metric, episodes, values.T, NOWHERE)


def report_of(cells: Sequence[Cell]) -> SweepReport:
    """The report of these cells, which are in no folder."""
    return SweepReport([], groups_of(cells), [])


def page(cells: Sequence[Cell]) -> str:
    """The page of these cells, without figures."""
    return report_of(cells).page([], "a test", None)


def page_of(home: Path, *sweeps: str, title: str | None = None) -> str:
    """The page of finished sweeps, without figures."""
    return SweepReport.of(home, sweeps).page([], "a test", title)


def text_of(page: str) -> str:
    """The text of a page, on one line."""
    told = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).replace("<", " <")
    return " ".join(Markup(told).striptags().split())


def tables_of(page: str) -> list[list[dict[str, str]]]:
    """The rows of each table of a page, by header, as plain texts."""
    found = []
    for table in re.findall(r"<table>(.*?)</table>", page, re.DOTALL):
        headers, *rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        names = [Markup(each).striptags() for each in re.findall(r"<th.*?>(.*?)</th>", headers)]
        cells = [
            [Markup(each).striptags() for each in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in rows
        ]
        found.append([dict(zip(names, row, strict=True)) for row in cells])
    return found


# ---- charts ----

LDP: dict[str, Any] = {"model": "ldp", "epsilon": 1.0}


def report_cell(one: Experiment, factors: Sequence[float] = (1.0, 1.1, 1.2)) -> Cell:
    """A finished cell with regret 5 sqrt(n) times these factors."""
    results = finished(one, records(one))
    row = rows_of(pd.DataFrame([summary_row(one, results)]))[0]
    episodes = np.unique(np.geomspace(1, 1000, 50).astype(np.int64))
    curves = np.array([0.5 * factor * np.sqrt(episodes) for factor in factors])
    row = {**row, "seeds": len(factors)}
    return Cell(row, results.certificate, headline(one.algorithm.metrics), episodes, curves, NOWHERE)


def labelled(cell: Cell, **labels: str) -> Cell:
    """The cell with these labels of a config."""
    return replace(cell, row={**cell.row, **labels})


def of(algorithm: str, privacy: dict[str, Any], horizon: int = 4, **scales: float) -> Experiment:
    raw = cell(NONE).as_mapping() | {"privacy": privacy, "algorithm": {"name": algorithm, **scales}}
    raw["env"] = {**raw["env"], "horizon": horizon}
    return read_experiment(raw)


def chart(name: str, *cells: Cell) -> Chart:
    return {chart.name: chart for chart in report_charts(cells)}[name]


@cache  # and not at import, because every worker would compile what certificates need
def mixed() -> list[Cell]:
    """Return cells of two algorithms and all trust models."""
    return [
        report_cell(of("private_ucb_vi", NONE)),
        report_cell(of("private_ucb_vi", jdp(1.0))),
        report_cell(of("private_ucb_vi", jdp(4.0))),
        report_cell(of("bernstein_vi", jdp(1.0))),
        report_cell(of("bernstein_vi", jdp(1.0, delta=1e-6))),
        report_cell(of("bernstein_vi", LDP)),
        report_cell(of("private_ucb_vi", LDP)),
    ]
