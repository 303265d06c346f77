"""Charges of finished releases: no copy, deleted journal or changed grid makes a second release look like the first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.sweep import run_sweep
from dprl.privacy.journal import charging_attempts
from tests.platform.sweeps.test_sweep import cells_of, options

pytestmark = pytest.mark.usefixtures("one_drawing")

ONE, OTHER = {"model": "jdp", "epsilon": 1.0}, {"model": "jdp", "epsilon": 2.0}
NONE = {"model": "none"}


def release(tmp_path: Path, *privacy: dict[str, Any]) -> list[Any]:
    return cells_of(tmp_path, privacy={"grid_search": list(privacy)}, episodes=20, noise={"entropy": "os"})


@pytest.fixture
def cell(tmp_path: Path) -> CellFolder:
    """A finished release."""
    cells = release(tmp_path, ONE)
    assert run_sweep(cells, options(tmp_path / "home")).failed == []
    found = CellFolder(tmp_path / "home/sweeps/small/cells" / cells[0].digest)
    assert [charging_attempts(found.charges_file(seed)) for seed in (0, 1, 2)] == [1, 1, 0]
    return found


def test_a_restored_cell_does_not_hide_a_later_attempt(tmp_path: Path, cell: CellFolder) -> None:
    cells, home = release(tmp_path, ONE), tmp_path / "home"
    shutil.copytree(cell.path, tmp_path / "copy")
    assert run_sweep(cells, options(home, fresh=True)).failed == []
    assert cell.certificate()["attempts"] == 2
    shutil.rmtree(cell.path)
    shutil.copytree(tmp_path / "copy", cell.path)
    (told,) = run_sweep(cells, options(home)).failed
    assert "journal must record its attempts, 1 for a seed, got [2, 2]; restore the latest state" in told
    assert cell.certificate()["attempts"] == 1
    shutil.rmtree(cell.path)
    assert run_sweep(cells, options(home)).failed == []
    assert cell.certificate()["attempts"] == 3


@pytest.mark.parametrize("fresh", [False, True])
def test_a_missing_journal_of_a_finished_release_is_refused(tmp_path: Path, cell: CellFolder, fresh: bool) -> None:
    cell.charges_file(1).unlink()
    told = r"journal must record its attempts, 1 for a seed, got \[1, 0\]; restore the latest state"
    if fresh:
        with pytest.raises(UserError, match=told):
            run_sweep(release(tmp_path, ONE), options(tmp_path / "home", fresh=True))
    else:
        (found,) = run_sweep(release(tmp_path, ONE), options(tmp_path / "home")).failed
        assert "got [1, 0]; restore the latest state" in found
    assert cell.certificate()["attempts"] == 1


def test_a_charged_cell_cannot_be_replaced_by_growing_and_shrinking(tmp_path: Path, cell: CellFolder) -> None:
    home = tmp_path / "home"
    for privacy in ([ONE, NONE], [NONE]):
        assert run_sweep(release(tmp_path, *privacy), options(home)).failed == []
    for fresh in (False, True):
        with pytest.raises(UserError, match="has charged users of a release in 1 cell of other settings or code"):
            run_sweep(release(tmp_path, NONE, OTHER), options(home, fresh=fresh))
    assert run_sweep(release(tmp_path, NONE, ONE), options(home)).failed == []
    assert cell.certificate()["attempts"] == 1


def test_older_journals_are_refused_also_by_a_fresh_start(tmp_path: Path, cell: CellFolder) -> None:
    cells, home = release(tmp_path, ONE), tmp_path / "home"
    shutil.copytree(cell.charges_file(0).parent, tmp_path / "copy")
    run_sweep(cells, options(home, fresh=True))
    shutil.copytree(tmp_path / "copy", cell.charges_file(0).parent, dirs_exist_ok=True)
    with pytest.raises(UserError, match=r"must record its attempts, 2 for a seed, got \[1, 1\]"):
        run_sweep(cells, options(home, fresh=True))
    assert cell.certificate()["attempts"] == 2


def test_a_journal_that_cannot_be_read_is_an_error_in_one_line(tmp_path: Path, cell: CellFolder) -> None:
    cell.charges_file(0).unlink()
    cell.charges_file(0).mkdir()
    (found,) = run_sweep(release(tmp_path, ONE), options(tmp_path / "home")).failed
    assert "must be one that can be read, got 'it is no regular file'; free it" in found
