"""Digest of the syntax trees of all sources that determine a cell's numbers."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sysconfig
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from dprl.plugins import plugin_sources

_HERE = Path(__file__).resolve().parent
_TOP = _HERE if (_HERE / "privacy").is_dir() else _HERE.parent  # of a wheel, or of a checkout
_TOP_FOLDERS = ("privacy", "envs", "algorithms")
_INSTALLED = {"site-packages", "dist-packages"}


@cache
def source_digest(packages: frozenset[str] | None = None) -> str:
    """Return 16 hex digits that change with the code of the kernels' folders, of this folder or of a plugin.

    packages: of the plugins that count; None for all.

    For Python files the digest is that of syntax trees without docstrings, so that comments and layout do not matter;
    for other files of plugins it is that of bytes. Parsing takes a second, so results are cached on disk.
    """
    files = [(path.name, path.read_bytes()) for path in sorted(_HERE.glob("*.py"))]
    for path in (path for top in _TOP_FOLDERS for path in sorted((_TOP / top).rglob("*.py"))):
        files.append((path.relative_to(_TOP).as_posix(), path.read_bytes()))
    files += plugin_sources(packages)
    known = cache_base() / f"digest-{_hash(files)}"
    with suppress(OSError):
        if re.fullmatch("[0-9a-f]{16}", found := known.read_text()):
            return found
    digest = _hash((name, tree_or_bytes(name, source)) for name, source in files)[:16]
    with suppress(OSError):
        known.parent.mkdir(parents=True, exist_ok=True)
        unfinished = known.with_suffix(f".{os.getpid()}")
        unfinished.write_text(digest)
        unfinished.replace(known)
    return digest


def tree_or_bytes(name: str, source: bytes) -> bytes:
    """Return the syntax tree of a Python file without docstrings, or the bytes of any other file."""
    if name.endswith(".py"):
        with suppress(SyntaxError, ValueError, RecursionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # imports warn about escapes
            return _tree_text(ast.parse(source)).encode()
    return source


def _tree_text(part: object) -> str:
    """Return a syntax tree as text, equal in all versions of Python; `ast.dump` shows empty fields in some only."""
    if not isinstance(part, ast.AST):
        return ascii(part)
    words = [type(part).__name__]
    for name, value in ast.iter_fields(part):
        if isinstance(value, list):
            shown = [_tree_text(one) for one in value if not _is_docstring(one)]
            words += [f"{name}=[{' '.join(shown)}]"] if shown else []
        elif value is not None:
            words.append(f"{name}={_tree_text(value)}")
    return f"({' '.join(words)})"


def _is_docstring(part: object) -> bool:
    """Whether a statement is only a string: a docstring, or the text below a constant."""
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)


def _hash(files: Iterable[tuple[str, bytes]]) -> str:
    digests = (hashlib.sha256(part).digest() for name, text in files for part in (name.encode(), text))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def is_ours(file: str | Path) -> bool:
    """Whether a file is one of those whose code `source_digest` follows (plugins aside)."""
    path = Path(file).resolve()  # '<stdin>' would be a file of the current folder
    return any(path.is_relative_to(_TOP / top) for top in _TOP_FOLDERS) and path.is_file()


def is_installed(file: Path) -> bool:
    """Whether a resolved file belongs to the standard library or to an installed package."""
    standard = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
    return bool(_INSTALLED & set(file.parts)) or any(file.is_relative_to(folder) for folder in standard)


def sources_are_unchanged() -> bool:
    """Whether the sources are unchanged since the first call of `source_digest`."""
    return source_digest.__wrapped__() == source_digest()


def cache_base() -> Path:
    """Return the folder for caches: `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/dprl` or `~/.cache/dprl`."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dprl"
