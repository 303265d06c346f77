"""The tutorial shows the example's files, and its commands work as stated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SMALL = " --set episodes=60 --set seeds=2"


def blocks(root: Path, language: str) -> list[str]:
    """Return the tutorial's blocks in a language; the test runs `bash` blocks, but not `sh` blocks."""
    page = (root / "docs" / "tutorial.md").read_text()
    return [text for found, text in BLOCK.findall(page) if found == language]


def commands(root: Path) -> str:
    """Return all commands of the page in one script, with fewer episodes."""
    script = "".join(blocks(root, "bash"))
    return re.sub(r"^(dprl (?:run|sweep) .*)$", rf"\1{SMALL}", script, flags=re.MULTILINE)


def test_what_it_shows_of_the_algorithm_is_in_its_file(root: Path) -> None:
    source = (root / "docs" / "extending" / "algorithm" / "simple_ucb.py").read_text()
    shown = blocks(root, "python")
    assert len(shown) >= 2
    assert all(block in source for block in shown)


def test_the_config_that_it_shows_is_the_examples(root: Path) -> None:
    (shown,) = blocks(root, "yaml")
    comment, _, config = (root / "docs" / "extending" / "algorithm" / "simple_ucb.yaml").read_text().partition("\n")
    assert comment.startswith("# ")
    assert shown == config


@pytest.mark.slow
@pytest.mark.cluster
def test_its_commands_lead_to_the_figure(root: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(root / "docs")
    (tmp_path / "dprl").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m dprl.platform.command_line "$@"\n')
    (tmp_path / "dprl").chmod(0o755)
    script = commands(root)
    assert script.count(SMALL) == 2
    variables = {
        key: value for key, value in os.environ.items() if key not in ("DPRL_HOME", "DPRL_PLUGINS", "PYTHONPATH")
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=variables | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    folder = tmp_path / "dprl_runs" / "sweeps" / "simple_ucb"
    assert (folder / "frontier.png").stat().st_size > 10_000
    summary = pd.read_csv(folder / "summary.csv")
    assert set(summary["algorithm.name"]) == {"simple_ucb", "private_ucb_vi"}
    assert len(summary) == 10
