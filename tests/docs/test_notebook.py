"""The notebook runs from top to bottom, and the output of its cells agrees with their text."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
def test_it_runs_and_shows_less_regret_with_more_epsilon(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
