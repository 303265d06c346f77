"""MLflow's database of a new home: created once, completely or not at all, also by several processes at once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.results.lock import FolderLock
from dprl.platform.tracking import database as module
from dprl.platform.tracking.database import in_the_making, make, only_maker
from dprl.platform.tracking.store import TrackingError, TrackingStore
from tests.platform.tracking.cases import cells_in, opened


def tables(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120.0
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


FIRST_USE = """
import sys
from pathlib import Path
from dprl.platform.tracking.store import TrackingStore
from dprl.platform.tracking.tracker import _client
_client(TrackingStore.choose(Path(sys.argv[1]), None)).create_experiment(sys.argv[2])
"""


@pytest.mark.slow
def test_three_sweeps_of_one_new_home_at_once(tmp_path: Path) -> None:
    """Without the lock two sweeps would make the tables at the same time, and one would fail."""
    database = tmp_path / "mlflow.db"
    command = [sys.executable, "-P", "-c", FIRST_USE, str(tmp_path)]
    with in_the_making(database):
        sweeps = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in ("a", "b")]
        told = [sweep.communicate(timeout=180.0)[1] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], told
    with closing(sqlite3.connect(database)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM experiments")}
    assert names == {"Default", "a", "b"}


def test_a_maker_that_is_killed_leaves_none(tmp_path: Path) -> None:
    database = tmp_path / "a b%20c.db"
    maker = subprocess.Popen([sys.executable, "-P", "-m", module.__name__, str(database)])
    wait_for(tmp_path / f".{database.name}.unfinished")
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    assert not database.exists()
    make(database)
    assert {"runs", "metrics", "alembic_version"} <= tables(database)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".{database.name}.lock", database.name]


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_bytes(b"whatever")
    make(database)
    with in_the_making(database):
        pass
    assert database.read_bytes() == b"whatever"


def interrupted_while_made(database: Path) -> None:
    with in_the_making(database):
        wait_for(database.with_name(f".{database.name}.lock"))
        raise KeyboardInterrupt


def test_who_leaves_early_leaves_no_maker(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_made(database)
    lock = only_maker(database)
    assert isinstance(lock, FolderLock)
    lock.patience = 0.0
    with lock:  # nobody holds it
        assert not database.exists()


def test_nothing_is_made_without_a_file() -> None:
    with in_the_making(None), only_maker(None):
        pass


def test_a_folder_that_cannot_be_entered_is_left_to_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    with in_the_making(tmp_path / "mlflow.db"):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_two_names_of_a_database_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path)
    first, second = (only_maker(folder / "mlflow.db") for folder in (tmp_path, tmp_path / "other"))
    assert isinstance(first, FolderLock)
    assert isinstance(second, FolderLock)
    assert first.path == second.path


def test_one_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's own server does not use the lock."""
    database = tmp_path / "mlflow.db"

    class Client:
        def __init__(self, uri: str) -> None:
            Path(uri.removeprefix("sqlite:///")).write_bytes(b"ours")

        def search_experiments(self, max_results: int) -> None:
            database.write_bytes(b"theirs" * max_results)

    monkeypatch.setattr("mlflow.tracking.MlflowClient", Client)
    make(database)
    assert database.read_bytes() == b"theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mlflow.db.lock", "mlflow.db"]


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


def test_a_name_that_is_too_long_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tracking-uri: must be usable by MLflow \(File name too long\)"):
        TrackingStore(f"sqlite:///{tmp_path}/{'x' * 300}.db", None).require_reachable()


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
    tracker = opened(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        # Fails like a full disk: with a database error in the middle of an MLflow call.
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        connection.commit()
    with pytest.raises(TrackingError, match="disk is full"):
        tracker.begin(cells_in(tmp_path)[0])
    assert "Traceback" not in capfd.readouterr().err
