"""Files are written completely or not at all."""

from __future__ import annotations

import math
import os
import zipfile
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from dprl.atomic_files import (
    append,
    open_regular,
    read_arrays,
    read_regular,
    write_arrays,
    write_atomically,
    write_json,
    write_text,
)


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


def test_neither_links_nor_pipes_are_opened(tmp_path: Path) -> None:
    """A pipe would keep its reader waiting forever, and a link would let its target be overwritten."""
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("mine")
    link.symlink_to(target)
    os.mkfifo(pipe)
    for flags in (os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND):
        for path in (link, pipe, Path(os.devnull)):
            with pytest.raises(OSError, match="it is"):
                open_regular(path, flags)
    for read in (read_regular, read_arrays):
        with pytest.raises(OSError, match="it is"):
            read(pipe)
    assert read_regular(link) == b"mine", "reading through a link does no harm"


def header(shape: tuple[int, ...]) -> bytes:
    """Return an array that states another shape than its 3 numbers have."""
    file = BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + np.ones(3).tobytes()


@pytest.mark.parametrize(
    ("content", "compression"),
    [
        (header((10**15,)), zipfile.ZIP_STORED),
        (header((2,)), zipfile.ZIP_STORED),
        (header((1 << 25,)) + bytes(8 << 25), zipfile.ZIP_DEFLATED),  # 256 MB in 0.3 MB
        (b"no array", zipfile.ZIP_STORED),
    ],
)
def test_arrays_of_another_size_than_their_file_are_not_read(tmp_path: Path, content: bytes, compression: int) -> None:
    file = tmp_path / "policy.npz"
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("policy.npy", content)
    with pytest.raises(ValueError, match=r"must|magic"):
        read_arrays(file)


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array("text"), "none": np.empty((0, 3))}
    write_arrays(tmp_path / "x.npz", arrays)
    found = read_arrays(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
