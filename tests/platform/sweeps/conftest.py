"""Shared fixtures of sweeps' tests."""

from __future__ import annotations

import pytest

from tests.platform.conftest import draw_once


@pytest.fixture(autouse=True)
def _quick_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one figure in place of all; tests/platform/reports draws each kind."""
    draw_once(monkeypatch)
