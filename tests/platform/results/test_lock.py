"""One writer of a folder at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.results.lock import BusyError, FolderLock


def test_a_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "cell"
    with FolderLock(path), pytest.raises(BusyError, match="cell is in use by process"):
        FolderLock(path, patience=0.2).acquire()
    with FolderLock(path):
        pass
