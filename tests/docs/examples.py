"""Helpers that copy the examples of docs/extending to a user's folder and run commands there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

EXAMPLES = {"algorithm": "simple_ucb", "env": "inventory"}
PLUGINS = ",".join(EXAMPLES.values())


def copied(root: Path, folder: Path) -> Path:
    """Copy every example into `folder`."""
    for kind, module in EXAMPLES.items():
        for suffix in (".py", ".yaml"):
            shutil.copy(root / "docs" / "extending" / kind / f"{module}{suffix}", folder)
    return folder


def environment(folder: Path, plugins: str = PLUGINS) -> Mapping[str, str]:
    """Return the variables of a user who works in `folder`."""
    ours = {"PYTHONPATH": str(folder), "DPRL_PLUGINS": plugins, "DPRL_HOME": str(folder / "home"), "NO_COLOR": "1"}
    return os.environ | ours


def dprl(folder: Path, *words: object, expect: int = 0, plugins: str = PLUGINS) -> str:
    """Run a command in `folder` and return its output."""
    return python(folder, ["-m", "dprl.platform.command_line", *map(str, words)], expect=expect, plugins=plugins)


_TOGETHER = """
import contextlib, io, json, sys
from dprl.platform.command_line import main
found = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
        code = main(words)
    found.append((code, shown.getvalue()))
print(json.dumps(found))
"""


def together(folder: Path, *commands: Sequence[str], expect: int = 0, plugins: str = PLUGINS) -> list[str]:
    """Run commands one after the other in one process in `folder` and return their outputs."""
    found = json.loads(python(folder, ["-c", _TOGETHER, json.dumps(commands)], plugins=plugins))
    assert {code for code, _ in found} == {expect}, found
    return [shown for _, shown in found]


def python(folder: Path, words: Sequence[str], expect: int = 0, plugins: str = PLUGINS, cwd: Path | None = None) -> str:
    """Run Python with these words and the user's variables and return its output."""
    done = subprocess.run(
        [sys.executable, "-P", *words],
        env=environment(folder, plugins),
        cwd=cwd or folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == expect, done.stdout
    return done.stdout
