"""Files are written completely or not at all."""

from __future__ import annotations

import math
import os
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from dprl.atomic_files import append, write_atomically, write_json, write_text


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


@pytest.mark.parametrize(("private", "mode"), [(False, 0o640), (True, 0o600)])
def test_a_private_file_is_its_owners_from_the_first_byte_on(private: bool, mode: int, tmp_path: Path) -> None:
    modes: list[int] = []

    def writes(stream: BinaryIO) -> None:
        modes.append(os.fstat(stream.fileno()).st_mode & 0o777)

    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", writes, private=private)
    finally:
        os.umask(before)
    assert [*modes, (tmp_path / "file").stat().st_mode & 0o777] == [mode, mode]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_json_has_no_number_that_other_readers_refuse(number: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"value": number})
    assert not [*tmp_path.iterdir()]


class Stingy(FileIO):
    """A file that takes three bytes at a time, and at most `room` in all."""

    room = 100

    def write(self, content: Any) -> int:
        taken = super().write(content[: min(3, self.room)])
        self.room -= taken
        return taken


def test_what_is_appended_is_whole_or_not_there(tmp_path: Path) -> None:
    with Stingy(tmp_path / "log", "w+") as file:
        append(file, 0, b"one line\n")
        file.room = 4
        with pytest.raises(OSError, match="nothing was taken"):
            append(file, 9, b"another line\n")
    assert (tmp_path / "log").read_bytes() == b"one line\n"
