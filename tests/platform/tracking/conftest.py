"""The sweep of `cases`, run once per module."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.platform.tracking.cases import cells_in, run_all


@pytest.fixture(scope="module")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    run_all(cells_in(home))
    return home


@pytest.fixture
def home(finished_home: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_home, tmp_path / "home")
    return tmp_path / "home"
