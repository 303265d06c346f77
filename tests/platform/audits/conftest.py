"""Attacks have fixed results: they draw from streams that are named after the cell."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fixed(fixed_draws: None) -> None:
    """As `fixed_draws`, in all tests here."""
