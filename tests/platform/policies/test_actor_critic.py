"""Learned parameters give the same actions in NumPy and in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dprl.envs import CartPoleGravity
from dprl.platform.policies import ActorCriticPolicy

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
