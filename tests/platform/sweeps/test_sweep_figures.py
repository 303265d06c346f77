"""Figures of a sweep show its current grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.sweeps.sweep import SweepOptions, SweepResult, run_sweep

MDP = {"name": "riverswim", "n_states": 3, "horizon": 2}
GAME = {"name": "random_game", "n_states": 2, "n_max_actions": 2, "n_min_actions": 2, "horizon": 2}


NONE = {"model": "none"}
JDP = {"model": "jdp", "epsilon": 1.0}


def cell(algorithm: str, env: dict[str, Any], privacy: dict[str, Any], seeds: int = 3) -> Experiment:
    settings = {"algorithm": {"name": algorithm}, "env": env, "privacy": privacy}
    return read_experiment({"name": "drawn", **settings, "episodes": 20, "seeds": seeds})


def run(home: Path, *cells: Experiment) -> SweepResult:
    return run_sweep(
        cells,
        SweepOptions(
            name="drawn",
            home=home,
            executor="process",
            address=None,
            tracking_uri=None,
            fresh=False,
            command="dprl run drawn.yaml",
        ),
    )


def figures(folder: Path) -> set[str]:
    """The sweep's figures except curves, each as PNG only."""
    assert [file.name for kind in ("pdf", "svg") for file in folder.glob(f"*.{kind}")] == []
    return {file.stem for file in folder.glob("*.png") if not file.stem.startswith("curves")}


def test_a_sweep_of_games_has_figures_of_gaps_until_its_grid_has_no_game(tmp_path: Path) -> None:
    result = run(tmp_path, cell("dp_nash_vi", GAME, JDP))
    assert figures(result.folder) == {"frontier", "smallest_gap", "exploitability"}
    client = MlflowClient(result.tracking_uri)
    (parent,) = (run for run in client.search_runs(["1"]) if "mlflow.parentRunId" not in run.data.tags)
    logged = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"summary.csv", "frontier.png", "smallest_gap.png"} <= logged
    # The finished cell is read again, and drawn beside a new one without gaps.
    result = run(tmp_path, cell("dp_nash_vi", GAME, JDP), cell("private_ucb_vi", MDP, NONE))
    assert figures(result.folder) == {"frontier", "smallest_gap", "exploitability"}
    assert result.summary["smallest_gap"].isna().tolist() == [False, True]
    result = run(tmp_path, cell("private_ucb_vi", MDP, NONE))
    assert figures(result.folder) == set()
