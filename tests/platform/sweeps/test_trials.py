"""The Tune trial of a cell, without a Ray cluster."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
import yaml
from ray import tune

from dprl.algorithms import Learner
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.results.lock import FolderLock
from dprl.platform.sweeps.cell import LockedCell
from dprl.platform.sweeps.events import CellEvent, CellProgress
from dprl.platform.sweeps.ray_trials import CellTrial, _Events, resources_of
from tests.platform.processes import SMALL

CONFIG = SMALL | {"privacy": {"grid_search": [{"model": "none"}, {"model": "ldp", "epsilon": 1.0}]}, "episodes": 300}


@pytest.fixture
def cells(tmp_path: Path) -> list[SweepCell]:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    return SweepLayout(tmp_path / "home", "small").cells(load_cells(config))


def trial_of(cells: list[SweepCell], index: int = 0) -> CellTrial:
    trial = CellTrial.__new__(CellTrial)
    pickled = {cell.digest: cloudpickle.dumps(cell) for cell in cells}
    trial.setup({"cell": cells[index].digest}, pickled, {cell.digest: (1, None) for cell in cells})
    return trial


def finish(trial: CellTrial) -> dict[str, Any]:
    """Return the result of the last step; compiling may take all of the first."""
    while True:
        result: dict[str, Any] = trial.step()
        if result["done"]:
            return result


def test_one_process_runs_one_cell_after_the_other(cells: list[SweepCell]) -> None:
    trial = trial_of(cells)
    assert finish(trial) == {"progress": CellProgress(300, 300, 0, True), "done": True}
    assert trial.reset_config({"cell": cells[1].digest}) is True
    assert finish(trial)["done"]
    assert [cell.finished for cell in cells] == [True, True]


def test_a_cell_is_locked_from_first_step_until_end(cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch) -> None:
    advance = LockedCell.advance
    monkeypatch.setattr(LockedCell, "advance", lambda cell: advance(cell, 0.0))
    trial = trial_of(cells)
    with FolderLock(cells[0].lock_path):
        pass
    assert not trial.step()["done"]
    with pytest.raises(UserError, match="is in use by process"):
        FolderLock(cells[0].lock_path).acquire()
    trial.cleanup()
    with FolderLock(cells[0].lock_path):
        pass
    while not trial.step()["done"]:
        pass
    with FolderLock(cells[0].lock_path):
        pass


def test_an_error_of_the_cell_is_a_result_and_lets_go(cells: list[SweepCell]) -> None:
    """Tune would repeat a failed trial, and it would fail again."""
    cells[0].folder.state_file.mkdir(parents=True)
    result = trial_of(cells).step()
    assert result["done"]
    assert result["cause"].startswith("OSError: [Errno 22] it is no regular file: ")
    assert "Traceback" in result["trace"]
    with FolderLock(cells[0].lock_path):
        pass


def test_a_plugins_mistake_is_one_too(cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(self: Experiment, seed_index: int) -> Learner:
        raise TypeError("learn() takes 1 positional argument")

    monkeypatch.setattr(Experiment, "build", mistaken)
    assert trial_of(cells).step()["cause"] == "TypeError: learn() takes 1 positional argument"


def test_the_callback_tells_progress_errors_and_restarts() -> None:
    told: list[CellEvent] = []
    callback = _Events(told.append)
    trial = {"config": {"cell": "a"}, "pickled_error_file": None, "get_error": lambda: ValueError("lost\nfor good")}
    progress = CellProgress(1, 2, 0, False)
    callback.on_trial_result(1, [], SimpleNamespace(**trial), {"progress": progress, "done": False})
    callback.on_trial_result(1, [], SimpleNamespace(**trial), {"cause": "why", "trace": "all", "done": True})
    callback.on_trial_recover(1, [], SimpleNamespace(**trial, num_failures=1))
    callback.on_trial_error(1, [], SimpleNamespace(**trial, num_failures=3))
    more = "; it was restarted 2 times, the limit; --max-restarts raises it"
    assert told == [
        CellEvent("a", progress),
        CellEvent("a", None, "why", "all"),
        CellEvent("a", None, "ValueError: lost"),
        CellEvent("a", None, f"ValueError: lost{more}", "lost\nfor good"),
    ]
    # Tune pickles its callbacks.
    assert type(pickle.loads(pickle.dumps(_Events(lambda _: None)))) is tune.Callback


def test_a_cell_reserves_its_cpus_and_the_memory_that_it_asks_for() -> None:
    assert resources_of(2).bundles == [{"CPU": 2}]
    assert resources_of(1, 0.5).bundles == [{"CPU": 1, "memory": 500_000_000}]


def test_a_cell_works_ten_times_as_long_as_its_checkpoints_take(
    cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    run = SimpleNamespace(saving=0.0, advance=asked.append)
    monkeypatch.setattr("dprl.platform.sweeps.cell.CellRun", lambda *_, **__: run)
    locked = LockedCell(cells[0])
    locked.advance()
    run.saving = 2.0
    locked.advance()
    locked.close()
    assert asked == [1.0, 20.0]
