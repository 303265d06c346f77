"""The Python code of the README and of docs/extending runs unchanged, with fewer episodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
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
    script.write_text(re.sub(r"([12])00_000", r"\1_000", code).replace("seeds=5", "seeds=2"))
    exec(compile(script.read_text(), script.absolute(), "exec"), names)
    return names


def test_the_readme_draws_a_figure(root: Path, outside: Path) -> None:
    names = names_of(root / "README.md")
    assert len(names["sweep"].frame) == 3
    assert names["sweep"].certificate(0)["proved"]["epsilon_at_claimed_delta"] == pytest.approx(1.0)
    assert (outside / "frontier.pdf").stat().st_size > 5_000


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
