"""DPPG from a config to a loaded policy: a certificate, scores, and actions in the environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dprl
from dprl.platform.policies import ControlPolicy

CENTRAL = {"model": "jdp", "epsilon": 3.0, "delta": 1e-6, "mechanism": "clipped_gaussian", "clip": 2.0}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dprl.Sweep:
    return dprl.run(
        name="control",
        algorithm={"name": "dppg", "hidden": "linear", "users_per_update": 100, "learning_rate": 3.0},
        env=dprl.grid({"name": "control", "horizon": 100}, {"name": "control", "env_id": "Pendulum-v1", "horizon": 20}),
        privacy=CENTRAL,
        episodes=1500,
        seeds=2,
        storage=tmp_path_factory.mktemp("home"),
        quiet=True,
    )


def test_a_private_policy_balances_the_pole(found: dprl.Sweep) -> None:
    """An untrained policy has a score of about 20."""
    certificate = found.certificate(0)
    assert certificate["verdict"] == "holds"
    assert certificate["proved"]["epsilon_at_claimed_delta"] == pytest.approx(3.0, rel=1e-6)
    assert found.frame["evaluation"][0] > 60.0
    policy: Any = found.policy(0)
    assert isinstance(policy, ControlPolicy)
    env = policy.make_env()
    seen, _ = env.reset(seed=0)
    steps, ended = 0, False
    while not ended and steps < 100:
        seen, _, terminated, truncated, _ = env.step(policy(seen))
        ended, steps = terminated or truncated, steps + 1
    assert steps > 40
    assert policy.sample(seen) in (0, 1)
    with pytest.raises(ValueError, match="read-only"):
        policy.parameters[0] = 0.0


def test_actions_may_be_continuous(found: dprl.Sweep) -> None:
    policy: Any = found.policy(1)
    env = policy.make_env()
    seen, _ = env.reset(seed=0)
    for action in (policy(seen), policy.sample(seen)):
        assert env.action_space.contains(action)
    assert found.frame["evaluation"][1] < 0.0
    assert np.isfinite(found.records(1)["score"]).all()


def test_parameters_and_observations_that_do_not_fit_are_refused(found: dprl.Sweep) -> None:
    policy: Any = found.policy(0)
    with pytest.raises(ValueError, match="parameters must be 10 finite floats, got"):
        ControlPolicy(np.zeros(11), policy.env, np.random.default_rng(), policy.network)
    for wrong in (np.zeros((2, 4)), np.zeros(3), np.full(4, np.nan)):
        with pytest.raises(ValueError, match=r"observation must be one of CartPole-v1, finite numbers of shape \(4,\)"):
            policy(wrong)
    with pytest.raises(dprl.UserError, match=r"^seed: must be one of 0, 1, got 7"):
        found.policy(0, seed=7)


@pytest.mark.parametrize("hidden", ["", "64,,64", "0", "many", "5000", ",".join("9" * 9)])
def test_layers_that_cannot_be_made_out_are_refused(hidden: str) -> None:
    with pytest.raises(dprl.UserError, match=r"^algorithm.hidden: must be linear, or at most 8 numbers from 1 to 4096"):
        dprl.certify(algorithm={"name": "dppg", "hidden": hidden}, env="control", privacy=CENTRAL, episodes=400)
