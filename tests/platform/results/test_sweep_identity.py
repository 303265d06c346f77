"""The identity behind a sweep's name: grids that may use it, and refusals that show the difference."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.configs.experiment import Experiment, Scalar
from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.layout import Grid
from dprl.platform.sweeps.sweep import run_sweep
from tests.platform.conftest import draw_once
from tests.platform.sweeps.test_sweep import CONFIG, cells_of, options

pytestmark = pytest.mark.usefixtures("one_drawing")

PRIVATE = {"model": "jdp", "epsilon": 1.0}
THREE: dict[str, Any] = {"grid_search": [{"model": "none"}, PRIVATE, {"model": "ldp", "epsilon": 2.0}]}
OTHER: dict[str, Any] = {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 3.0}]}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the finished sweep `small`."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        draw_once(patch)
        run_sweep(cells_of(folder), options(folder / "home"))
    return folder / "home"


@pytest.fixture
def home(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "home"))


def files(home: Path) -> dict[Path, int]:
    """Modification times of all files except locks, which even reading takes."""
    found = [file for file in home.glob("sweeps/**/*") if file.is_file() and file.parent.name != "locks"]
    return {file: file.stat().st_mtime_ns for file in found}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"episodes": 401}, "got other episodes;"),
        ({"seeds": 3, "seed": 1}, "got other seeds, seed;"),
        ({"privacy": OTHER}, "got other privacy.epsilon;"),
        ({"privacy": {"grid_search": [PRIVATE, {**PRIVATE, "epsilon": 2.0}]}}, "got other privacy.model, "),
        ({"algorithm": {"name": "private_ucb_vi"}}, "got other algorithm.bonus_scale"),
    ],
)
def test_another_grid_under_the_same_name_is_refused_with_the_difference(
    home: Path, changes: dict[str, object], told: str
) -> None:
    before = files(home)
    with pytest.raises(UserError) as refused:
        run_sweep(cells_of(home, **changes), options(home))
    said = str(refused.value)
    assert said.startswith("name: 'small' has 2 finished cells of another grid, got ")
    assert told in said
    assert "; choose another name" in said
    assert said.endswith(", or forget them (--fresh, in Python fresh=True)")
    assert files(home) == before


def test_a_name_or_a_fresh_start_lets_another_grid_run(home: Path) -> None:
    run_sweep(cells_of(home, episodes=401), options(home, name="longer"))
    assert len(run_sweep(cells_of(home, episodes=401), options(home, fresh=True)).summary) == 2
    with pytest.raises(UserError, match="got other episodes"):
        run_sweep(cells_of(home), options(home))


@pytest.mark.parametrize("fresh", [False, True])
def test_charges_of_releases_are_never_forgotten(home: Path, fresh: bool) -> None:
    """A journal of a cell whose settings have changed since: its users would not count as asked before."""
    digest = cells_of(home)[0].digest
    journal = CellFolder(home / "sweeps/small/cells" / digest).charges_file(1)
    journal.parent.mkdir()
    journal.write_bytes(b"charges")
    before = files(home)
    with pytest.raises(UserError) as refused:
        run_sweep(cells_of(home, episodes=401), options(home, fresh=fresh))
    said = str(refused.value)  # shortened in the middle where the folder is long
    assert said.startswith("name: 'small' has charged users of a release in 1 cell of other settings or code, got the")
    assert said.endswith(
        "; choose another name, and for users who take part again compose the certificates (dprl compose)"
    )
    assert files(home) == before
    run_sweep(cells_of(home, privacy=THREE), options(home, fresh=fresh))
    run_sweep(cells_of(home, privacy=PRIVATE), options(home))  # a smaller grid may leave the charged cell out
    (home / "sweeps/small/grid.json").unlink()
    with pytest.raises(UserError, match="has charged users of a release in 1 cell"):
        run_sweep(cells_of(home, privacy=PRIVATE), options(home, fresh=fresh))


def test_a_grid_may_grow_and_shrink(home: Path) -> None:
    assert len(run_sweep(cells_of(home, privacy=THREE), options(home)).summary) == 3
    assert len(run_sweep(cells_of(home, privacy=PRIVATE), options(home)).summary) == 1
    assert len(run_sweep(cells_of(home, privacy=CONFIG["privacy"]), options(home)).summary) == 2


def test_other_code_is_another_meaning(home: Path) -> None:
    """After an upgrade every digest differs, although all settings are the same."""
    file = home / "sweeps" / "small" / "grid.json"
    written = json.loads(file.read_text())
    older = {"sources": "0123456789", "cells": {f"{i:012x}": each for i, each in enumerate(written["cells"].values())}}
    for digest, cell in zip(older["cells"], (home / "sweeps" / "small" / "cells").iterdir(), strict=True):
        cell.rename(cell.parent / digest)
    file.write_text(json.dumps(older))
    with pytest.raises(UserError, match="got other code of privacy/, envs/ or algorithms/"):
        run_sweep(cells_of(home), options(home))


def test_the_sources_of_a_grid_have_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # That of a set of words differs between processes, and a sweep is continued in another process.
    (cell, *_) = cells_of(tmp_path)
    monkeypatch.setattr(Experiment, "sources", property(lambda one: f"plugin_{one.seed}"))
    grid = Grid.of([dataclasses.replace(cell, seed=seed) for seed in range(9)])
    assert grid.sources.split() == [f"plugin_{seed}" for seed in range(9)]


def test_where_nothing_is_finished_the_new_grid_takes_the_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    layout_folder = home / "sweeps" / "small"
    Grid.of(cells_of(tmp_path, episodes=999)).write(layout_folder / "grid.json")
    assert len(run_sweep(cells_of(tmp_path), options(home)).summary) == 2


def test_a_damaged_note_is_named(home: Path) -> None:
    file = home / "sweeps" / "small" / "grid.json"
    file.write_text("{}")
    with pytest.raises(UserError, match=r"grid\.json: must be what an earlier call wrote.*; remove it"):
        run_sweep(cells_of(home), options(home))
    file.unlink()
    assert len(run_sweep(cells_of(home), options(home)).summary) == 2
    assert len(run_sweep(cells_of(home), options(home, fresh=True)).summary) == 2


def test_many_differences_are_counted(tmp_path: Path) -> None:
    (cell, *_) = cells_of(tmp_path)
    changed = dataclasses.replace(cell, episodes=7, seeds=3, seed=4, release=False, audit=True)
    env = dataclasses.replace(changed, env=dataclasses.replace(cell.env, horizon=9))  # type: ignore[type-var]
    said = Grid.of([env]).difference(Grid.of([cell]))
    assert said == "other env.horizon, episodes, seeds, and 2 more"


def test_other_combinations_of_the_same_values_are_named() -> None:
    both: list[dict[str, Scalar]] = [{"privacy.model": "none", "episodes": 1}, {"privacy.model": "jdp", "episodes": 2}]
    crossed: tuple[dict[str, Scalar], ...] = (
        {"privacy.model": "none", "episodes": 2},
        {"privacy.model": "jdp", "episodes": 1},
    )
    before, now = (Grid("", {f"{one}": one for one in cells}) for cells in (both, crossed))
    assert now.difference(before) == "other combinations of settings"
