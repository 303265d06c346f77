"""The reference of all kernels: the same source as plain Python, which needs a separate process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from numba import config

_ROOT = Path(__file__).resolve().parent.parent
_CHECKED = "import numba\nassert numba.config.DISABLE_JIT\n"


def printed_without_compiler(code: str, warnings: str = "ignore") -> str:
    """Return what a script prints in a process whose kernels are plain Python.

    It may import from `tests`. warnings: as Python's -W.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-W", warnings, "-c", _CHECKED + code],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed_both_ways(code: str, warnings: str = "ignore") -> str:
    """Return what a script prints, compiled in this process and as plain Python in another: it must be the same."""
    assert not vars(config)["DISABLE_JIT"]
    with contextlib.redirect_stdout(io.StringIO()) as compiled:
        exec(code, {"__name__": "script"})
    assert compiled.getvalue()
    assert compiled.getvalue() == printed_without_compiler(code, warnings)
    return compiled.getvalue()
