"""Atomic writing of files."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

_ANYBODY, _OWNER = 0o666, 0o600


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
