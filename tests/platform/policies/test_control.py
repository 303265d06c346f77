"""Policies of control tasks: DPPG from a config to actions, and learned parameters in NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dprl
from dprl.envs import CartPoleGravity
from dprl.platform.policies import ActorCriticPolicy, ControlPolicy

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


# Learned parameters give the same actions in NumPy and in torch.


PARAMETERS = np.random.default_rng(0).normal(size=112)
SEEN = np.random.default_rng(1).normal(size=(50, 4))


@pytest.fixture
def policy() -> ActorCriticPolicy:
    return ActorCriticPolicy(PARAMETERS, CartPoleGravity())


def torch_outputs(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits and values of a torch network with the policy's parameters."""
    layers = [torch.nn.Linear(*sizes, bias=False, dtype=torch.float64) for sizes in ((4, 16), (16, 2), (16, 1))]
    module = torch.nn.ModuleList(layers)
    torch.nn.utils.vector_to_parameters(torch.as_tensor(PARAMETERS), module.parameters())
    with torch.no_grad():
        hidden = torch.relu(layers[0](torch.as_tensor(observations)))
        return layers[1](hidden).numpy(), layers[2](hidden)[:, 0].numpy()


def test_it_is_the_network_of_torch(policy: ActorCriticPolicy) -> None:
    logits, values = torch_outputs(SEEN)
    np.testing.assert_allclose(policy.logits(SEEN), logits, rtol=1e-12)
    np.testing.assert_allclose(policy.value(SEEN), values, rtol=1e-12)
    np.testing.assert_allclose(policy.probabilities(SEEN), torch.softmax(torch.as_tensor(logits), 1), rtol=1e-12)
    actions = policy(SEEN)
    assert np.array_equal(actions, logits.argmax(axis=1))
    assert set(np.asarray(actions)) == {0, 1}
    assert [policy(one) for one in SEEN] == np.asarray(actions).tolist()
    assert type(policy(SEEN[0])) is int


def test_draws_have_the_probabilities() -> None:
    policy = ActorCriticPolicy(PARAMETERS, CartPoleGravity(), np.random.default_rng(3))
    chance = policy.probabilities(SEEN[0])[1]
    drawn = np.mean([policy.sample(SEEN[0]) for _ in range(2000)])
    assert abs(drawn - chance) < 4 * np.sqrt(chance * (1 - chance) / 2000)  # false alarms: 6e-5


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        (np.zeros(111), "7 per unit"),
        (np.zeros((7, 16)), "a vector of floats"),
        (np.zeros(112, dtype=np.int64), "a vector of floats"),
        (np.full(112, np.nan), "must be finite"),
        (np.zeros(0), "7 per unit"),
    ],
)
def test_other_parameters_are_refused_in_one_line(parameters: np.ndarray, told: str) -> None:
    with pytest.raises(ValueError, match=r"^parameters must be .*; ") as caught:
        ActorCriticPolicy(parameters, CartPoleGravity())
    assert told in str(caught.value)


@pytest.mark.parametrize("observation", [np.zeros(3), np.zeros((2, 2, 4)), 0.0])
def test_what_is_no_observation_is_refused(observation: object, policy: ActorCriticPolicy) -> None:
    with pytest.raises(ValueError, match=r"^observation must be floats of shape \(4,\) or \(n, 4\), got .*; "):
        policy(observation)  # type: ignore[arg-type]


def test_the_rl_module_has_the_same_parameters(policy: ActorCriticPolicy) -> None:
    module = policy.to_rl_module()
    flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(flat, PARAMETERS, rtol=1e-6)
    seen = torch.as_tensor(SEEN, dtype=torch.float32)
    logits = module.forward_inference({"obs": seen})["action_dist_inputs"].detach().numpy()
    np.testing.assert_allclose(logits, policy.logits(SEEN), rtol=1e-3, atol=1e-4)
