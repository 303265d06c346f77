"""Examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    ".".join(("dprl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for room in ("privacy", "envs", "algorithms", "platform", "papers")
    for path in (ROOT / room).rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_give_what_they_show(name: str) -> None:
    ran = doctest.testmod(importlib.import_module(name), verbose=False)
    assert ran.attempted > 0
    assert ran.failed == 0


def test_there_are_examples() -> None:
    assert len(MODULES) >= 12
