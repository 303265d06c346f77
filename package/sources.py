"""Version of the results, and digests of code."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dprl.plugins import plugin_files, plugin_sources

RESULTS_VERSION = 1
"""Version of the numbers that dprl draws. Raise it with every change of a record: tests/golden say when."""

_HERE = Path(__file__).resolve().parent
_TOP = _HERE if (_HERE / "privacy").is_dir() else _HERE.parent  # of a wheel, or of a checkout
_TOP_FOLDERS = ("privacy", "envs", "algorithms")
_INSTALLED = {"site-packages", "dist-packages"}


@cache
def results_version(packages: frozenset[str] | None = None) -> str:
    """Return RESULTS_VERSION and, if there are plugins, a digest of their files, e.g. '1' or '1-0123456789abcdef'.

    It is part of the names of cells and of random streams. packages: of the plugins that count; None for all.
    """
    files = list(plugin_sources(packages))
    return f"{RESULTS_VERSION}-{_hash(files)}" if files else str(RESULTS_VERSION)


@cache
def code_digest() -> str:
    """Return 16 hex digits of the bytes of the code in this folder, in the kernels' folders and in plugins."""
    files = [(path.name, path.read_bytes()) for path in sorted(_HERE.glob("*.py"))]
    for path in (path for top in _TOP_FOLDERS for path in sorted((_TOP / top).rglob("*.py"))):
        files.append((path.relative_to(_TOP).as_posix(), path.read_bytes()))
    return _hash([*files, *plugin_sources()])


def _hash(files: Iterable[tuple[str, bytes]]) -> str:
    digests = (hashlib.sha256(part).digest() for name, text in files for part in (name.encode(), text))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def sources_are_unchanged() -> bool:
    """Whether the sources are unchanged since the first call of `code_digest`."""
    return code_digest.__wrapped__() == code_digest()


def is_ours(file: str | Path) -> bool:
    """Whether a file is one of the kernels' folders."""
    path = Path(file).resolve()  # '<stdin>' would be a file of the current folder
    return any(path.is_relative_to(_TOP / top) for top in _TOP_FOLDERS) and path.is_file()


@cache
def is_digested(file: str) -> bool:
    """Whether `code_digest` covers a file."""
    return is_ours(file) or Path(file).resolve() in {path for _, path in plugin_files()}


def is_installed(file: Path) -> bool:
    """Whether a resolved file belongs to the standard library or to an installed package."""
    standard = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
    return bool(_INSTALLED & set(file.parts)) or any(file.is_relative_to(folder) for folder in standard)


def cache_base() -> Path:
    """Return the folder for caches: `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/dprl` or `~/.cache/dprl`."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dprl"
