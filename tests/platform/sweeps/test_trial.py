"""The Tune trial, without a Ray cluster."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray import tune

from dprl.algorithms import Learner
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError
from dprl.platform.results.layout import SweepCell, SweepLayout
from dprl.platform.results.lock import FolderLock
from dprl.platform.sweeps.cell import CellProgress
from dprl.platform.sweeps.execution import LockedCell
from dprl.platform.sweeps.trial import CellTrial, ObserverCallback

CONFIG = {
    "name": "trials",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "privacy": {"grid_search": [{"model": "none"}, {"model": "ldp", "epsilon": 1.0}]},
    "episodes": 300,
    "seeds": 1,
}


@pytest.fixture
def cells(tmp_path: Path) -> list[SweepCell]:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    return SweepLayout(tmp_path / "home", "trials").cells(load_cells(config))


def trial_of(cells: list[SweepCell], index: int = 0) -> CellTrial:
    trial = CellTrial.__new__(CellTrial)
    trial.setup({"cell": cells[index].digest}, cells={cell.digest: cell for cell in cells})
    return trial


def finish(trial: CellTrial) -> dict[str, Any]:
    """Return the result of the last step; compiling may take all of the first."""
    while True:
        result = trial.step()
        if result["done"]:
            return result


def test_one_process_runs_one_cell_after_the_other(cells: list[SweepCell]) -> None:
    trial = trial_of(cells)
    assert finish(trial) == {"progress": CellProgress(300, 300, 0, True), "done": True}
    assert trial.reset_config({"cell": cells[1].digest}) is True
    assert finish(trial)["done"]
    assert [cell.finished for cell in cells] == [True, True]


def test_a_cell_is_locked_from_its_first_step_until_it_ends(
    cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprl.platform.sweeps.trial.STEP_SECONDS", 0.0)
    trial = trial_of(cells)
    with FolderLock(cells[0].lock_path):
        pass
    assert not trial.step()["done"]
    with pytest.raises(UserError, match="is in use by process"):
        FolderLock(cells[0].lock_path).acquire()
    assert not cells[0].finished
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
    trial = trial_of(cells)
    result = trial.step()
    assert result["done"]
    assert result["cause"].startswith("OSError: [Errno 22] it is no regular file: ")
    assert "Traceback" in result["trace"]
    with FolderLock(cells[0].lock_path):
        pass


def test_a_plugins_mistake_is_one_too(cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(self: Experiment, seed_index: int) -> Learner:
        raise TypeError("learn() takes 1 positional argument")

    monkeypatch.setattr(Experiment, "build", mistaken)
    result = trial_of(cells).step()
    assert result["done"]
    assert result["cause"] == "TypeError: learn() takes 1 positional argument"


def test_tune_can_pickle_the_callback() -> None:
    class NotPicklable:
        def __reduce__(self) -> str:
            raise TypeError

    callback = ObserverCallback({}, NotPicklable())  # type: ignore[arg-type]
    assert type(pickle.loads(pickle.dumps(callback))) is tune.Callback


def test_a_finished_cell_is_reported_when_its_worker_has_the_next_one(cells: list[SweepCell]) -> None:
    told: list[str] = []
    callback = ObserverCallback({cell.digest: cell for cell in cells}, Told(told))  # type: ignore[arg-type]
    for index, cell in enumerate(cells):
        finish(trial_of(cells, index))
        ended = SimpleNamespace(config={"cell": cell.digest}, last_result={})
        callback.on_trial_complete(10 * (index + 1), [], ended)
    callback.on_step_end(11, [])
    assert told == []
    callback.on_step_end(15, [])
    assert told == [cells[0].digest]
    # Cells that are left when Tune ends are reported, too.
    callback.flush()
    callback.flush()
    assert told == [cell.digest for cell in cells]


class Told:
    """An observer that records finished cells and the errors of others."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def finished(self, cell: SweepCell) -> None:
        self._told.append(cell.digest)

    def failed(self, cell: SweepCell, cause: str, trace: str) -> None:
        self._told.append(cause)


def test_what_another_node_has_finished_may_be_seen_later(
    cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS caches for a while that a file does not exist."""
    monkeypatch.setattr("dprl.platform.sweeps.trial._LOOK_SECONDS", 0.0)
    told: list[str] = []
    callback = ObserverCallback({cell.digest: cell for cell in cells}, Told(told))  # type: ignore[arg-type]
    for cell in cells:
        callback.on_trial_complete(1, [], SimpleNamespace(config={"cell": cell.digest}, last_result={}))
    callback.on_step_end(2, [])
    assert told == []
    finish(trial_of(cells, 1))
    callback.on_step_end(3, [])
    callback.on_step_end(7, [])
    assert told == [cells[1].digest]
    # Tune has ended; wait for the other cell.
    finish(trial_of(cells, 0))
    callback.wait()
    callback.flush()
    assert told == [cells[1].digest, cells[0].digest]


def test_what_is_never_seen_here_has_failed(cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprl.platform.sweeps.trial._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("dprl.platform.sweeps.trial._UNSEEN_SECONDS", 0.05)
    told: list[str] = []
    callback = ObserverCallback({cell.digest: cell for cell in cells}, Told(told))  # type: ignore[arg-type]
    callback.on_trial_complete(1, [], SimpleNamespace(config={"cell": cells[0].digest}, last_result={}))
    assert told == []
    callback.wait()
    assert told == [
        f"it finished, but not in {cells[0].folder.path} of this machine: put DPRL_HOME on storage that all share"
    ]


def test_a_failed_cell_says_how_often_it_was_restarted(cells: list[SweepCell]) -> None:
    told: list[str] = []
    callback = ObserverCallback({cell.digest: cell for cell in cells}, Told(told))  # type: ignore[arg-type]
    lost = {"config": {"cell": cells[0].digest}, "pickled_error_file": None, "get_error": lambda: ValueError("lost")}
    for failures in (1, 3):
        callback.on_trial_error(1, [], SimpleNamespace(**lost, num_failures=failures))
    more = "; it was restarted 2 times, the limit; --max-restarts raises it"
    assert told == ["ValueError: lost", f"ValueError: lost{more}"]


def test_a_cell_works_ten_times_as_long_as_its_checkpoints_take(
    cells: list[SweepCell], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    run = SimpleNamespace(saving=0.0, advance=asked.append)
    monkeypatch.setattr("dprl.platform.sweeps.execution.CellRun", lambda *_, **__: run)
    locked = LockedCell(cells[0])
    locked.advance(1.0)
    run.saving = 2.0
    locked.advance(1.0)
    locked.close()
    assert asked == [1.0, 20.0]
