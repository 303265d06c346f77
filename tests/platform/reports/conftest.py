"""Figures drawn by tests, before they are encoded."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The saved figures as objects."""
    saved: list[Figure] = []
    original = Figure.draw

    def keep(self: Figure, *args: Any, **kwargs: Any) -> None:
        saved.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "draw", keep)
    return saved
