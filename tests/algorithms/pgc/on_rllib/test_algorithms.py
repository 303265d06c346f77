"""PGC-A3C and DPPG on Ray: equal bits with any number of runners, checkpoints, certificates, what leaves a runner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.on_rllib import DPPG, DPPGConfig
from dprl.algorithms.pgc.journaled_privatizer import JOURNAL
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.algorithms.pgc_a3c.on_rllib import PGC, PGCConfig
from dprl.privacy import LedgerError
from dprl.privacy.threat_models import DURATIONS, ROUNDS, RUNNERS
from tests.algorithms.pgc_a3c.on_rllib.cases import SECRET, Broken, Corridor, TwoHeads
from tests.on_ray import start_ray

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
JDP: dict[str, Any] = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "mechanism": "clipped_gaussian", "clip": 2.0}
LDP: dict[str, Any] = {"model": "ldp", "epsilon": 5.0}


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


def pgc(runners: int = 0, agents_per_call: int | None = None, **training: Any) -> PGCConfig:
    settings: dict[str, Any] = {"n_submissions": 300, "submissions_per_iteration": 150} | training
    made: PGCConfig = (
        PGCConfig()
        .privacy(**LDP)
        .training(**settings)
        .env_runners(num_env_runners=runners, agents_per_call=agents_per_call)
        .resources(num_cpus_for_main_process=0.5)
    )
    return made


def corridor(env: type[Corridor] = Corridor, runners: int = 0) -> PGCConfig:
    spec = RLModuleSpec(module_class=TwoHeads)
    made: PGCConfig = pgc(runners).environment(env).rl_module(rl_module_spec=spec).training(staleness=8)
    return made


def dppg(runners: int = 0, privacy: dict[str, Any] | None = None, **training: Any) -> DPPGConfig:
    settings: dict[str, Any] = {"n_submissions": 120, "users_per_update": 40, "submissions_per_iteration": 80}
    made: DPPGConfig = (
        DPPGConfig()
        .environment("CartPole-v1")
        .privacy(**(privacy or JDP))
        .training(**({**settings, "horizon": 50} | training))
        .env_runners(num_env_runners=runners, num_cpus_per_env_runner=0.5)
        .resources(num_cpus_for_main_process=0.5)
    )
    return made


def trained(settings: Any) -> tuple[Any, list[dict[str, Any]]]:
    algorithm = settings.build_algo()
    results = [algorithm.train()]
    while not results[-1]["done"]:
        results.append(algorithm.train())
    return algorithm, results


def parameters_of(settings: Any) -> Float64Array:
    algorithm, _ = trained(settings)
    try:
        found: Float64Array = algorithm.parameters
        return found
    finally:
        algorithm.stop()


@pytest.mark.parametrize(("staleness", "buffer_size"), [(0, 1), (8, 100)])
def test_any_number_of_runners_gives_the_bits_of_one_process(staleness: int, buffer_size: int) -> None:
    box = {"staleness": staleness, "buffer_size": buffer_size}
    settings = pgc(**box)
    config, task, streams = settings.learning_config(), settings.cart_pole().build(), settings.streams()
    privatizer = config.privatizer(task, settings.trust_model(), settings.n_submissions, streams)
    learner = config.build(task, privatizer, settings.n_submissions, streams)
    learner.learn(settings.n_submissions)
    for runners, agents_per_call in ((0, None), (1, min(7, staleness + buffer_size)), (2, None)):
        assert np.array_equal(parameters_of(pgc(runners, agents_per_call, **box)), learner.policy)


@pytest.mark.parametrize(
    "privacy",
    [
        JDP,
        JDP | {"counter": "none"},
        JDP | {"sampling": "poisson", "population": 150},
        LDP | {"epsilon": 8.0},
        {"model": "none", "clip_norm": "l2", "clip": 2.0},
    ],
    ids=["jdp", "independent", "poisson", "ldp", "none"],
)
def test_any_number_of_runners_gives_the_same_bits(privacy: dict[str, Any]) -> None:
    expected = parameters_of(dppg(0, privacy))
    for runners in (1, 2):
        assert np.array_equal(parameters_of(dppg(runners, privacy)), expected)


@pytest.mark.parametrize("env", [Corridor, Broken])
def test_any_environment_and_module_can_be_trained(env: type[Corridor]) -> None:
    assert np.array_equal(parameters_of(corridor(env)), parameters_of(corridor(env, runners=2)))


@pytest.mark.parametrize(
    ("settings", "name", "users", "updates", "scores", "channel"),
    [(pgc, "pgc", 300, 300, (1.0, 200.0), DURATIONS), (dppg, "dppg", 120, 3, (8.0, 50.0), RUNNERS)],
    ids=["pgc", "dppg"],
)
def test_a_run_tells_what_it_did_and_is_certified(
    settings: Any, name: str, users: int, updates: int, scores: tuple[float, float], channel: str, home: Path
) -> None:
    algorithm, results = trained(settings().evaluation(evaluation_interval=1, evaluation_duration=3))
    told = results[-1][name]
    assert [result["done"] for result in results] == [False, True]
    assert (told["submissions"], told["lost"], told["agents_charged"]) == (users, 0, users)
    assert told["updates"] == updates
    assert told["epsilon"] <= {"pgc": 5.0, "dppg": 1.0}[name] * (1.0 + 1e-12)
    assert scores[0] <= told["score"] <= scores[1]
    assert results[-1]["evaluation"]["env_runners"]["num_episodes"] == 3
    shown = results[-1]["env_runners"]
    assert (shown["episode_return_mean"], told["failed"], told["users_left"] > 0) == (told["score"], 0, True)
    assert results[-1]["num_env_steps_sampled_lifetime"] >= users * scores[0]
    certificate = algorithm.certificate().to_dict()
    assert (certificate["users"], certificate["verdict"]) == (users, "holds")
    assert channel in certificate["excluded_channels"]
    assert any("raw scores" in excluded for excluded in certificate["excluded_channels"])
    assert len(list(home.glob(f"ledgers/*/{JOURNAL}"))) == 1
    output = algorithm.get_module().forward_inference({"obs": torch.zeros(1, 4)})
    assert output["action_dist_inputs"].shape == (1, 2)
    with pytest.raises(RuntimeError, match=f"all {users} submissions are applied"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize(
    ("settings", "kind", "cut", "users", "asked"),
    [
        (pgc, PGC, 150, 300, 450),
        (dppg, DPPG, 80, 120, 160),
        (lambda: dppg(privacy={**JDP, "entropy": "os"}), DPPG, 80, 120, 160),
    ],
    ids=["pgc", "dppg", "dppg os"],
)
def test_a_checkpoint_is_continued_with_fresh_users_and_fresh_noise(
    settings: Any, kind: Any, cut: int, users: int, asked: int, home: Path
) -> None:
    algorithm = settings().build_algo()
    algorithm.train()
    saved = algorithm.save_to_path(home / "checkpoint")
    before = algorithm.parameters
    algorithm.train()
    after = algorithm.parameters
    algorithm.stop()
    again = kind.from_checkpoint(saved)
    assert np.array_equal(again.parameters, before)
    assert again.submissions == cut
    again.train()
    assert again.submissions == users
    assert again.certificate().users == asked  # those asked after the checkpoint are not asked again
    # The noise of a round is far larger than its updates, so equal noise would give nearly equal parameters.
    assert np.linalg.norm(again.parameters - after) > 0.5 * np.linalg.norm(after - before)
    again.stop()
    module = RLModule.from_checkpoint(Path(saved) / "learner_group" / "learner" / "rl_module" / "default_policy")
    assert np.array_equal(read_parameters(module), before.astype(np.float32))
    assert json.loads((Path(saved) / "certificate.json").read_text())["users"] == cut


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
    settings = pgc(n_submissions=100, submissions_per_iteration=100, buffer_size=100).schedule(round_seconds=0.5)
    algorithm, results = trained(settings)
    assert results[0]["pgc"]["submissions_per_s"] <= 100.0
    excluded = algorithm.certificate().to_dict()["excluded_channels"]
    assert ROUNDS in excluded
    assert DURATIONS not in excluded
    algorithm.stop()


def test_callbacks_of_the_algorithm_are_called_and_see_covered_numbers_only() -> None:
    seen: dict[str, Any] = {}
    made = pgc().privacy(**LDP, release_scores="none")
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
    told = {"submissions", "lost", "updates", "submissions_per_s", "driver_share", "agents_charged", "users_left"}
    told.add("epsilon")
    assert set(result["pgc"]) == told
    assert not [name for name in result.get("env_runners", {}) if "episode" in name]


def test_sampled_users_are_charged_at_once_and_a_checkpoint_asks_nobody_again(home: Path) -> None:
    algorithm = dppg(privacy=JDP | {"sampling": "poisson", "population": 150}).build_algo()
    told = algorithm.train()["dppg"]
    assert (told["submissions"], told["lost"], told["agents_charged"], told["users_left"]) == (80, 0, 150, 0)
    assert algorithm.certificate().to_dict()["verdict"] == "holds"
    saved, before = algorithm.save_to_path(home / "checkpoint"), algorithm.parameters
    algorithm.stop()
    again = DPPG.from_checkpoint(saved)
    assert np.array_equal(again.parameters, before)
    with pytest.raises(LedgerError):
        again.train()
    again.stop()


def test_dppg_learns_to_balance() -> None:
    privacy = {"model": "none", "clip_norm": "l2", "clip": 2.0}
    settings = dppg(0, privacy, n_submissions=3000, users_per_update=100, submissions_per_iteration=1000, horizon=200)
    algorithm, _ = trained(settings.evaluation(evaluation_duration=20))
    reached = algorithm.evaluate()["env_runners"]["episode_return_mean"]
    algorithm.stop()
    assert reached > 100.0
