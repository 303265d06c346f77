"""What every test sees: the repository's root, plugins, figures without a display, Ray without usage statistics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dprl.platform.plugins import load_plugins

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Before tests are collected: contract suites take what is registered.
load_plugins()


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root folder."""
    return Path(__file__).resolve().parent.parent
