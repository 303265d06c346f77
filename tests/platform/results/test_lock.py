"""One writer of a folder at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.results.lock import FolderLock


def test_a_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "cell"
    with FolderLock(path), pytest.raises(UserError, match="cell is in use by process"):
        FolderLock(path, patience=0.2).acquire()
    with FolderLock(path):
        pass


def test_only_the_present_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    path.write_text("process 123456789 on a.machine.with.a.long.name.of.many.parts.example.org" * 2)
    with FolderLock(path), pytest.raises(UserError) as caught:
        FolderLock(path).acquire()
    holder = f"process {os.getpid()} on {os.uname().nodename}"
    assert str(caught.value) == f"cell is in use by {holder}: wait until it ends, or end it"


def test_the_lock_of_another_user_can_be_held_and_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.write_text("process 1 on elsewhere")
    original = os.open

    def read_only(file: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return original(file, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    with FolderLock(path), pytest.raises(UserError, match="in use by process 1 on elsewhere"):
        FolderLock(path).acquire()
    assert path.read_text() == "process 1 on elsewhere"
