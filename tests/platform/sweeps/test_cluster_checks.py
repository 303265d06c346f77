"""Checks that each node reports before a sweep begins."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.sweeps import cluster_checks
from dprl.platform.sweeps.cluster_checks import NodeView, require_shared, view_of
from dprl.platform.tracking.store import TrackingStore
from dprl.sources import code_digest

NODE = "10.0.0.2"


def seeing(sight: Callable[[Path], NodeView | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Return one node's view of the file."""
    monkeypatch.setattr(cluster_checks, "_views", lambda file: iter([(NODE, sight(file))]))


def test_a_node_that_shares_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeing(lambda file: view_of(str(file)), monkeypatch)
    require_shared(tmp_path / "new" / "home")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sight", "said"),
    [
        (lambda file: view_of(str(file) + "-elsewhere"), "a folder that every node sees, and node 10.0.0.2 does not"),
        (lambda file: NodeView("another token", locked=True, digest=code_digest()), "a folder that every node sees"),
        (lambda file: NodeView(file.read_text(), locked=False, digest=code_digest()), "locks hold between nodes"),
        (lambda file: NodeView(file.read_text(), locked=True, digest="0123"), "must run this code"),
        (lambda file: None, "node 10.0.0.2 must run a task within"),
    ],
    ids=["no file", "another file", "no lock", "other code", "no answer"],
)
def test_a_node_that_does_not(
    sight: Callable[[Path], NodeView | None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeing(sight, monkeypatch)
    with pytest.raises(UserError, match=said) as told:
        require_shared(tmp_path / "new" / "home")
    assert NODE in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^--storage: must be a folder that can be written \(Not a directory\), got "):
        require_shared(tmp_path / "file" / "home")

    def refused(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(
        UserError, match=r"^--storage: must be a folder that can be written \(Read-only file system\), got "
    ):
        require_shared(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_lock_of_another_process_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("token")
    code = f"from dprl.platform.sweeps.cluster_checks import view_of; print(view_of({str(file)!r}))"
    with file.open("r+") as held:
        assert view_of(str(file)) == NodeView("token", locked=False, digest=code_digest())
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "token='token', locked=True" in done.stdout


def test_a_file_system_without_locks_holds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no locks available")

    (tmp_path / "file").write_text("token")
    monkeypatch.setattr(fcntl, "flock", refused)
    assert view_of(str(tmp_path / "file")) == NodeView("token", locked=False, digest=code_digest())


@pytest.mark.parametrize(("uri", "nodes", "refused"), [("sqlite:////s/m.db", 2, True), ("sqlite:////s/m.db", 1, False)])
def test_sqlite_is_for_one_node(uri: str, nodes: int, refused: bool) -> None:
    store = TrackingStore(uri, None)
    if refused:
        with pytest.raises(UserError, match="tracking-uri: must be a server on a cluster of 2 nodes"):
            store.require_server_for(nodes)
    else:
        store.require_server_for(nodes)
    TrackingStore("http://host:5000", None).require_server_for(5)
