"""Cells whose noise comes from the operating system, and cells that are audited."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun


def experiment(**changes: Any) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.05},
            "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
            "privacy": {"model": "jdp", "epsilon": 5.0},
            "episodes": 300,
            "seeds": 2,
            **changes,
        }
    )


def finished(cell: Experiment, folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    run = CellRun(cell, CellFolder(folder))
    while not run.finished:
        run.advance(60.0)
    return pd.read_parquet(folder / "records.parquet"), json.loads((folder / "certificate.json").read_text())


def test_noise_of_the_operating_system_is_never_written_down_and_its_seed_starts_over(tmp_path: Path) -> None:
    cell = experiment(noise={"entropy": "os"})
    run = CellRun(cell, CellFolder(tmp_path))
    while len(run._policies) == 0 or len(run._rows) % len(run.ends) == 0:
        run.advance(0.0)
    done = [row[:] for row in run._rows[: len(run.ends)]]
    with np.load(tmp_path / "state.npz") as state:
        assert not [key for key in state.files if key.startswith("learner/")]
        assert len(state["rows"]) == len(run.ends)
    again = CellRun(cell, CellFolder(tmp_path))
    assert again._rows == done
    assert again._learner is None
    assert again.progress.restarted == (
        "seed 2 was cut and starts again with other noise: a second release to its users"
    )
    while not again.finished:
        again.advance(60.0)
    records = pd.read_parquet(tmp_path / "records.parquet")
    assert sorted(records["seed"].unique()) == [0, 1]


def test_a_cut_between_seeds_is_no_second_release(tmp_path: Path) -> None:
    """All that was released is in the checkpoint; and seeded noise is drawn again, wherever the cut is."""
    secret, seeded = experiment(noise={"entropy": "os"}), experiment()
    for name, cell, ended in (("os", secret, True), ("seed", seeded, False)):
        folder = CellFolder(tmp_path / name)
        folder.path.mkdir()
        run = CellRun(cell, folder)
        while not run._rows or (len(run._rows) % len(run.ends) == 0) != ended:
            run.advance(0.0)
        assert CellRun(cell, folder).progress.restarted == ""


def test_a_cut_among_the_artifacts_is_no_second_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before the disk was full may have been seen."""
    cell = experiment(release=True, seeds=1)

    def full(*_: object) -> dict[str, bytes]:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("dprl.platform.sweeps.cell.cell_figures", full)
        with pytest.raises(OSError, match="No space left"):
            CellRun(cell, CellFolder(tmp_path)).advance(60.0)
    names = ("records.parquet", "policy.npz", "certificate.json")
    seen = {name: (tmp_path / name).read_bytes() for name in names}
    assert CellRun(cell, CellFolder(tmp_path)).advance(60.0).finished
    assert {name: (tmp_path / name).read_bytes() for name in names} == seen


def test_two_runs_with_noise_of_the_operating_system_differ_and_hold(tmp_path: Path) -> None:
    one, certificate = finished(experiment(release=True), tmp_path / "one")
    other, _ = finished(experiment(release=True), tmp_path / "other")
    assert not one["regret"].equals(other["regret"])
    assert certificate["verdict"] == "holds"
    assert {noise["entropy"] for noise in certificate["noise"]} == {"os"}


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_draws")
def test_an_audit_is_attached_to_the_certificate_and_changes_no_record(tmp_path: Path) -> None:
    plain, before = finished(experiment(), tmp_path / "plain")
    audited, after = finished(experiment(audit=True), tmp_path / "audited")
    assert plain.equals(audited)
    assert before["audit"] is None
    assert after["audit"]["verdict"] == "not refuted"
    assert 0.0 < after["audit"]["epsilon_lb"] <= 5.0
    assert {key: value for key, value in after.items() if key != "audit"} == {
        key: value for key, value in before.items() if key != "audit"
    }
