"""MLflow's database: made by one process at a time, refused if it is none; a store that goes away gets all later."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
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

FIRST_USE = """
import sys
from pathlib import Path
from dprl.platform.tracking.store import TrackingStore
from dprl.platform.tracking.exporter import _client
_client(TrackingStore.choose(Path(sys.argv[1]), None)).create_experiment(sys.argv[2])
"""


@pytest.mark.slow
def test_two_sweeps_of_one_new_home_at_once(tmp_path: Path) -> None:
    """Without the lock two sweeps would make the tables at the same time, and one would fail."""
    command = [sys.executable, "-P", "-c", FIRST_USE, str(tmp_path)]
    sweeps = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in ("a", "b")]
    told = [sweep.communicate(timeout=180.0)[1] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], told
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM experiments")}
    assert names == {"Default", "a", "b"}


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no database, but long enough to be taken for one" * 9, "file is not a database"), (None, "unable")],
)
def test_what_is_no_database_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, said: str
) -> None:
    """MLflow itself would retry many times, with pauses."""
    file = tmp_path / "mlflow.db"
    file.mkdir() if content is None else file.write_bytes(content)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    with pytest.raises(UserError, match=rf"tracking-uri: must be usable by MLflow \({said}"):
        TrackingStore(f"sqlite:///{file}", None).require_reachable()


@pytest.mark.parametrize("content", [b"", None])
def test_a_new_or_empty_file_is_usable(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "mlflow.db").write_bytes(content)
    TrackingStore(f"sqlite:///{tmp_path}/mlflow.db", None).require_reachable()


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("sqlite:////a/b%20c.db", "/a/b c.db"),
        ("sqlite+pysqlite:////a/b%20c.db", "/a/b c.db"),
        ("sqlite:///relative.db", None),
        ("sqlite:////a/b.db?timeout=5", None),
        ("sqlite://", None),
        ("sqlite:////", None),
        ("sqlite:////a/b%00.db", None),
        ("http://127.0.0.1:5000", None),
        ("postgresql://h/a.db", None),
    ],
)
def test_the_file_of_an_address(uri: str, database: str | None) -> None:
    assert TrackingStore(uri, None).database == (None if database is None else Path(database))


def test_a_full_disk_is_no_traceback_of_mlflow(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    warned = list[str]()
    exporter = Exporter(TrackingStore.choose(tmp_path, None), "tracked", "dprl run tracked.yaml", warned.append)
    exporter.open(fresh=False)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        # Fails like a full disk: with a database error in the middle of an MLflow call.
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        connection.commit()
    exporter.record(cells_in(tmp_path)[0], "why")
    assert "disk is full" in warned[0]
    assert "Traceback" not in capfd.readouterr().err


# A store that goes away: everything is written once, at the end or by the next call.


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
