"""What every test sees: the repository's root, figures without a display, Ray without usage statistics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that start Ray, then with other slow ones: at the end, one worker would wait for another."""
    files: dict[Path, int] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        files[item.path] = max(files.get(item.path, 0), 2 * ("cluster" in marks) + ("slow" in marks))
    items.sort(key=lambda item: -files[item.path])


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root folder."""
    return Path(__file__).resolve().parent.parent
