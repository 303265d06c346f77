"""A sweep of two finished cells, and its runs in MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from dprl.platform.configs.config import load_cells
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.sweeps.cell import LockedCell
from dprl.platform.tracking.exporter import Exporter
from dprl.platform.tracking.store import EXPERIMENT, TrackingStore

CONFIG = {
    "name": "tracked",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}]},
    "episodes": 300,
    "seeds": 3,
}


def cells_in(home: Path) -> list[SweepCell]:
    config = home / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    return SweepLayout(home, "tracked").cells(load_cells(config))


def run_all(cells: list[SweepCell]) -> None:
    for cell in cells:
        locked = LockedCell(cell)
        while not locked.advance(10.0).finished:
            pass
        locked.close()


def opened(home: Path, fresh: bool = False, sweep_id: str = "") -> Exporter:
    """Return an exporter of the sweep, for which no request may fail."""
    exporter = Exporter(TrackingStore.choose(home, None), "tracked", "dprl run tracked.yaml", pytest.fail, sweep_id)
    exporter.open(fresh)
    return exporter


def client_of(home: Path) -> MlflowClient:
    return MlflowClient(TrackingStore.choose(home, None).uri)


def runs(home: Path) -> tuple[Run, list[Run]]:
    client = client_of(home)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    found = list(client.search_runs([experiment.experiment_id]))
    parents = [run for run in found if "digest" not in run.data.tags]
    assert len(parents) == 1
    children = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parents[0].info.run_id]
    assert len(children) == len(found) - 1
    return parents[0], sorted(children, key=lambda run: str(run.info.run_name), reverse=True)


def record_all(exporter: Exporter, cells: list[SweepCell]) -> None:
    for cell in cells:
        exporter.record(cell)
    assert not exporter.close([], {"cells": len(cells)}, "FINISHED")
