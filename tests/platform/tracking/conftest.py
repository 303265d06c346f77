"""The sweep of `cases`, run once per module."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dprl.platform.sweeps.cell import LockedCell
from tests.platform.tracking.cases import cells_in


@pytest.fixture(scope="module")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    for cell in cells_in(home):
        locked = LockedCell(cell)
        while not locked.advance(10.0).finished:
            pass
        locked.close()
    return home


@pytest.fixture
def home(finished_home: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_home, tmp_path / "home")
    return tmp_path / "home"
