"""What tests of several folders of the platform share."""

from __future__ import annotations

import pytest

from dprl.algorithms import ALGORITHMS
from tests.platform.gradient_cases import WalkingConfig


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the algorithm of `gradient_cases`."""
    monkeypatch.setitem(ALGORITHMS, WalkingConfig.name, WalkingConfig)
