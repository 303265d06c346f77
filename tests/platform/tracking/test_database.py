"""MLflow's database of a new home: made once, whole or not at all, whoever else makes it at the same time."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from dprl.platform.results.lock import FolderLock
from dprl.platform.tracking import database as module
from dprl.platform.tracking.database import in_the_making, make, only_maker
from dprl.platform.tracking.store import TrackingStore


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


def test_three_sweeps_of_one_new_home_at_once(tmp_path: Path) -> None:
    """Without the lock two of them make the tables at the same time, and one fails."""
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


def test_nothing_is_made_where_nothing_can_be(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "mlflow.db"
    with in_the_making(nowhere), in_the_making(None), only_maker(nowhere), only_maker(None):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("sqlite:////a/b%20c.db", "/a/b c.db"),
        ("sqlite:///relative.db", None),
        ("sqlite:////a/b.db?timeout=5", None),
        ("sqlite://", None),
        ("http://127.0.0.1:5000", None),
        ("postgresql://h/a.db", None),
    ],
)
def test_the_file_of_an_address(uri: str, database: str | None) -> None:
    assert TrackingStore(uri, None).database == (None if database is None else Path(database))
