"""The algorithm on Ray: equal bits with any number of runners, checkpoints, sweeps, evaluation, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.algorithms.pgc_a3c.on_rllib import PGC, PGCConfig
from dprl.privacy.threat_models import DURATIONS, ROUNDS
from tests.algorithms.pgc_a3c.on_rllib.cases import SECRET, Broken, Corridor, TwoHeads
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray cluster of this machine alone."""
    start_ray()
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def home(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of ledgers."""
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    return tmp_path


def config(runners: int = 0, agents_per_call: int | None = None, **training: Any) -> PGCConfig:
    settings: dict[str, Any] = {"n_submissions": 300, "submissions_per_iteration": 150} | training
    made: PGCConfig = (
        PGCConfig()
        .privacy(model="ldp", epsilon=5.0)
        .training(**settings)
        .env_runners(num_env_runners=runners, agents_per_call=agents_per_call)
        .resources(num_cpus_for_main_process=0.5)
    )
    return made


def corridor(env: type[Corridor] = Corridor, runners: int = 0) -> PGCConfig:
    spec = RLModuleSpec(module_class=TwoHeads)
    made: PGCConfig = config(runners).environment(env).rl_module(rl_module_spec=spec).training(staleness=8)
    return made


def trained(settings: PGCConfig) -> tuple[PGC, list[dict[str, Any]]]:
    algorithm = settings.build_algo()
    results = [algorithm.train()]
    while not results[-1]["done"]:
        results.append(algorithm.train())
    return algorithm, results


def parameters_of(settings: PGCConfig) -> Float64Array:
    algorithm, _ = trained(settings)
    try:
        found: Float64Array = algorithm.parameters
        return found
    finally:
        algorithm.stop()


def in_one_process(settings: PGCConfig) -> Float64Array:
    """Return the parameters of the learner without Ray."""
    box, task, streams = settings.learning_config(), settings.cart_pole().build(), settings.streams()
    privatizer = box.privatizer(task, settings.trust_model(), settings.n_submissions, streams)
    learner = box.build(task, privatizer, settings.n_submissions, streams)
    learner.learn(settings.n_submissions)
    return learner.policy


@pytest.mark.parametrize(("staleness", "buffer_size"), [(0, 1), (8, 100)])
def test_any_number_of_runners_gives_the_bits_of_one_process(staleness: int, buffer_size: int) -> None:
    box = {"staleness": staleness, "buffer_size": buffer_size}
    expected = in_one_process(config(**box))
    for runners, agents_per_call in ((0, None), (1, min(7, staleness + buffer_size)), (2, None)):
        assert np.array_equal(parameters_of(config(runners, agents_per_call, **box)), expected)


def test_a_run_tells_what_it_did(home: Path) -> None:
    algorithm, results = trained(config())
    told = results[-1]["pgc"]
    assert (told["submissions"], told["lost"], told["updates"], told["agents_charged"]) == (300, 0, 300, 300)
    assert told["epsilon"] <= 5.0
    assert 1.0 <= told["score"] <= 200.0
    assert [result["done"] for result in results] == [False, True]
    certificate = algorithm.certificate().to_dict()
    assert (certificate["users"], certificate["verdict"]) == (300, "holds")
    assert any("raw scores" in channel for channel in certificate["excluded_channels"])
    assert DURATIONS in certificate["excluded_channels"]
    assert len(list(home.glob(f"ledgers/*/{JOURNAL}"))) == 1
    with pytest.raises(RuntimeError, match="all 300 submissions are applied"):
        algorithm.train()
    algorithm.stop()


def test_a_checkpoint_is_continued_with_fresh_agents(home: Path) -> None:
    algorithm = config().build_algo()
    algorithm.train()
    saved = algorithm.save_to_path(home / "checkpoint")
    before = algorithm.parameters
    algorithm.train()
    algorithm.stop()
    again = PGC.from_checkpoint(saved)
    assert np.array_equal(again.parameters, before)
    assert again.submissions == 150
    again.train()
    assert again.submissions == 300
    # Those asked after the checkpoint are not asked again.
    assert again.certificate().users == 450
    again.stop()
    module = RLModule.from_checkpoint(Path(saved) / "learner_group" / "learner" / "rl_module" / "default_policy")
    assert np.array_equal(read_parameters(module), before.astype(np.float32))
    assert json.loads((Path(saved) / "certificate.json").read_text())["users"] == 150


@pytest.mark.parametrize("env", [Corridor, Broken])
def test_any_environment_and_module_can_be_trained(env: type[Corridor]) -> None:
    assert np.array_equal(parameters_of(corridor(env)), parameters_of(corridor(env, runners=2)))


def test_a_runner_gives_out_nothing_but_replies() -> None:
    algorithm = corridor(Broken).build_algo()
    algorithm.train()
    runner = algorithm.env_runner
    with pytest.raises(RuntimeError, match=r"^a PrivateEnvRunner gives out no trajectories"):
        runner.sample()
    assert runner.get_metrics() == {}
    assert runner.get_state() == {}
    assert SECRET not in json.dumps(algorithm.train(), default=str)
    algorithm.stop()


def test_replies_leave_at_whole_multiples_of_the_round() -> None:
    settings = config(n_submissions=100, submissions_per_iteration=100, buffer_size=100).schedule(round_seconds=0.5)
    algorithm, results = trained(settings)
    assert results[0]["pgc"]["submissions_per_s"] <= 100.0
    excluded = algorithm.certificate().to_dict()["excluded_channels"]
    assert ROUNDS in excluded
    assert DURATIONS not in excluded
    algorithm.stop()


def test_callbacks_of_the_algorithm_are_called_and_see_covered_numbers_only() -> None:
    seen: dict[str, Any] = {}
    made = config().privacy(model="ldp", epsilon=5.0, release_scores="none")
    made = made.evaluation(evaluation_interval=1, evaluation_duration=1).callbacks(
        on_algorithm_init=lambda algorithm, **_: seen.update(init=algorithm),
        on_train_result=lambda **given: seen.update(trained=given["result"]),
        on_evaluate_start=lambda algorithm, **_: seen.update(start=algorithm),
        on_evaluate_end=lambda **given: seen.update(evaluated=given["evaluation_metrics"]),
    )
    algo = made.build_algo()
    result = algo.train()
    algo.stop()
    assert set(seen) == {"init", "trained", "start", "evaluated"}
    assert seen["evaluated"]["env_runners"]["num_episodes"] == 1
    assert seen["trained"]["pgc"] == result["pgc"]
    told = {"submissions", "lost", "updates", "submissions_per_s", "driver_share", "agents_charged", "epsilon"}
    assert set(result["pgc"]) == told
    assert not [name for name in result.get("env_runners", {}) if "episode" in name]
