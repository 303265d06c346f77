"""A store that goes away: everything is written once, at the end or by the next call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from dprl.platform.errors import UserError
from dprl.platform.tracking.exporter import Exporter
from dprl.platform.tracking.store import TrackingStore
from tests.platform.tracking.cases import cells_in, client_of, runs


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def exporter(home: Path, warned: list[str]) -> Exporter:
    exporter = Exporter(TrackingStore.choose(home, None), "tracked", "dprl run tracked.yaml", warned.append)
    exporter.open(fresh=False)
    return exporter


class Away:
    """An MLflow client whose server refuses every request while `away`, and counts attempts."""

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self.away = True
        self.attempts = 0

    def __getattr__(self, name: str) -> Any:
        def asked(*words: object, **more: object) -> Any:
            self.attempts += 1
            if self.away:
                raise MlflowException("connection refused")
            return getattr(self.client, name)(*words, **more)

        return asked


def test_what_was_missed_is_written_at_the_end(home: Path, exporter: Exporter, warned: list[str]) -> None:
    first, second = cells_in(home)
    exporter.client = away = Away(exporter.client)  # type: ignore[assignment]
    exporter.record(first)
    attempts = away.attempts
    exporter.record(second, "why")
    assert away.attempts == attempts  # it is not asked for every cell
    away.away = False
    assert exporter.close([], {}, "FINISHED") == ""
    assert [run.info.status for run in runs(home)[1]] == ["FINISHED", "FAILED"]
    assert warned == ["MLflow: MlflowException: connection refused; the rest is written later"]


def test_a_store_that_comes_back_is_asked_again_with_the_next_cell(
    home: Path, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprl.platform.tracking.exporter._SILENT_SECONDS", 0.0)
    first, second = cells_in(home)
    exporter.client = away = Away(exporter.client)  # type: ignore[assignment]
    exporter.record(first)
    away.away = False
    exporter.record(second)
    assert [run.info.status for run in runs(home)[1]] == ["FINISHED", "FINISHED"]


def test_a_store_that_stays_away_is_not_asked_for_every_cell(home: Path, exporter: Exporter, warned: list[str]) -> None:
    exporter.client = away = Away(exporter.client)  # type: ignore[assignment]
    for cell in cells_in(home):
        exporter.record(cell)
    attempts = away.attempts
    assert exporter.close([], {}, "FINISHED") == "MlflowException: connection refused"
    assert away.attempts == attempts + 2  # for the cells, and for the sweep's own run
    assert len(warned) == 1


def test_damaged_files_keep_nothing_else_from_the_store(home: Path, exporter: Exporter) -> None:
    first, second = cells_in(home)
    exporter.client = away = Away(exporter.client)  # type: ignore[assignment]
    for cell in (first, second):
        exporter.record(cell)
    away.away = False
    (first.folder.path / "records.parquet").unlink()
    assert first.digest in exporter.close([], {}, "FINISHED")
    assert {run.info.status for run in runs(home)[1]} == {"FINISHED"}
    assert len(runs(home)[1]) == 1


def test_an_error_of_our_own_is_no_refusal(home: Path, exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake in the code")

    monkeypatch.setattr(exporter.client, "log_batch", broken)
    with pytest.raises(RuntimeError, match="a mistake in the code"):
        exporter.record(cells_in(home)[0], "why")


def test_a_run_that_is_refused_is_reported_and_the_sweep_is_ended(
    home: Path, exporter: Exporter, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With MLflow itself, and an error class of its file store's library."""
    cells, upload = cells_in(home), exporter.client.log_artifact

    boto3 = ModuleType("boto3.exceptions")
    boto3.Boto3Error = type("Boto3Error", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3.exceptions", boto3)

    def refused(run: str, file: str, *where: str | None) -> None:
        if cells[0].digest in file:
            raise boto3.Boto3Error("no such bucket")
        upload(run, file, *where)

    monkeypatch.setattr(exporter.client, "log_artifact", refused)
    for cell in cells:
        exporter.record(cell)
    assert exporter.close([home / "config.yaml"], {}, "FINISHED") == "Boto3Error: no such bucket"
    assert warned == ["MLflow: Boto3Error: no such bucket; the rest is written later"]
    parent, children = runs(home)
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    assert ["recorded" in child.data.tags for child in children] == [False, True]
    assert "config.yaml" in {file.path for file in client_of(home).list_artifacts(parent.info.run_id)}


def test_a_store_that_cannot_keep_files_is_bad_input(home: Path) -> None:
    (home / "file").write_text("")
    store = TrackingStore(TrackingStore.choose(home, None).uri, home / "file" / "artifacts")
    exporter = Exporter(store, "tracked", "", pytest.fail)
    with pytest.raises(UserError, match=r"^tracking-uri: must be usable by MLflow") as caught:
        exporter.open(fresh=False)
    assert "\n" not in str(caught.value)
    exporter.close([], {}, "KILLED")
    assert runs(home)[0].info.status == "KILLED"
