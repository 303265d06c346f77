"""Users of a runner: each user's update is that of the module, independent of other users in the call."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from dprl.algorithms.dppg.network import Network
from dprl.algorithms.dppg.on_rllib.algorithm import DPPGConfig, _ModulePolicy
from dprl.algorithms.dppg.updates import gradients
from dprl.algorithms.pgc.on_rllib.parameters import read_parameters
from dprl.envs import Episodes
from tests.algorithms.pgc_a3c.on_rllib.cases import Corridor, TwoHeads

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
def test_updates_are_gradients_of_the_module_and_of_one_user_each(world: str) -> None:
    made = config(WORLDS[world], discount=0.97)
    where = place(made)
    rollout, theta = made.rollout(*where), read_parameters(where[1])
    episodes = rollout.play(6, theta, np.random.default_rng(1), sampled=True, users=False)
    found = gradients(rollout.policy, theta, episodes, rollout.gains(episodes), 0.0)
    assert found.shape == (6, len(theta))
    assert np.linalg.norm(found[0]) > 0.0
    for user in range(6):
        alone = Episodes._make(array[user : user + 1] for array in episodes)
        update, expected = gradients(rollout.policy, theta, alone, rollout.gains(alone), 0.0)[0], found[user]
        # Rounding of float32 sums grows with the gradient, and the draws change with every version of the sources.
        np.testing.assert_allclose(update, expected, rtol=0.0, atol=2e-6 * np.abs(expected).max())
    # By differences of the loss of one user, along the update.
    point, along = torch.as_tensor(theta), torch.as_tensor(found[0] / np.linalg.norm(found[0]))
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


@pytest.mark.parametrize("world", WORLDS)
def test_updates_are_computed_on_one_device(world: str) -> None:
    """Torch's device meta, which has no data, stands for CUDA; products of matrices do not check it."""
    env, module, create = place(config(WORLDS[world]))
    module.register_buffer("scale", torch.ones(1))
    inner = module.forward_train
    module.forward_train = lambda batch: {key: part * module.scale for key, part in inner(batch).items()}
    rollout, theta = config(WORLDS[world]).rollout(env, module, create), read_parameters(module)
    episodes, task = rollout.play(6, theta, np.random.default_rng(1), sampled=True, users=False), rollout.task
    network = Network((task.observation_size, 4, task.n_actions or task.action_size), task.n_actions == 0)
    for policy, point in ((rollout.policy, theta), (network, network.first(np.random.default_rng(0)))):
        with pytest.raises(NotImplementedError, match="no data"):
            gradients(policy, point, episodes, rollout.gains(episodes), 0.0, "meta")


@pytest.mark.parametrize(("gpus", "present"), [(0, True), (0.5, False), (0.5, True)])
def test_only_runners_with_a_gpu_compute_there(gpus: float, present: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = config().env_runners(num_gpus_per_env_runner=gpus)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    assert (made.rollout(*place(made)).torch_device == "cuda") == (gpus > 0 and present)


def test_log_probabilities_are_the_modules_own() -> None:
    env = Corridor()
    module = TwoHeads(observation_space=env.observation_space, action_space=env.action_space)
    policy = _ModulePolicy(module, (2,))
    seen, actions = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    log, entropy = policy.evaluate(torch.as_tensor(read_parameters(module)), seen, actions)
    logits = torch.log_softmax(module.policy(seen), -1)
    assert torch.allclose(log, logits[torch.arange(4), actions])
    assert torch.allclose(entropy, -(logits.exp() * logits).sum(-1))


def test_an_environment_without_a_limit_needs_a_horizon() -> None:
    made = config(horizon=None)
    with pytest.raises(ValueError, match=r"^horizon must be given for an environment without a limit of steps"):
        made.dry_run(*place(made))


@pytest.mark.parametrize(("horizon", "steps"), [(None, 3), (2, 2), (5, 3)])
def test_episodes_end_at_the_nearer_of_two_limits(horizon: int | None, steps: int) -> None:
    made = config(lambda _: gym.make("CartPole-v1", max_episode_steps=3), horizon=horizon)
    where = place(made)
    theta, rng = read_parameters(where[1]), np.random.default_rng(0)
    assert made.rollout(*where).play(2, theta, rng, sampled=True, users=True).rewards.shape == (2, steps)


def test_errors_of_an_environment_come_before_there_are_users() -> None:
    class Fails(Corridor):
        def step(self, action: Any) -> Any:
            raise ArithmeticError("as it is")

    made = config(lambda _: Fails())
    with pytest.raises(ArithmeticError, match="as it is"):
        made.dry_run(*place(made))


def test_evaluation_plays_the_most_probable_actions() -> None:
    made = config()
    found = made.returns(*place(made), [7] * 25, sampled=False)
    assert len(found) == 25
    assert found == made.returns(*place(made), [7] * 25, sampled=False)
    assert found != made.returns(*place(made), [7] * 25, sampled=True)
    # Steps to the right are a little more probable everywhere, and two to four of them reach the end.
    env = Corridor()
    module = TwoHeads(observation_space=env.observation_space, action_space=env.action_space)
    last: Any = module.policy[2]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.0, 0.01]))
    first, _, create = place(made)
    assert min(made.returns(first, module, create, [7] * 25, sampled=False)) >= 4.0


class FailsForOne(Corridor):
    """Raises, breaks its observation or its reward for one user of three."""

    def step(self, action: Any) -> Any:
        seen, paid, *rest = super().step(action)
        kind = self.options.get("agent", 0) % 3
        if kind == 1:
            raise ArithmeticError("private")
        return (["text"] if kind == 2 else seen), paid, *rest


def test_a_user_whose_environment_raises_sends_zeros_and_changes_no_other_update() -> None:
    found = []
    for env in (Corridor, FailsForOne):
        made = config(lambda _, env=env: env())
        where = place(made)
        rollout, theta = made.rollout(*where), read_parameters(where[1])
        found.append(rollout.report(6, theta, np.random.default_rng(1), [3, 1, 2, 6, 4, 5]))
    (updates, played), (with_faults, of_faults) = found
    assert np.flatnonzero(of_faults[:, 1] == 0).tolist() == [1, 2, 4, 5]
    assert not with_faults[[1, 2, 4, 5]].any()
    assert not of_faults[[1, 2, 4, 5]].any()
    np.testing.assert_allclose(with_faults[[0, 3]], updates[[0, 3]], atol=1e-6)
    assert np.array_equal(of_faults[[0, 3]], played[[0, 3]])
    assert np.linalg.norm(updates, axis=1) == pytest.approx(1.0)  # each is scaled to the clip


def test_batch_normalisation_is_refused() -> None:
    made = config()
    env, module, create = place(made)
    module.norm = torch.nn.BatchNorm1d(2)
    with pytest.raises(ValueError, match=r"^rl_module must have no BatchNorm"):
        made.rollout(env, module, create)
