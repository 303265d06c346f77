"""Files that are there whole or not at all, and the versions that made them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dprl.privacy import source_digest

_PACKAGES = ("dprl", "numpy", "numba", "scipy", "pandas", "pyarrow", "gymnasium", "ray", "mlflow")


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Have `write` fill a temporary file, and give it the name `path` once its bytes are on the disk.

    Whoever reads `path` sees the old file or the new one, also after a kill or a power cut in between.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left in `folder`."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: Path, data: object) -> None:
    """Write strict JSON (no NaN, no infinity) atomically."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a .npz file atomically."""
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def versions() -> dict[str, Any]:
    """Return what produced a result: interpreter, packages, digest of the sources, processor, commit."""
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "source_digest": source_digest(),
        "cpu": _cpu_model(),
        "git_commit": _git_commit(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@cache
def _git_commit() -> str | None:
    """Return the commit of the source tree, with '+changes' if files differ from it; None without git."""
    top = Path(__file__).resolve().parent.parent
    if not (top / ".git").exists():
        return None
    commit = _git(top, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + "+changes" if _git(top, "status", "--porcelain", "--untracked-files=no") else commit


def _git(top: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(top), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
