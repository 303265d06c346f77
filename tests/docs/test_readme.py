"""The README, the tutorial and the notebook do what they show."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pandas as pd
import pytest

from dprl.algorithms import ALGORITHMS


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    return tmp_path


def names_of(page: Path) -> dict[str, Any]:
    """Run the blocks of Python of a page as one script and return what it defines."""
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    script, names = Path("script.py"), dict[str, Any](__name__="script")
    script.write_text(re.sub(r"seeds=\d", "seeds=2", re.sub(r"([12])00_000", r"\1_000", code)))
    exec(compile(script.read_text(), script.absolute(), "exec"), names)
    return names


def test_the_readme_draws_a_figure(root: Path, outside: Path) -> None:
    names = names_of(root / "README.md")
    assert len(names["sweep"].frame) == 3
    assert names["sweep"].certificate(0)["proved"]["epsilon_at_claimed_delta"] == pytest.approx(1.0)
    assert (outside / "frontier.pdf").stat().st_size > 5_000


def test_features_of_ones_own_are_learned(root: Path, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = names_of(root / "docs" / "ma_ldp.md")
    assert names["env"].build().optimal_start_value() == pytest.approx(3.4, abs=0.5)
    assert "holds" in capsys.readouterr().out


def test_the_first_figure_is_drawn_in_two_ways(root: Path, outside: Path) -> None:
    try:
        names = names_of(root / "docs" / "first_figure.md")
        assert names["sweep"].frame["proved_epsilon"].tolist()[1:4] == pytest.approx([0.3, 1.0, 3.0])
        assert all((outside / name).stat().st_size > 5_000 for name in ("corridor.pdf", "plain.pdf"))
    finally:
        ALGORITHMS.pop("mine", None)
        gymnasium.registry.pop("Corridor-v0", None)


def test_an_algorithm_in_one_function_runs(root: Path, outside: Path) -> None:
    names = names_of(root / "docs" / "extending" / "algorithm.md")
    try:
        assert names["sweep"].frame["algorithm.width"].tolist()[:4] == [0.1, 0.1, 0.3, 0.3]
        assert names["sweep"].frame["proved_epsilon"].tolist()[1::2] == pytest.approx([1.0, 1.0, 1.0])
    finally:
        for name in ("simple", "posterior_sampling"):
            ALGORITHMS.pop(name)


# The tutorial shows the example's files, and its commands work as stated.


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


# The notebook runs from top to bottom, and the output of its cells agrees with their text.


@pytest.mark.slow
def test_it_shows_less_regret_with_more_epsilon(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads((root / "docs" / "frozen_lake.ipynb").read_text())["cells"]:
        assert not cell.get("outputs"), "it is kept without outputs"
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop()
            assert isinstance(last, ast.Expr)
            exec(compile(tree, "cell", "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    best, certificates, frame, figure, (value, action) = shown
    assert [verdict for verdict, _ in certificates] == ["holds"] * 3
    assert frame["regret"].is_monotonic_decreasing
    assert figure.axes
    assert 0.0 < value <= best
    assert action in range(4)
