"""How this program is called here, so that the commands in its messages can be pasted."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

_NAME = "dprl"


def command(*words: str) -> str:
    """Return a command line of dprl with these words, quoted for a shell."""
    return shlex.join([program(), *words])


@cache
def program() -> str:
    """Return 'dprl' where the shell finds it, else the path by which it was called, relative if that is shorter."""
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
