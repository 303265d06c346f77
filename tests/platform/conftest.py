"""Shared fixtures of several folders of the platform."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from mlflow.store.db import utils as database

from dprl.algorithms import ALGORITHMS
from dprl.platform.reports import report
from dprl.platform.reports.drawing import draw, render
from tests.platform.gradient_cases import WalkingConfig


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the algorithm of `gradient_cases`."""
    monkeypatch.setitem(ALGORITHMS, WalkingConfig.name, WalkingConfig)


@pytest.fixture
def fixed_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the noise of cells in this process; otherwise every edit of a source would change it.

    Tests with a false-alarm rate need it: they fail with that rate at every new draw. Other processes are not affected.
    """
    monkeypatch.setattr("dprl.platform.plugins.results_version", lambda _: "1")


@pytest.fixture
def one_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the first figure of each format in place of all others: drawing takes half the time of small sweeps."""
    draw_once(monkeypatch)


def draw_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what `one_drawing` does, for fixtures of a module."""

    def first(drawn: Any, kind: str) -> bytes:
        if kind not in _FIRST:
            _FIRST[kind] = render(draw(*drawn), kind)
        return _FIRST[kind]

    monkeypatch.setattr(report, "draw", lambda *arguments: arguments)
    monkeypatch.setattr(report, "render", first)


_FIRST: dict[str, bytes] = {}


@pytest.fixture(scope="session", autouse=True)
def _quick_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy the tables of a new store, because MLflow's migrations take a second for each store."""
    migrate: Any = database._initialize_tables

    @cache
    def migrated() -> Path:
        path = tmp_path_factory.mktemp("store") / "mlflow.db"
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        migrate(engine)
        engine.dispose()
        return path

    def copy(engine: sqlalchemy.Engine) -> None:
        with closing(sqlite3.connect(migrated())) as ready, closing(engine.raw_connection()) as new:
            connection: Any = new.driver_connection
            ready.backup(connection)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "_initialize_tables", copy)
        yield
