"""Shared fixtures of sweeps' tests."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from dprl.platform.reports.figures import catalogue
from dprl.platform.reports.figures.styles import render


@pytest.fixture(autouse=True)
def _quick_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the PDF and the PNG of a sweep's charts as SVG; tests/platform/reports renders each kind."""
    svg: dict[int, tuple[Figure, bytes]] = {}

    def quick(figure: Figure, _: str) -> bytes:
        if id(figure) not in svg:
            svg.clear()
            svg[id(figure)] = figure, render(figure, "svg")
        return svg[id(figure)][1]

    monkeypatch.setattr(catalogue, "render", quick)
