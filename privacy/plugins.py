"""Modules of others whose parts belong to this program: which there are, and the sources that they are made of.

A plugin is a module that registers algorithms, environments or mechanisms when it is imported. It is named in
`$DPRL_PLUGINS`, or by an entry point of an installed package. Its sources count in `source_digest`, like our own: a
cell that ran on another version of them is another cell.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VARIABLE, GROUP = "DPRL_PLUGINS", "dprl.plugins"


@cache
def plugin_modules() -> tuple[str, ...]:
    """Return the names of all plugins: of the environment variable first, then of entry points, each once."""
    named = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    installed = sorted(entry.module for entry in importlib.metadata.entry_points(group=GROUP))
    return tuple(dict.fromkeys(name for name in (*named, *installed) if name))


def plugin_sources() -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of every source file of the packages that plugins are in.

    A package that is not there has no source: importing it fails, so nothing of it can run.
    """
    for package in sorted({module.partition(".")[0] for module in plugin_modules()}):
        # Of a package that lies below another one, looking it up would run its parent.
        spec = importlib.util.find_spec(package)
        yield package, b""
        for folder in (spec.submodule_search_locations if spec else None) or ():
            for file in sorted(Path(folder).rglob("*.py")):
                yield f"{package}/{file.relative_to(folder).as_posix()}", file.read_bytes()
        if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
            yield f"{package}.py", Path(spec.origin).read_bytes()
