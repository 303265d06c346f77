"""The expected results of sweeps with injected failures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.platform.failures.cases import LONG
from tests.platform.processes import dprl, records, write_config


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """Return the records of the long cells, run without Ray and without failures."""
    home = tmp_path_factory.mktemp("calm")
    dprl(home, "run", write_config(home, **LONG))
    return records(home)
