"""Fixed results for attacks, whose random streams are named after the cell."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fixed(fixed_draws: None) -> None:
    """Apply `fixed_draws` to all tests of this folder."""
