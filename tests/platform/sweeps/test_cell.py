"""A cell gives the same records bit for bit after any kill and resumption, and complete artifacts."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms import TabularMDPConfig
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.configs.memory import run_bytes, seeds_at_once
from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.summary import columns
from dprl.platform.sweeps.cell import BLOCKS, CellRun, block_ends
from dprl.privacy import NoiseConfig

pytestmark = pytest.mark.usefixtures("one_drawing")

ARTIFACTS = {"experiment.yaml", "certificate.json", "records.parquet", "policy.npz", "versions.json", "finished.json"}
MODELS: list[dict[str, Any]] = [
    {"model": "none"},
    {"model": "jdp", "epsilon": 5.0},
    {"model": "jdp", "epsilon": 5.0, "calibration": "printed"},
    {"model": "ldp", "epsilon": 5.0},
]


def experiment(privacy: dict[str, Any] | None = None, episodes: int = 1037, seeds: int = 2) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.05},
            "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
            "privacy": privacy or MODELS[1],
            "episodes": episodes,
            "seeds": seeds,
            "seed": 3,
        }
    )


def finish(run: CellRun, seconds: float = 60.0) -> pd.DataFrame:
    while not run.advance(seconds).finished:
        pass
    return pd.read_parquet(run.folder.records_file)


def numbers(folder: Path) -> dict[str, Any]:
    """All results that must be equal in two runs of one experiment."""
    with np.load(folder / "policy.npz") as policies:
        policy = {key: policies[key].tobytes() for key in policies.files}
    records = pd.read_parquet(folder / "records.parquet")
    return {
        "records": {column: records[column].to_numpy().tobytes() for column in columns(TabularMDPConfig.metrics)},
        "policy": policy,
        "certificate": (folder / "certificate.json").read_text(),
        "experiment": (folder / "experiment.yaml").read_text(),
    }


@pytest.mark.parametrize("privacy", MODELS, ids=lambda privacy: "-".join(map(str, privacy.values())))
def test_a_new_process_for_every_block_changes_no_bit(privacy: dict[str, Any], tmp_path: Path) -> None:
    one = experiment(privacy, episodes=41)
    finish(CellRun(one, CellFolder(tmp_path / "whole")))
    while not CellRun(one, CellFolder(tmp_path / "cut")).advance(0.0).finished:
        pass
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_seconds_of_a_cell_are_those_of_all_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by one at each reading."""
    ticks, processes = itertools.count(), 1
    monkeypatch.setattr("dprl.platform.sweeps.cell.time.perf_counter", lambda: float(next(ticks)))
    while not CellRun(experiment(episodes=6), CellFolder(tmp_path)).advance(0.0).finished:
        processes += 1
    assert processes == 12
    assert json.loads((tmp_path / "finished.json").read_text())["seconds"] >= processes


@pytest.mark.parametrize("privacy", MODELS[::3], ids=("none", "ldp"))
def test_threads_change_no_bit_however_many_and_wherever_a_run_is_cut(privacy: dict[str, Any], tmp_path: Path) -> None:
    one = experiment(privacy, episodes=41, seeds=5)
    finish(CellRun(one, CellFolder(tmp_path / "whole")))
    finish(CellRun(one, CellFolder(tmp_path / "threads"), cpus=3))
    blocks, threads = 0, iter([2, 4, 1, 3] * 100)
    while not CellRun(one, CellFolder(tmp_path / "cut"), cpus=next(threads)).advance(0.0).finished:
        blocks += 1
    assert blocks < len(block_ends(41)) * one.seeds - 1
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "threads") == numbers(tmp_path / "whole")


def test_seeds_learn_at_once_where_they_are_compiled_and_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [seeds_at_once(experiment(seeds=3), cpus) for cpus in (1, 2, 8)] == [1, 2, 3]
    assert seeds_at_once(dataclasses.replace(experiment(), noise=NoiseConfig(entropy="os")), 8) == 1
    monkeypatch.setattr("dprl.platform.configs.memory.machine_bytes", lambda: run_bytes(experiment(seeds=8)))
    assert seeds_at_once(experiment(seeds=8), 8) == 1


def test_every_advance_runs_one_block_at_least_and_tells_how_far_it_is(tmp_path: Path) -> None:
    run = CellRun(experiment(episodes=1000), CellFolder(tmp_path))
    assert run.progress.episodes_done == 0
    first = run.advance(0.0)
    assert (first.episodes_done, first.episodes_total, first.seed_index, first.finished) == (1, 2000, 0, False)
    for _ in block_ends(1000):
        last = run.advance(0.0)
    assert (last.episodes_done, last.seed_index) == (1001, 1)


def test_seeds_that_released_different_things_are_not_one_cell(tmp_path: Path) -> None:
    run = CellRun(experiment(episodes=6), CellFolder(tmp_path))
    finish(run)
    assert run.certificate() == json.loads(run.folder.certificate_file.read_text())
    second = run._certificates[1]
    run._certificates[1] = {**second, "proved": {**second["proved"], "pure_epsilon": 6.0}}
    with pytest.raises(RuntimeError, match="the seeds of one cell released different things"):
        run.certificate()


class Killed(BaseException):
    """Simulates a kill of the process."""


@pytest.mark.parametrize("moment", range(17))
def test_a_kill_at_any_write_is_survived(moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends with half of a file on disk: 11 checkpoints, 6 artifacts, the marker."""
    one = experiment(episodes=6)
    finish(CellRun(one, CellFolder(tmp_path / "whole")))
    folder, writes = tmp_path / "killed", 0

    def dies(self: Path, target: Path) -> Path:
        nonlocal writes
        writes += 1
        if writes > moment:
            os.truncate(self, self.stat().st_size // 2)
            shutil.copy(self, self.with_name(f".{target.name}.left.tmp"))
            raise Killed
        return original(self, target)

    original = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", dies)
        run = CellRun(one, CellFolder(folder))
        with pytest.raises(Killed):
            finish(run, seconds=0.0)
    assert not (folder / "finished.json").exists()
    finish(CellRun(one, CellFolder(folder)))
    assert numbers(folder) == numbers(tmp_path / "whole")
    assert {file.name for file in folder.iterdir()} == ARTIFACTS


def test_the_artifacts_are_complete_and_the_checkpoint_is_gone(tmp_path: Path) -> None:
    one = experiment()
    finish(CellRun(one, CellFolder(tmp_path)))
    assert {file.name for file in tmp_path.iterdir()} == ARTIFACTS
    (written,) = load_cells(tmp_path / "experiment.yaml")
    assert written == dataclasses.replace(one, name=f"try-{one.digest}")
    assert written.digest == one.digest
    assert json.loads((tmp_path / "certificate.json").read_text()) == one.certificate().to_dict()
    with np.load(tmp_path / "policy.npz") as policies:
        assert policies["policy"].shape == (2, 4, 3)
        assert policies["seed"].tolist() == [3, 4]
    versions = json.loads((tmp_path / "versions.json").read_text())
    named = {"python", "numpy", "numba", "ray", "mlflow", "dprl", "results_version", "cpu", "git_commit"}
    assert named <= set(versions)


def test_a_finished_cell_is_left_alone(tmp_path: Path) -> None:
    finish(CellRun(experiment(), CellFolder(tmp_path)))
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    again = CellRun(experiment(), CellFolder(tmp_path)).advance(0.0)
    assert (again.finished, again.episodes_done) == (True, again.episodes_total)
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before


def test_records_say_what_the_algorithm_did(tmp_path: Path) -> None:
    """The reference is a learner that runs block by block without the platform."""
    one = experiment(seeds=1)
    records = finish(CellRun(one, CellFolder(tmp_path)))
    learner, cumulative = one.build(0), 0.0
    assert list(records.columns) == columns(TabularMDPConfig.metrics)
    for row, before in zip(records.itertuples(), [0, *records["episode"]], strict=False):
        segment = learner.learn(row.episode - before)
        cumulative += segment["regret"]
        assert (row.regret, row.saturated) == (cumulative, segment["saturated"])
        assert row.regret_per_episode == segment["regret"] / (row.episode - before)
    assert records["seed"].unique().tolist() == [3]


def test_more_seeds_repeat_the_ones_that_were_there(tmp_path: Path) -> None:
    few = finish(CellRun(experiment(seeds=2), CellFolder(tmp_path / "few")))
    many = finish(CellRun(experiment(seeds=3), CellFolder(tmp_path / "many")))
    pd.testing.assert_frame_equal(many[many["seed"] < 5], few, check_exact=True)


@pytest.mark.parametrize("episodes", [2, 3, 199, 200, 201, 12345, 10**9])
def test_blocks_are_short_at_first_even_later_and_end_with_the_run(episodes: int) -> None:
    ends = block_ends(episodes)
    lengths = np.diff(ends, prepend=0)
    assert min(BLOCKS, episodes) // 2 <= len(ends) <= min(BLOCKS, episodes)
    assert (ends[0], ends[-1]) == (1, episodes)
    assert lengths.min() >= 1
    assert lengths.max() <= -(-episodes // (BLOCKS // 2))
    factor = episodes ** (1 / (BLOCKS // 2 - 1))
    assert (ends[1:] <= factor * ends[:-1] + 2).all()


def cut_checkpoint(folder: Path) -> str:
    file = folder / "state.npz"
    file.write_bytes(file.read_bytes()[:-40])
    return "state.npz"


def empty_checkpoint(folder: Path) -> str:
    (folder / "state.npz").write_bytes(b"")
    return "state.npz"


def arrays_that_do_not_fit(folder: Path) -> str:
    with np.load(folder / "state.npz") as file:
        arrays = {key: np.ravel(file[key])[:1] if key.startswith("learner/") else file[key] for key in file.files}
    np.savez(folder / "state.npz", **arrays)  # type: ignore[arg-type]  # mypy takes it for allow_pickle
    return "state.npz"


def checkpoint_of_another_cell(folder: Path) -> str:
    (folder / "state.npz").unlink()
    CellRun(experiment(episodes=999), CellFolder(folder)).advance(0.0)
    return "it is of cell"


DAMAGES = [cut_checkpoint, empty_checkpoint, arrays_that_do_not_fit, checkpoint_of_another_cell]


@pytest.mark.parametrize("damage", DAMAGES)
def test_cells_with_damaged_checkpoints_start_again_and_say_so(damage: Callable[[Path], str], tmp_path: Path) -> None:
    whole = finish(CellRun(experiment(), CellFolder(tmp_path / "whole")))
    folder = CellFolder(tmp_path / "cut")
    CellRun(experiment(), folder).advance(0.0)
    named = damage(folder.path)
    run = CellRun(experiment(), folder)
    assert run.progress.episodes_done == 0
    assert named in run.progress.restarted
    assert finish(run).equals(whole)


def test_a_checkpoint_with_other_blocks_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CellRun(experiment(), CellFolder(tmp_path)).advance(0.0)
    monkeypatch.setattr("dprl.platform.sweeps.cell.BLOCKS", 100)
    assert "blocks" in CellRun(experiment(), CellFolder(tmp_path)).progress.restarted


@pytest.mark.parametrize("damage", DAMAGES[:2])
def test_noise_that_cannot_be_drawn_again_is_no_reason_for_a_second_release(
    damage: Callable[[Path], str], tmp_path: Path
) -> None:
    secret = dataclasses.replace(experiment(), noise=NoiseConfig(arithmetic="exact", entropy="os"))
    CellRun(secret, CellFolder(tmp_path)).advance(0.0)
    damage(tmp_path)
    with pytest.raises(UserError, match=r"second release to the same users: restore .* from a backup, or delete it"):
        CellRun(secret, CellFolder(tmp_path))


def test_only_its_owner_may_read_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under jdp a checkpoint holds exact counts. Its temporary file is equally private."""
    modes: list[int] = []
    original = Path.replace

    def looks(self: Path, target: Path) -> Path:
        modes.append(stat.S_IMODE(self.stat().st_mode))
        return original(self, target)

    umask = os.umask(0o022)
    try:
        monkeypatch.setattr(Path, "replace", looks)
        run = CellRun(experiment(), CellFolder(tmp_path))
        run.advance(0.0)
        assert modes == [0o600]
        assert stat.S_IMODE(run.folder.state_file.stat().st_mode) == 0o600
        finish(run)
        assert stat.S_IMODE(run.folder.records_file.stat().st_mode) == 0o644
    finally:
        os.umask(umask)
