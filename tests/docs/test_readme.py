"""The Python of the README runs as it stands, on fewer episodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def test_its_python_runs_and_draws_the_figure(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPRL_HOME", str(tmp_path / "home"))
    names: dict[str, Any] = {}
    exec(code.replace("200_000", "2_000").replace("seeds=5", "seeds=2"), names)
    assert len(names["sweep"].frame) == 3
    assert names["sweep"].certificate(0)["proved"]["epsilon_at_claimed_delta"] == pytest.approx(1.0)
    assert (tmp_path / "frontier.pdf").stat().st_size > 5_000
