"""Experiments as trials of a user's Tuner: the records of a sweep, checkpoints, certificates and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

import dprl
from dprl.platform.errors import UserError
from dprl.platform.results.cell_folder import CellFolder
from dprl.privacy.threat_models import of_trials
from tests.on_ray import start_ray

BASE: dict[str, Any] = {
    "name": "tuned",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "privacy": {"model": "jdp", "epsilon": 1.0},
    "episodes": 300,
    "seed": 5,
}
OTHERS = "other trials of the same search"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path / "trials"))


def trial_of(config: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Return a trial of this process."""
    return dprl.tune.trainable(BASE, **settings)(config=config or {})


def finish(trial: Any) -> list[dict[str, Any]]:
    """Return all that a trial reports."""
    results = [trial.train()]
    while not results[-1]["done"]:
        results.append(trial.train())
    return results


def certificate_of(trial: Any) -> dict[str, Any]:
    """Return the certificate in the folder of a trial of this process."""
    return certificate_in(trial.logdir)


def certificate_in(folder: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(folder) / "certificate.json").read_text())
    return found


@pytest.mark.parametrize("privacy", [{"model": "jdp", "epsilon": 2.0}, {"model": "none"}], ids=["jdp", "none"])
def test_a_trial_reports_the_records_of_a_sweep(tmp_path: Path, privacy: dict[str, Any]) -> None:
    trial = trial_of({"privacy": privacy})
    reported = pd.DataFrame(finish(trial))
    sweep = dprl.run({**BASE, "privacy": privacy, "seeds": 1}, storage=tmp_path / "home", quiet=True)
    records = sweep.records()
    assert reported[list(records.columns)].equals(records)
    certificate = certificate_of(trial)
    extra = certificate["excluded_channels"][len(sweep.certificate()["excluded_channels"]) :]
    assert [channel.startswith(OTHERS) for channel in extra] == ([] if privacy["model"] == "none" else [True])
    same = ("excluded_channels", "checksum")
    assert {**certificate, **{key: sweep.certificate()[key] for key in same}} == sweep.certificate()


def test_dotted_keys_override_the_config() -> None:
    experiment = dprl.tune.trainable(BASE).experiment(
        {"algorithm.bonus_scale": np.float64(0.5), "privacy.epsilon": 3, "episodes": np.int64(9), "privacy.delta": 1e-6}
    )
    assert (experiment.algorithm.bonus_scale, experiment.privacy.epsilon, experiment.episodes) == (0.5, 3.0, 9)
    assert (experiment.seeds, experiment.seed) == (1, 5)


def test_an_experiment_is_a_base_too() -> None:
    one = dprl.experiments(BASE, memory=0.5, seeds=3)[0]
    made = dprl.tune.trainable(one)
    assert made.experiment({"seed": 7}).memory == 0.5
    assert made.default_resource_request({}).bundles == [{"CPU": 1, "memory": 0.5 * 10**9}]
    with pytest.raises(UserError, match="config: must be one experiment"):
        dprl.tune.trainable([one])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"algorithm.bonus_scal": 1.0}, "algorithm.bonus_scal: unknown key; did you mean 'bonus_scale'?"),
        ({"epsilon": 1.0}, "epsilon: unknown key; did you mean 'privacy.epsilon'?"),
        (
            {"algorithm.learning_rate": 1.0},
            "algorithm.learning_rate: does not belong to name private_ucb_vi, got 1.0; ",
        ),
        ({"seeds": 3}, "seeds: must not be in param_space: a trial has one seed, got 3; vary seed instead"),
        ({"name.x": 3}, "name.x: name must be a mapping to have keys, got 'tuned'; set name itself"),
        ({"privacy.epsilon": -1.0}, "privacy.epsilon: must"),
        (
            {"privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.0}]}},
            "config: must be one cell",
        ),
    ],
    ids=str,
)
def test_a_mistake_of_the_first_trial_is_refused_at_once(config: dict[str, Any], message: str) -> None:
    made = dprl.tune.trainable(BASE)
    with pytest.raises(UserError) as refusal:
        made.default_resource_request(config)
    assert str(refusal.value).startswith(message)
    # In a later trial the error is that trial's own.
    made.default_resource_request({})
    assert made.default_resource_request(config).bundles == [{"CPU": 1}]


def test_a_saved_trial_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = finish(trial_of())
    first, second = trial_of(), trial_of()
    for _ in range(30):
        first.train()
    first.save(str(tmp_path / "checkpoint"))
    assert certificate_of(first)["users"] == whole[29]["episode"]
    Path(second.logdir).chmod(0o755)
    second.restore(str(tmp_path / "checkpoint"))
    assert Path(second.logdir).stat().st_mode & 0o777 == 0o700  # checkpoints may hold exact sums
    for trial in (first, second):
        rest = finish(trial)
        assert [result["regret"] for result in rest] == [result["regret"] for result in whole[30:]]
        assert certificate_of(trial)["users"] == 299
        assert CellFolder(Path(trial.logdir)).results().records["episode"].iloc[-1] == 300


def test_a_stopped_trial_has_the_certificate_of_its_users() -> None:
    trial = trial_of()
    results = [trial.train() for _ in range(40)]
    trial.cleanup()
    folder = CellFolder(Path(trial.logdir))
    assert certificate_of(trial)["users"] == results[-1]["episode"] < 299
    assert folder.results().records["regret"].tolist() == [result["regret"] for result in results]
    assert folder.experiment().episodes == 300
    assert not folder.state_file.exists()


def test_one_process_runs_one_trial_after_the_other(tmp_path: Path) -> None:
    trial = trial_of()
    trial.train()
    first = Path(trial.logdir)
    assert trial.reset({"privacy.epsilon": 3.0})
    assert certificate_in(first)["users"] == 1
    finish(trial)
    assert certificate_of(trial)["claimed"]["epsilon"] == 3.0


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    """Population-based training would load one."""
    trial = trial_of()
    trial.train()
    trial.save(str(tmp_path / "checkpoint"))
    with pytest.raises(UserError, match=r"checkpoint: must be one of the same settings.*population-based training"):
        trial_of({"privacy.epsilon": 3.0}).restore(str(tmp_path / "checkpoint"))


def test_noise_of_the_operating_system_is_not_continued(tmp_path: Path) -> None:
    noise = {"arithmetic": "exact", "entropy": "os"}
    trial = trial_of(noise=noise)
    trial.train()
    trial.save(str(tmp_path / "checkpoint"))
    assert certificate_of(trial)["users"] == 1
    assert CellFolder(Path(trial.logdir)).state_file.exists()  # a restart is noticed, and its journal is the same one
    with pytest.raises(UserError, match=r"noise.entropy: must be 'seed' to continue .*got 'os'; use a scheduler"):
        trial_of(noise=noise).restore(str(tmp_path / "checkpoint"))


def test_raw_metrics_are_named_as_not_covered() -> None:
    raw, others = of_trials(["score", "score_last10"])
    assert raw == (
        "choosing and stopping trials by raw metrics (score, score_last10): epsilon is infinite for that choice"
    )
    assert others.startswith(OTHERS)
    assert of_trials([]) == (others,)


@pytest.fixture
def cluster() -> Iterator[None]:
    start_ray(num_cpus=2)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.cluster
def test_asha_on_ray(cluster: None, tmp_path: Path) -> None:
    """Each trial ends with a certificate, stopped or not."""
    tuner = tune.Tuner(
        dprl.tune.trainable(
            name="search",
            algorithm={"name": "dppg", "users_per_update": 20},
            env={"name": "control", "env_id": "CartPole-v1", "horizon": 20},
            privacy={"model": "ldp", "epsilon": 4.0},
            episodes=60,
        ),
        param_space={"algorithm.learning_rate": tune.grid_search([0.1, 1.0]), "seed": tune.grid_search([0, 1])},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", scheduler=ASHAScheduler(time_attr="episode", max_t=60, grace_period=10)
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "tune"), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    certificates = [certificate_in(result.path) for result in results]
    users = [result.metrics["episode"] for result in results]
    assert [certificate["users"] for certificate in certificates] == users
    assert max(users) == 60
    for certificate in certificates:
        assert any("by raw metrics (score, " in channel for channel in certificate["excluded_channels"])


@pytest.mark.slow
@pytest.mark.cluster
def test_unknown_keys_end_the_tuner_before_a_trial_begins(cluster: None, tmp_path: Path) -> None:
    tuner = tune.Tuner(
        dprl.tune.trainable(BASE),
        param_space={"privacy.epsilo": tune.grid_search([1.0, 2.0])},
        run_config=tune.RunConfig(storage_path=str(tmp_path / "tune"), verbose=0),
    )
    with pytest.raises(UserError, match=r"privacy\.epsilo: unknown key; did you mean 'epsilon'"):
        tuner.fit()
