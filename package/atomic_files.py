"""Atomic writing of files, and safe opening of those that others may have put in place."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import uuid
import zipfile
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

_ANYBODY, _OWNER = 0o666, 0o600
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_atomically(path: Path, write: Callable[[BinaryIO], object], private: bool = False) -> None:
    """Let `write` fill a temporary file, and rename it to `path` when its bytes are on the disk.

    Readers of `path` see the old file or the new one, even after a kill or a power cut in between. A private file can
    be read by its owner only, from its first byte on; other files have the permissions of the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER if private else _ANYBODY)
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def read_regular(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises OSError, also for a pipe or a device."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def open_regular(path: Path, flags: int, mode: int = _ANYBODY) -> int:
    """Return a descriptor as `os.open` does, but of a regular file only: a pipe keeps nobody waiting.

    To write, the path must not be a link: its target would be overwritten. Raises OSError, with EINVAL for other files.
    """
    flags |= os.O_NOFOLLOW if flags & (os.O_WRONLY | os.O_RDWR) else 0
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        what = "a symbolic link" if error.errno == errno.ELOOP else "a pipe"
        raise OSError(errno.EINVAL, f"it is {what}", str(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def flush_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(file: FileIO, length: int, content: bytes) -> None:
    """Write `content` to an unbuffered file of `length` bytes, without a torn end, and wait for the disk.

    Raises OSError, with the file as it was; where it cannot be restored, the next call does it first.
    """
    try:
        file.truncate(length)
        file.seek(length)
        rest = memoryview(content)
        while rest:  # the system may take it in parts
            written = file.write(rest)
            if not written:
                raise OSError(0, "nothing was taken")
            rest = rest[written:]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            file.truncate(length)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left in `folder`."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes, private: bool = False) -> None:
    """Write bytes atomically; a private file can be read by its owner only."""
    write_atomically(path, lambda file: file.write(content), private)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, data: object) -> None:
    """Write strict JSON (no NaN, no infinity) atomically."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: dict[str, np.ndarray], private: bool = False) -> None:
    """Write a .npz file atomically; a private one can be read by its owner only."""
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays), private)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a file of `write_arrays`. Raises OSError, ValueError, EOFError or zipfile.BadZipFile.

    Every size is compared with that of the file first: a zip bomb or a header of 10^15 numbers costs no memory.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        with zipfile.ZipFile(file) as archive:
            entries, size = archive.infolist(), os.fstat(file.fileno()).st_size
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
            if packed or sum(entry.file_size for entry in entries) > size:
                raise ValueError(f"{path.name} must have arrays that are not compressed, within its size")
            for entry in entries:
                with archive.open(entry) as array:
                    version = np.lib.format.read_magic(array)
                    if version not in _HEADERS:
                        raise ValueError(f"{entry.filename} must be of NumPy's format 1.0 or 2.0")
                    shape, _, dtype = _HEADERS[version](array)
                    if array.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
                        raise ValueError(f"{entry.filename} must have as many numbers as its header states")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
