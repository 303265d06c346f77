"""Fixtures of other folders."""

from __future__ import annotations

from tests.platform.reports.conftest import drawn

__all__ = ["drawn"]
