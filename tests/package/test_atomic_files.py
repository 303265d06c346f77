"""Files are written completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from dprl.atomic_files import write_atomically, write_text


class Killed(BaseException):
    """Simulates a kill in the middle of a write."""


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.txt"
    write_text(file, "old")

    def fails(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise Killed

    with pytest.raises(Killed):
        write_atomically(file, fails)
    assert file.read_text() == "old"
    assert [one.name for one in file.parent.iterdir()] == ["a.txt"]
