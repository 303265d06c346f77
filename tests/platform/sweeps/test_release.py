"""With `release: true` nothing is written that the certificate does not cover, whatever the algorithm measures."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from dprl.algorithms import ALGORITHMS, Metric
from dprl.algorithms.base import REGRET, SATURATED
from dprl.envs import ENVIRONMENTS
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.errors import UserError
from dprl.platform.results.cells import read_cells
from dprl.platform.results.layout import SweepLayout
from dprl.platform.sweeps.sweep import SweepOptions, run_sweep
from dprl.platform.tracking.store import EXPERIMENT, TrackingStore
from dprl.privacy import PRIVACY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_drawing")

SENTINEL = 987654.321
"""The value of every uncovered metric."""
SIMULATED = [
    name
    for name, config in ALGORITHMS.items()
    if not hasattr(config.plays, "holds_records") and config.releases != "statistics"
]
"""test_logged_vi.py and dppg/test_cloning.py in tests/algorithms test releases of logs."""
FIRST_OF_QUERIES = {ALGORITHMS[name].releases: name for name in reversed(SIMULATED)}.values()
COVERED = {
    # Exact values of published policies in the public simulator.
    *("regret", "exploitability", "value", "optimum_gap"),
    # Functions of released counts or statistics only.
    *("saturated", "gap", "smallest_gap", "infeasible", "indefinite", "lower_bound"),
    # A function of rewards that devices estimate from released corrections; 0 where rewards are public.
    "reward_error",
}
ENVS: dict[str, dict[str, Any]] = {
    "finite MDP": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "game": {"name": "random_game", "n_states": 2, "horizon": 2},
    "network": {"name": "network_mdp", "horizon": 3},
    "control": {"name": "cartpole_gravity"},
    "task": {"name": "control", "horizon": 20},
}
PRIVACY: dict[str, list[dict[str, Any]]] = {
    "counts": [
        {"model": "jdp", "epsilon": 5.0},
        {"model": "shuffle", "epsilon": 5.0, "delta": 1e-6, "smallest_block": 2, "mechanism": "discrete_laplace"},
        {"model": "ldp", "epsilon": 5.0},
    ],
    "gradients": [
        {"model": "jdp", "epsilon": 5.0, "release_scores": "none"},
        {"model": "ldp", "epsilon": 5.0, "release_scores": "none"},
    ],
    "statistics": [],
}


def released(algorithm: str) -> Iterator[Experiment]:
    """Each kind of released cell, by algorithm."""
    config = ALGORITHMS[algorithm]
    env = next(env for env in ENVS.values() if issubclass(ENVIRONMENTS[env["name"]].builds, config.plays))
    size = "users_per_update" if algorithm == "dppg" else "buffer_size"
    padded = {"padded": True, size: 2} if config.releases == "gradients" else {}
    for privacy in PRIVACY[config.releases]:
        yield read_experiment(
            {"name": "out", "algorithm": {"name": algorithm, **padded}, "env": env, "privacy": privacy}
            | {"episodes": 12, "seeds": 2, "release": True}
        )


@dataclass
class Measured:
    """A learner whose uncovered metrics are all SENTINEL."""

    learner: Any
    uncovered: set[str]

    def learn(self, n: int) -> dict[str, float]:
        segment: dict[str, float] = self.learner.learn(n)
        assert self.uncovered <= set(segment)
        return segment | dict.fromkeys(self.uncovered, SENTINEL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)


@pytest.fixture
def _sentinels(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Experiment.build

    def measured(self: Experiment, *seed_and_journal: Any) -> Any:
        uncovered = {metric.name for metric in self.algorithm.metrics if not metric.covered}
        return Measured(build(self, *seed_and_journal), uncovered)

    monkeypatch.setattr(Experiment, "build", measured)


def holds_sentinel(file: Path) -> bool:
    """Whether a file has SENTINEL as text or as a float of either byte order."""
    content = file.read_bytes()
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            content = b"".join(arrays[key].tobytes() for key in arrays.files)
    elif file.suffix == ".parquet":
        content = pd.read_parquet(file).to_csv().encode()
    return any(part in content for part in (b"987654", struct.pack("<d", SENTINEL), struct.pack(">d", SENTINEL)))


def recorded(home: Path) -> str:
    """All data that MLflow received for the runs."""
    client = MlflowClient(TrackingStore.choose(home, None).uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert runs
    return json.dumps([[run.data.metrics, run.data.params, run.data.tags] for run in runs])


@pytest.mark.usefixtures("_sentinels")
@pytest.mark.parametrize("algorithm", SIMULATED)
def test_a_release_writes_nothing_that_is_not_covered(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = list(released(algorithm))
    # All algorithms of a query release the same files, except for uncovered metrics.
    if algorithm not in FIRST_OF_QUERIES and all(metric.covered for metric in ALGORITHMS[algorithm].metrics):
        cells = cells[-1:]
    options = SweepOptions("out", tmp_path, "process", None, None, False, "dprl sweep out.yaml")
    result = run_sweep(cells, options)
    assert result.failed == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"records.parquet", "summary.csv", "certificate.json", "report.html"} <= {file.name for file in files}
    assert [file for file in files if holds_sentinel(file)] == []
    told = "".join(capsys.readouterr())
    uncovered = {metric.name for metric in ALGORITHMS[algorithm].metrics if not metric.covered}
    assert "987654" not in told + recorded(tmp_path)
    assert not uncovered & {name for file in files if file.suffix == ".parquet" for name in pd.read_parquet(file)}
    names = {str(name) for name in result.summary} | set(json.loads(recorded(tmp_path))[0][0])
    assert not [name for name in names for one in uncovered if name == one or name.startswith(f"{one}_")]
    assert {cell.metric is None for cell in read_cells([SweepLayout(tmp_path, "out")])} == {bool(uncovered)}


@pytest.mark.parametrize("algorithm", SIMULATED)
def test_every_metric_is_covered_for_a_reason_or_is_written_by_simulations_only(algorithm: str) -> None:
    config = ALGORITHMS[algorithm]
    assert {metric.name for metric in config.metrics if metric.covered} <= COVERED
    for cell in released(algorithm):
        assert {metric.name for metric in cell.metrics} <= COVERED
        assert replace(cell, release=False).metrics == tuple(config.metrics)


def test_a_metric_is_released_only_if_it_is_declared_covered() -> None:
    found = next(released("private_ucb_vi"))
    metrics = (*found.algorithm.metrics, Metric("mine", "last"), Metric("public", "last", covered=True))
    cell = replace(found, algorithm=type("Mine", (type(found.algorithm),), {"metrics": metrics})())
    assert {metric.name for metric in cell.metrics} == {"regret", "saturated", "public"}


def test_a_release_without_a_covered_headline_has_a_report_also_if_it_is_saturated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ALGORITHMS["private_ucb_vi"], "metrics", (replace(REGRET, covered=False), SATURATED))
    cell = next(released("private_ucb_vi"))
    assert {metric.name for metric in cell.metrics} == {"saturated"}
    result = run_sweep([cell], SweepOptions("out", tmp_path, "process", None, None, False, "dprl sweep out.yaml"))
    assert result.failed == []
    assert result.summary["note"][0].startswith("bonus saturated")
    assert (result.folder / "report.html").is_file()


def test_every_trust_model_that_can_be_released_is_here() -> None:
    for releases, settings in PRIVACY_SETTINGS.items():
        # The noise of statistics is proved for real numbers, but a release needs integers.
        refused = {"none", "jdp", "ldp"} if releases == "statistics" else {"none"}
        assert {privacy["model"] for privacy in PRIVACY[releases]} == set(settings.KEYS) - refused


def test_a_release_of_gradients_must_not_tell_how_long_episodes_are() -> None:
    cell = next(released("pgc_a3c")).as_mapping()
    cell["algorithm"]["padded"] = False
    with pytest.raises(UserError, match=r"^release: must be false with algorithm\.padded: false, got True; ") as caught:
        read_experiment(cell)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 300
