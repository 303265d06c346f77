"""DPPG on Ray: the same bits with any number of runners, checkpoints, the certificate, learning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.on_rllib import DPPG, DPPGConfig
from dprl.privacy.threat_models import RUNNERS
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
GAUSSIAN: dict[str, Any] = {"delta": 1e-6, "mechanism": "clipped_gaussian", "clip": 2.0}
MODELS: dict[str, dict[str, Any]] = {
    "jdp": {"model": "jdp", "epsilon": 1.0, **GAUSSIAN},
    "ldp": {"model": "ldp", "epsilon": 8.0},
    "none": {"model": "none", "clip_norm": "l2", "clip": 2.0},
}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A Ray cluster of this machine alone."""
    start_ray()
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of ledgers."""
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    return tmp_path


def config(model: str = "jdp", runners: int = 0, **training: Any) -> DPPGConfig:
    settings: dict[str, Any] = {
        "n_submissions": 120,
        "users_per_update": 40,
        "submissions_per_iteration": 80,
        "horizon": 50,
    }
    made: DPPGConfig = (
        DPPGConfig()
        .environment("CartPole-v1")
        .privacy(**MODELS[model])
        .training(**(settings | training))
        .env_runners(num_env_runners=runners, num_cpus_per_env_runner=0.5)
        .resources(num_cpus_for_main_process=0.5)
    )
    return made


def trained(settings: DPPGConfig) -> tuple[DPPG, list[dict[str, Any]]]:
    algorithm = settings.build_algo()
    results = [algorithm.train()]
    while not results[-1]["done"]:
        results.append(algorithm.train())
    return algorithm, results


def parameters_of(settings: DPPGConfig) -> Float64Array:
    algorithm, _ = trained(settings)
    found = algorithm.parameters
    algorithm.stop()
    return found


@pytest.mark.parametrize("model", MODELS)
def test_any_number_of_runners_gives_the_same_bits(model: str) -> None:
    expected = parameters_of(config(model))
    for runners in (1, 2):
        assert np.array_equal(parameters_of(config(model, runners)), expected)


def test_a_central_run_tells_what_it_did_and_is_certified(home: Path) -> None:
    algorithm, results = trained(config().evaluation(evaluation_interval=1, evaluation_duration=3))
    told = results[-1]["dppg"]
    assert (told["submissions"], told["lost"], told["updates"], told["agents_charged"]) == (120, 0, 3, 120)
    assert told["epsilon"] == pytest.approx(1.0, abs=1e-6)
    assert 8.0 <= told["score"] <= 50.0
    assert results[-1]["evaluation"]["env_runners"]["num_episodes"] == 3
    certificate = algorithm.certificate().to_dict()
    assert (certificate["algorithm"], certificate["trust_model"]) == ("dppg", "jdp")
    assert (certificate["users"], certificate["verdict"]) == (120, "holds")
    assert RUNNERS in certificate["excluded_channels"]
    saved = algorithm.save_to_path(home / "checkpoint")
    assert json.loads((Path(saved) / "certificate.json").read_text())["users"] == 120
    output = algorithm.get_module().forward_inference({"obs": torch.zeros(1, 4)})
    assert output["action_dist_inputs"].shape == (1, 2)
    algorithm.stop()


@pytest.mark.parametrize("entropy", ["seed", "os"])
def test_a_checkpoint_is_continued_with_fresh_users_and_fresh_noise(home: Path, entropy: str) -> None:
    settings = config().privacy(**MODELS["jdp"], entropy=entropy)
    algorithm = settings.build_algo()
    algorithm.train()
    saved = algorithm.save_to_path(home / "checkpoint")
    before = algorithm.parameters
    algorithm.train()
    after = algorithm.parameters
    algorithm.stop()
    again = DPPG.from_checkpoint(saved)
    assert np.array_equal(again.parameters, before)
    again.train()
    assert again.submissions == 120
    assert again.certificate().to_dict()["users"] == 160  # those asked after the checkpoint are not asked again
    # The noise of a round is far larger than its updates, so equal noise would give nearly equal parameters.
    assert np.linalg.norm(again.parameters - after) > 0.5 * np.linalg.norm(after - before)
    again.stop()


def test_it_learns_to_balance() -> None:
    settings = config("none", n_submissions=3000, users_per_update=100, submissions_per_iteration=1000, horizon=200)
    algorithm, _ = trained(settings.training(halving=1000.0).evaluation(evaluation_duration=20))
    reached = algorithm.evaluate()["env_runners"]["episode_return_mean"]
    algorithm.stop()
    assert reached > 100.0
