"""Users of a runner: each user's update is that of the module, independent of other users in the call."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from dprl.algorithms.dppg.on_rllib.algorithm import DPPGConfig, _ModulePolicy
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.envs import Episodes
from tests.algorithms.pgc_a3c.on_rllib.cases import Corridor, TwoHeads

NOBODY = np.zeros(0, dtype=np.int64)
WORLDS: dict[str, Any] = {
    "discrete": lambda _: Corridor(),
    "numbered from 3": lambda _: Corridor(start=3),
    "continuous": lambda _: Corridor(box=True),
}


def config(env: Any = WORLDS["discrete"], **training: Any) -> DPPGConfig:
    settings: dict[str, Any] = {"horizon": 5, "users_per_update": 12, "n_submissions": 24, **training}
    privacy: dict[str, Any] = {"model": "jdp", "epsilon": 1.0, "delta": 1e-6, "mechanism": "clipped_gaussian"}
    made: DPPGConfig = DPPGConfig().environment(env).privacy(**privacy, clip=2.0).training(**settings)
    return made


def place(made: DPPGConfig) -> tuple[Any, Any, Any]:
    """Return environment, module, and a function that makes more environments."""
    create: Any = made.env
    env: Any = create(None)
    spaces = {"default_policy": (env.observation_space, env.action_space)}
    spec = made.get_rl_module_spec(spaces=spaces, env=env)
    torch.manual_seed(0)
    return env, spec.build(), lambda: create(None)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("critic", ["device", "joint"])
def test_updates_are_gradients_of_the_module_and_of_one_user_each(world: str, critic: Any) -> None:
    made = config(WORLDS[world], critic=critic, discount=0.97)
    where = place(made)
    rollout, theta = made.rollout(*where, 6), read_parameters(where[1])
    episodes = rollout.play(1, NOBODY, sampled=True)
    found = rollout.updates(theta, episodes, made.learning_config())
    assert found.shape == (6, len(theta))
    assert np.linalg.norm(found[0]) > 0.0
    for user in range(6):
        alone: Any = [array[user : user + 1] for array in episodes]
        update, expected = rollout.updates(theta, Episodes(*alone), made.learning_config())[0], found[user]
        # Rounding of float32 sums grows with the gradient, and the draws change with every version of the sources.
        np.testing.assert_allclose(update, expected, rtol=0.0, atol=2e-6 * np.abs(expected).max())
    # By differences of the loss of one user, along the update.
    point, along = torch.as_tensor(theta), torch.as_tensor(found[0] / np.linalg.norm(found[0]))
    if critic == "device":
        policy, steps = rollout.policy, int(episodes.lengths[0])
        returns = np.array([sum(0.97**k * r for k, r in enumerate(episodes.rewards[0, t:steps])) for t in range(steps)])
        cut = 0.0 if episodes.ended[0] else episodes.rewards[0].sum() / steps / 0.03
        returns += np.array([0.97 ** (steps - t) * cut for t in range(steps)])
        gains = torch.as_tensor(returns - returns.mean())
        seen, actions = torch.as_tensor(episodes.observations[0, :steps]), torch.as_tensor(episodes.actions[0, :steps])

        def loss(at: torch.Tensor) -> float:
            return float(-(policy.evaluate(at.float(), seen, actions)[0] * gains).mean())

        slope = (loss(point + 1e-2 * along) - loss(point - 1e-2 * along)) / 2e-2
        assert slope == pytest.approx(float(np.linalg.norm(found[0])), rel=0.05)


def test_log_probabilities_are_the_modules_own() -> None:
    env = Corridor()
    module = TwoHeads(observation_space=env.observation_space, action_space=env.action_space)
    policy = _ModulePolicy(module, (2,), critic=True)
    seen, actions = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    theta = torch.as_tensor(read_parameters(module))
    log, entropy, values = policy.evaluate(theta, seen, actions)
    logits = torch.log_softmax(module.policy(seen), -1)
    assert torch.allclose(log, logits[torch.arange(4), actions])
    assert torch.allclose(entropy, -(logits.exp() * logits).sum(-1))
    assert torch.allclose(values, module.value(seen).squeeze(-1))


def test_an_environment_without_a_limit_needs_a_horizon() -> None:
    made = config(horizon=None)
    with pytest.raises(ValueError, match=r"^horizon must be given for an environment without a limit of steps"):
        made.dry_run(*place(made))


@pytest.mark.parametrize(("horizon", "steps"), [(None, 3), (2, 2), (5, 3)])
def test_episodes_end_at_the_nearer_of_two_limits(horizon: int | None, steps: int) -> None:
    made = config(lambda _: gym.make("CartPole-v1", max_episode_steps=3), horizon=horizon)
    assert made.rollout(*place(made), 2).play(0, NOBODY, sampled=True).rewards.shape == (2, steps)


def test_errors_of_an_environment_come_before_there_are_users() -> None:
    class Fails(Corridor):
        def step(self, action: Any) -> Any:
            raise ArithmeticError("as it is")

    made = config(lambda _: Fails())
    with pytest.raises(ArithmeticError, match="as it is"):
        made.dry_run(*place(made))


def test_evaluation_plays_the_most_probable_actions() -> None:
    made = config()
    found = made.greedy_returns(*place(made), [7] * 25)
    assert len(found) == 25
    assert found == made.greedy_returns(*place(made), [7] * 25)
    # Steps to the right are a little more probable everywhere, and two to four of them reach the end.
    env = Corridor()
    module = TwoHeads(observation_space=env.observation_space, action_space=env.action_space)
    last: Any = module.policy[2]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.0, 0.01]))
    first, _, create = place(made)
    assert min(made.greedy_returns(first, module, create, [7] * 25)) >= 4.0
