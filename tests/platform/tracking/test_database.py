"""MLflow's database of a home: made by one process at a time, and refused at once if it is none."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.tracking.exporter import Exporter
from dprl.platform.tracking.store import TrackingStore
from tests.platform.tracking.cases import cells_in

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
