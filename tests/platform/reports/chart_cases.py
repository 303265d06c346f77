"""Made-up cells and their charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from dprl.algorithms.base import headline
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.charts import Chart, report_charts
from dprl.platform.results.cells import Cell, rows_of
from dprl.platform.results.summary import summary_row
from tests.platform.reports.cases import NONE, cell, finished, jdp, records
from tests.platform.results.cases import NOWHERE

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
