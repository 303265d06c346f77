"""Users' updates: each is the gradient of its user's own loss and independent of other episodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from dprl.algorithms import DPPGConfig
from dprl.algorithms.dppg.network import Network
from dprl.algorithms.dppg.updates import log_probabilities, returns_to_go, updates
from dprl.envs import Control, Episodes

LOSS = DPPGConfig(discount=0.9, entropy_weight=0.01)
CASES: dict[str, tuple[str, bool, DPPGConfig]] = {
    "discrete": ("CartPole-v1", False, LOSS),
    "continuous": ("Pendulum-v1", False, LOSS),
    "joint critic": ("CartPole-v1", True, replace(LOSS, critic="joint", value_weight=0.5)),
    "no critic": ("CartPole-v1", False, replace(LOSS, critic="none")),
}


def played(env_id: str, critic: bool, n: int = 7) -> tuple[Network, np.ndarray, Episodes]:
    task = Control(env_id, horizon=30).build()
    sizes = task.observation_size, 5, task.n_actions or task.action_size
    network, rng = Network(sizes, task.n_actions == 0, critic), np.random.default_rng(1)
    theta = network.first(rng) + 0.3 * rng.standard_normal(network.dimension)
    return network, theta, task.play(task.vector(n), lambda seen: network.act(theta, seen, rng), 5)


def of_user(episodes: Episodes, user: int) -> Episodes:
    parts: Any = [array[user : user + 1] for array in episodes]
    return Episodes(*parts)


@pytest.mark.parametrize("case", CASES)
def test_an_update_depends_on_its_own_user_only(case: str) -> None:
    """Sensitivity rests on this: replacing one user changes one row."""
    env_id, critic, loss = CASES[case]
    network, theta, episodes = played(env_id, critic)
    together = updates(partial(log_probabilities, network), theta, episodes, loss)
    for user in range(len(episodes.lengths)):
        assert together[user] == pytest.approx(
            updates(partial(log_probabilities, network), theta, of_user(episodes, user), loss)[0], abs=1e-5
        )
    copies: Any = [array.copy() for array in episodes]
    other = Episodes(*copies)
    other.rewards[3], other.observations[3] = -other.rewards[3], 2.0 * other.observations[3]
    changed = np.abs(updates(partial(log_probabilities, network), theta, other, loss) - together).max(axis=1) > 0.0
    assert np.flatnonzero(changed).tolist() == [3]


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_is_that_of_policy_gradients(case: str) -> None:
    """Sum over steps of -(advantage) grad log pi, of the value's error and of the entropy, by autograd step by step."""
    env_id, critic, loss = CASES[case]
    network, theta, episodes = played(env_id, critic)
    found = updates(partial(log_probabilities, network), theta, episodes, loss)
    gains = returns_to_go(episodes, loss.discount)
    for user in range(2):
        length, point = int(episodes.lengths[user]), torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        own = gains[user, :length] - (gains[user, :length].mean() if loss.critic == "device" else 0.0)
        total = torch.zeros(())
        for t in range(length):
            action: Any = torch.as_tensor(episodes.actions[user, t])
            seen = torch.as_tensor(episodes.observations[user, t])
            log, entropy, value = log_probabilities(network, point, seen, action)
            advantage = float(own[t]) - (float(value.detach()) if loss.critic == "joint" else 0.0)
            error = loss.value_weight * (value - float(own[t])) ** 2
            total = total + error - advantage * log - loss.entropy_weight * entropy
        (total / length).backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        assert found[user] == pytest.approx(point.grad.numpy(), rel=2e-3, abs=2e-4)


def test_networks_of_numpy_and_torch_are_the_same() -> None:
    """Also where log deviations, the last parameters, are out of bounds."""
    for env_id, added in (("CartPole-v1", 0.0), ("Pendulum-v1", 0.0), ("Pendulum-v1", 9.0), ("Pendulum-v1", -9.0)):
        network, theta, episodes = played(env_id, critic=False)
        theta[-1] += added
        seen, rng = episodes.observations[:, 0], np.random.default_rng(0)
        outputs, logs = network.outputs(theta, seen)
        actions = outputs if network.continuous else np.arange(network.sizes[-1])
        log, *_ = log_probabilities(
            network, torch.as_tensor(theta), torch.as_tensor(seen[: len(actions)]).double(), torch.as_tensor(actions)
        )
        if network.continuous:
            expected = -(logs + 0.5 * np.log(2.0 * np.pi)).sum() * np.ones(len(seen))
        else:
            chances = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
            expected = np.diag(chances[: len(actions)])
        assert log.numpy() == pytest.approx(expected, abs=1e-5)
        assert network.act(theta, seen, None).shape == network.act(theta, seen, rng).shape
        assert len(theta) == network.dimension == len(network.first(rng))


def test_discrete_actions_have_the_probabilities_of_the_policy() -> None:
    """Share of action 1 in 40,000 draws, within 6 deviations."""
    network = Network((2, 3))
    theta, seen = np.linspace(-1.0, 1.0, network.dimension), np.ones((40_000, 2), dtype=np.float32)
    logits = network.outputs(theta, seen[:1])[0][0]
    chances = np.exp(logits) / np.exp(logits).sum()
    drawn = network.act(theta, seen, np.random.default_rng(3))
    for action, chance in enumerate(chances):
        assert abs((drawn == action).mean() - chance) < 6.0 * np.sqrt(chance * (1.0 - chance) / len(seen))


def test_returns_go_on_with_the_mean_reward_where_time_ran_out() -> None:
    rewards = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    shape = np.zeros((2, 3, 1), dtype=np.float32), np.zeros((2, 3), dtype=np.int64)
    episodes = Episodes(*shape, rewards, np.array([2, 3]), np.array([True, False]))
    assert returns_to_go(episodes, 0.5) == pytest.approx(np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 2.0]]))
    assert returns_to_go(episodes, 1.0) == pytest.approx(np.array([[3.0, 2.0, 0.0], [3.0, 2.0, 1.0]]))
