"""Contract of every algorithm whose agents send gradients; everything in ALGORITHMS is tested."""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.envs import CONTROLS, TASKS, Env, EnvConfig
from dprl.privacy import (
    CentralGradientPrivacy,
    GradientPrivacyConfig,
    LedgerError,
    LocalGradientPrivacy,
    NoGradientPrivacy,
    Streams,
)
from dprl.privacy.randomness.settings import NoiseConfig

N = 40
SETTINGS: dict[str, dict[str, Any]] = {"dppg": {"users_per_update": 6, "hidden": "4"}}
NAMES = [name for name, config in ALGORITHMS.items() if config.releases == "gradients"]
PRIVACY: dict[str, GradientPrivacyConfig] = {
    "none": NoGradientPrivacy(),
    "clipped_laplace": LocalGradientPrivacy(5.0),
    "projected_random_sign": LocalGradientPrivacy(5.0, mechanism="projected_random_sign"),
    "privunit": LocalGradientPrivacy(5.0, mechanism="privunit"),
    "three submissions": LocalGradientPrivacy(6.0, submissions=3),
    "trusted server": CentralGradientPrivacy(5.0, submissions=2),
}

# Of each setting of an algorithm, another value and the others that let it matter.
LOCAL = {"local_epochs": 2}
CHANGES: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {
    "dppg": {
        "learning_rate": (1.0, {}), "users_per_update": (7, {}), "halving": (20.0, {}), "hidden": ("5", {}),
        "discount": (0.5, {}), "entropy_weight": (0.1, {}), "critic": ("none", {}),
        "value_weight": (0.9, {"critic": "joint"}), "local_epochs": (2, {}), "local_rate": (0.2, LOCAL),
        "ratio_clip": (1e-6, LOCAL),
    },
    "pgc_a3c": {
        "learning_rate": (0.1, {}), "buffer_size": (2, {}), "halving": (20.0, {}), "staleness": (2, {}),
        "discount": (0.5, {}),
        "value_weight": (0.1, {}), "entropy_weight": (0.5, {}), "exploration": (0.1, {}), "fading": (20.0, {}),
        "exploration_floor": (0.9, {}), "acting": ("sampled", {}), "reward": ("literal", {}),
        "bootstrap": ("printed", {}), "differentiate": (True, {}), "initial": ("glorot", {}),
        "initial_scale": (0.5, {}), "target": (5.0, {}), "reports": ("noise", {}),
    },
}  # fmt: skip


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PRIVACY)
def privacy(request: pytest.FixtureRequest) -> GradientPrivacyConfig:
    return PRIVACY[request.param]


def env_of(name: str) -> Env:
    specs: list[type[EnvConfig[Any]]] = [*TASKS.values(), *CONTROLS.values()]
    built: list[Env] = [spec().build() for spec in specs]
    return next(env for env in built if isinstance(env, ALGORITHMS[name].plays))


def learner(
    name: str, privacy: GradientPrivacyConfig, seed: int = 0, noise: NoiseConfig | None = None, **changes: Any
) -> Any:
    config: Any = ALGORITHMS[name](**{**SETTINGS.get(name, {}), **changes})
    streams = Streams(seed, "contract") if noise is None else Streams(seed, "contract", noise)
    env = env_of(name)
    return config.build(env, config.privatizer(env, privacy, N, streams), N, streams)


def same(one: Any, other: Any) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(ours[key].tobytes() == theirs[key].tobytes() for key in ours)


def test_the_config_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    config: Any = ALGORITHMS[name]()
    assert config.name == name
    assert config == ALGORITHMS[name]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "other"


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1"])
def test_numbers_out_of_range_are_refused_in_one_line(name: str, value: object) -> None:
    config: Any = ALGORITHMS[name]
    hints = typing.get_type_hints(config)
    keys = [field.name for field in dataclasses.fields(config) if hints[field.name] in (int, float)]
    assert len(keys) > 5
    for key in keys:
        with pytest.raises(ValueError, match=f"^{key} must ") as caught:
            config(**{key: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["none", "clipped_laplace"])
def test_a_run_too_short_for_an_update_is_refused(name: str, model: str) -> None:
    key = "users_per_update" if name == "dppg" else "buffer_size"
    enough: dict[str, Any] = {key: N}
    learner(name, PRIVACY[model], **enough)
    with pytest.raises(ValueError, match=f"^{key} must be at most the number of episodes, got {N + 1} with {N}: no "):
        learner(name, PRIVACY[model], **{**enough, key: N + 1})


def test_a_run_is_its_seed_however_it_is_cut(name: str, privacy: GradientPrivacyConfig) -> None:
    whole, cut, resumed, other = (learner(name, privacy, seed) for seed in (0, 0, 0, 1))
    whole.learn(N)
    other.learn(N)
    cut.learn(13)
    resumed.load_state_dict(cut.state_dict())
    for run in (cut, resumed):
        run.learn(20)
        run.learn(N - 33)
        assert same(whole, run)
    assert not same(whole, other)
    assert whole.episodes_done == N


def test_what_is_reported_is_what_is_declared(name: str, privacy: GradientPrivacyConfig) -> None:
    segment = learner(name, privacy).learn(N)
    assert segment.episodes == N
    assert set(segment.metrics) == {metric.name for metric in ALGORITHMS[name].metrics}
    assert all(isinstance(value, float) and not np.isnan(value) for value in segment.metrics.values())


def test_every_setting_changes_a_run_and_padding_only_its_time(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[name])}  # type: ignore[arg-type]
    assert fields == {"padded", *CHANGES[name]}

    def results(**changes: Any) -> tuple[dict[str, float], dict[str, bytes]]:
        run = learner(name, PRIVACY["clipped_laplace"], **changes)
        metrics = run.learn(N).metrics
        return metrics, {key: array.tobytes() for key, array in run.policies.items()}

    ignored = [
        key for key, (value, base) in CHANGES[name].items() if results(**base, **{key: value}) == results(**base)
    ]
    assert not ignored
    assert results(padded=True) == results()


def test_policies_are_finite_copies(name: str, privacy: GradientPrivacyConfig) -> None:
    run = learner(name, privacy)
    run.learn(N)
    for array in run.policies.values():
        assert np.isfinite(array).all()
        array[:] = 0.0
    assert all(array.any() for array in run.policies.values())


def test_every_agent_is_charged_before_anybody_acts(name: str, privacy: GradientPrivacyConfig) -> None:
    run = learner(name, privacy)
    run.learn(7)
    submissions = getattr(privacy, "submissions", 1)
    assert run.privatizer.charged == 7
    assert run.privatizer.ledger.users_charged == min(7, -(-N // submissions))
    with pytest.raises(ValueError, match="n must"):
        run.learn(N)
    run.learn(N - 7)
    with pytest.raises(LedgerError):
        run.privatizer.lease(1)


def test_the_certificate_holds_and_names_what_is_open(name: str, privacy: GradientPrivacyConfig) -> None:
    run = learner(name, privacy)
    run.learn(N)
    told = run.certificate().to_dict()
    assert told["algorithm"] == name
    assert told["verdict"] == ("unbounded" if privacy.model == "none" else "holds")
    assert told["excluded_channels"]


def test_a_state_of_another_run_is_refused_in_one_line(name: str, privacy: GradientPrivacyConfig) -> None:
    run = learner(name, privacy)
    run.learn(5)
    state = run.state_dict()
    for wrong in ({}, {key: value[np.newaxis] for key, value in state.items()}):
        with pytest.raises(ValueError, match=re.compile(r"^[^\n]*; (resume|start)[^\n]*$")):
            learner(name, privacy).load_state_dict(wrong)
    with pytest.raises(ValueError, match=r"^[^\n]*$"):
        learner(name, privacy, seed=1).load_state_dict(state)


def test_noise_of_the_operating_system_does_not_come_again(name: str) -> None:
    privacy = PRIVACY["clipped_laplace"]
    one, other = (learner(name, privacy, noise=NoiseConfig(entropy="os")) for _ in range(2))
    one.learn(N)
    other.learn(N)
    assert any(one.policies[key].tobytes() != other.policies[key].tobytes() for key in one.policies)
    with pytest.raises(LedgerError, match="its noise must stay secret"):
        one.state_dict()
