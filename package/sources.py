"""Version of the results, digests of code, and the list and sources of plugins.

A plugin is a module that registers algorithms or environments on import. It is named in `$DPRL_PLUGINS`, or by an
installed package's entry point. Its files are part of `results_version`: another version makes other cells.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import os
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

RESULTS_VERSION = 1
"""Version of the numbers that dprl draws. Raise it with every change of a record: tests/golden say when."""

_HERE = Path(__file__).resolve().parent
_TOP = _HERE if (_HERE / "privacy").is_dir() else _HERE.parent  # of a wheel, or of a checkout
_TOP_FOLDERS = ("privacy", "envs", "algorithms")
_INSTALLED = {"site-packages", "dist-packages"}
VARIABLE, GROUP = "DPRL_PLUGINS", "dprl.plugins"
_BYTE_CODE = "__pycache__"


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


@cache
def plugin_modules() -> tuple[str, ...]:
    """Return the names of all plugins: of the environment variable first, then of entry points, each once."""
    named = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    installed = sorted(entry.module for entry in importlib.metadata.entry_points(group=GROUP))
    return tuple(dict.fromkeys(name for name in (*named, *installed) if name))


def plugin_files() -> tuple[tuple[str, Path], ...]:
    """Return a name and the resolved path of every file of the packages that plugins are in, data and all.

    A package that is not there has no file, and neither has a name that is none: loading them is then an error.
    """
    packages = sorted({package_of(module) for module in plugin_modules() if is_module_name(module)})
    return tuple(file for package in packages for file in package_files(package))


def package_files(package: str) -> Iterator[tuple[str, Path]]:
    """Yield a name and the resolved path of every file of a package or top-level module; none if it is not there."""
    # Looking up a package inside another one would import the parent.
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for place, folders, files in os.walk(folder, followlinks=True):
            folders[:] = sorted(set(folders) - {_BYTE_CODE})
            for path in (Path(place) / file for file in sorted(files)):
                if path.is_file():
                    yield f"{package}/{path.relative_to(folder).as_posix()}", path.resolve()
    if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
        yield f"{package}{Path(spec.origin).suffix}", Path(spec.origin).resolve()


def plugin_sources(packages: Collection[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the names of plugins, and the name and bytes of each of their files. packages: None for all."""
    for module in plugin_modules():
        if packages is None or package_of(module) in packages:
            yield module, b""
    for name, file in plugin_files():
        if packages is None or package_of(name) in packages:
            yield name, file.read_bytes()


@cache
def used_packages(modules: frozenset[str]) -> frozenset[str]:
    """Return the plugins' packages that contain `modules`, and all packages that these import, directly or indirectly.

    Code that imports by a computed name, cannot be parsed or is compiled counts as using every package.
    """
    files = [(package_of(name), file) for name, file in plugin_files()]
    there = {package for package, _ in files}
    found: set[str] = set()
    new = {package_of(module) for module in modules} & there
    while new:
        found |= new
        imported = {name for package, file in files if package in new for name in imported_packages(file)}
        new = (there if ANY in imported else imported & there) - found
    return frozenset(found)


ANY = "importlib"
"""Modules whose importers may import anything."""
_COMPILED = {".so", ".pyd", ".pyc"}


def imported_packages(file: Path) -> Iterator[str]:
    """Yield the packages that a file imports, `ANY` if they are unknown; data files import nothing."""
    if file.suffix != ".py":
        yield from [ANY] if file.suffix in _COMPILED else []
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        yield ANY
        return
    for part in ast.walk(tree):
        if isinstance(part, ast.Import):
            yield from (package_of(alias.name) for alias in part.names)
        elif isinstance(part, ast.ImportFrom) and part.level == 0 and part.module:
            yield package_of(part.module)
        elif isinstance(part, ast.Name) and part.id in ("__import__", "exec", "eval"):
            yield ANY


def package_of(name: str) -> str:
    """Return the package of a module, or of a file name from `plugin_files`."""
    return name.partition("/")[0].partition(".")[0]


def is_module_name(name: str) -> bool:
    """Whether the name is a valid module name."""
    return name != "__main__" and all(part.isidentifier() for part in name.split("."))
