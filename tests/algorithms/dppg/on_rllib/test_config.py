"""DPPG's settings on RLlib: refusals, and names of the random streams."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import gymnasium as gym
import pytest

from dprl.algorithms.dppg.algorithm import DPPGConfig as Learning
from dprl.algorithms.dppg.on_rllib.algorithm import DPPGConfig
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters
from dprl.privacy.threat_models import CARRIED, DURATIONS, RUNNERS, TIMING_DETAILS

CENTRAL: dict[str, Any] = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "mechanism": "clipped_gaussian"}


def config(privacy: dict[str, Any] | None = None, env: Any = "CartPole-v1", **training: Any) -> DPPGConfig:
    made: DPPGConfig = DPPGConfig().environment(env).privacy(**(privacy or CENTRAL)).training(**training)
    return made


def test_training_takes_every_setting_but_the_network() -> None:
    config().validate()
    assert config().learning_config() == Learning()
    config(users_per_update=30, n_submissions=3000).validate()
    assert set(DPPGConfig.learning_names()) == {entry.name for entry in fields(Learning)} - {"hidden"}
    config(horizon=30).validate()
    with pytest.raises(TypeError, match=r"^unknown argument of training\(\) 'hidden'"):
        config(hidden="linear")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (config(n_submissions=1001), "^n_submissions must be a multiple of users_per_update, 200, with model 'jdp'"),
        (config(submissions_per_iteration=300), "^submissions_per_iteration must be a multiple of users_per_update"),
        (config(critic="whatever"), "^critic must be one of none, device"),
        (config(horizon=0), "^horizon must be a whole number from 1 to 100000"),
        (config().env_runners(agents_per_call=201), "^agents_per_call must be at most users_per_update, 200"),
        (config({**CENTRAL, "model": "shuffle"}), "^model must be one of none, jdp, ldp, got 'shuffle'"),
        (config({**CENTRAL, "sampling": "poisson", "population": 9000}), None),
        (config(env=None), "^env must be one environment with one agent"),
        (config().env_runners(observation_filter="MeanStdFilter"), "^observation_filter must be left at"),
        (config().training(), None),
    ],
)
def test_settings_that_do_not_fit_are_refused(made: DPPGConfig, message: str | None) -> None:
    if message is None:
        made.validate()
        return
    with pytest.raises(ValueError, match=message):
        made.validate()


def test_a_local_run_may_end_within_a_round() -> None:
    config({"model": "ldp", "epsilon": 1.0}, n_submissions=1001).validate()


def test_the_certificate_tells_where_updates_without_noise_are() -> None:
    assert config().uncovered_channels == (DURATIONS, CARRIED, RUNNERS)
    assert config({"model": "ldp", "epsilon": 1.0}, padded=True).uncovered_channels == (TIMING_DETAILS, CARRIED)


def test_runners_change_no_random_stream_and_settings_do() -> None:
    one, other = config().env_runners(num_env_runners=0), config().env_runners(num_env_runners=2)
    assert one.streams().context == other.streams().context
    assert one.call_size == other.call_size == 50
    others = (config(learning_rate=1.0), config(horizon=50), config().env_runners(agents_per_call=10))
    assert one.streams().context not in {each.streams().context for each in others}


def test_gymnasium_s_vectorised_environments_take_the_place_of_single_ones() -> None:
    made, env = config(horizon=5), gym.make("CartPole-v1")
    module = made.get_rl_module_spec(env=env, inference_only=False).build()
    entries = [each.rollout(env, module, lambda: env).task.entry.id for each in (made, config(env=lambda _: env))]
    assert entries == ["CartPole-v1", "dprl/user-v0"]


def test_the_layers_of_the_default_module_are_those_of_model_config() -> None:
    env, sizes = gym.make("CartPole-v1"), []
    for settings in ({}, {"fcnet_hiddens": [16]}):
        spec = config().rl_module(model_config=settings).get_rl_module_spec(env=env, inference_only=False)
        sizes.append(n_parameters(spec.build()))
    assert sizes == [4 * 64 + 64 + 64 * 64 + 64 + 3 * 64 + 3, 4 * 16 + 16 + 3 * 16 + 3]
    with pytest.raises(ValueError, match="setting of model_config 'fcnet_hidden'; did you mean 'fcnet_hiddens'"):
        config().rl_module(model_config={"fcnet_hidden": [16]}).validate()
