"""Versions of everything that affects a result."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from dprl.sources import results_version

_PACKAGES = ("dprl", "numpy", "numba", "scipy", "pandas", "pyarrow", "gymnasium", "ray", "mlflow")


def versions() -> dict[str, Any]:
    """Return the versions that affect a result: interpreter, packages, results, processor, commit."""
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "results_version": results_version(),
        "cpu": _cpu_model(),
        "git_commit": _git_commit(),
    }


@cache
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
    top = Path(__file__).resolve().parents[2]
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
