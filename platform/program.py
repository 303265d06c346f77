"""Name of the running program, for commands that can be pasted, and its streams."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

STDOUT, STDERR = 1, 2
_NAME = "dprl"


def command(*words: str) -> str:
    """Return a command line of dprl with these words, quoted for a shell."""
    return shlex.join([program(), *words])


@cache
def program() -> str:
    """Return 'dprl' if the shell finds it, else the path of the call, relative if that is shorter."""
    called = Path(sys.argv[0])
    if called.name != _NAME:
        return _NAME  # python -m, or a test
    found = shutil.which(_NAME)
    if found is not None and called.exists() and Path(found).samefile(called):
        return _NAME
    relative = os.path.relpath(called)
    if os.sep not in relative:
        relative = os.path.join(os.curdir, relative)  # noqa: PTH118 - a Path would drop the ./
    return min(str(called.absolute()), relative, key=len)


@contextmanager
def redirected(stream: int, target: int | None) -> Iterator[None]:
    """Redirect STDOUT or STDERR within the context to a descriptor, or discard it for None; also for compiled code."""
    python_stream = sys.stdout if stream == STDOUT else sys.stderr
    python_stream.flush()
    kept = os.dup(stream)
    sink = os.open(os.devnull, os.O_WRONLY) if target is None else os.dup(target)
    os.dup2(sink, stream)
    os.close(sink)
    try:
        yield
    finally:
        python_stream.flush()
        os.dup2(kept, stream)
        os.close(kept)
