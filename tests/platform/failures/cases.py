"""Sweeps with injected failures, and checks that these had no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.platform.processes import CONFIG, mlflow_runs, records

LONG: dict[str, Any] = {"privacy": {"grid_search": CONFIG["privacy"]["grid_search"][1:]}, "episodes": 1_000_000}
MANY: dict[str, Any] = {
    "privacy": {"model": "jdp", "epsilon": {"grid_search": [1.0, 2.0, 3.0]}},
    "env": {"name": "riverswim", "n_states": 3, "horizon": {"grid_search": [2, 3, 4, 5]}},
    "episodes": 50_000,
}


def all_is_well(home: Path, expected: Mapping[str, bytes], uri: str | None = None) -> None:
    """Assert that no result or MLflow run is missing or duplicated, and that all runs are finished."""
    assert records(home) == expected
    runs = mlflow_runs(home, uri)
    assert Counter(run.data.tags.get("digest", "parent") for run in runs) == Counter([*expected, "parent"])
    assert {run.info.status for run in runs} == {"FINISHED"}
