"""Agents of a runner: in compiled lanes, or in any Gymnasium environment with a torch RLModule."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.base import Batch, LocalAgents
from dprl.algorithms.pgc.on_rllib.env_runner import check_playable
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, write_parameters
from dprl.algorithms.pgc.user_code import ErrorBarrier
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, Assignments, run_agents
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig, exploration_rate, exploration_rates
from dprl.algorithms.pgc_a3c.gradient import Loss
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.algorithms.pgc_a3c.on_rllib.episodes import OBSERVED, Episode, as_batch, play
from dprl.privacy import GradientClient
from dprl.privacy.randomness.bits import splitmix64


class CompiledAgents(LocalAgents):
    """Agents' side of PGC-A3C on CartPole; its episodes equal, bit for bit, those of the learner in one process.

    *Formal guarantee.* The client's.

    Args:
        config: settings of the algorithm. lanes: plays the episodes. client, shows_scores: see `LocalAgents`.

    Paper: [OT20] Algorithm 1.
    """

    def __init__(self, config: PGCA3CConfig, lanes: AgentBatch, client: GradientClient, *, shows_scores: bool) -> None:
        super().__init__(client, shows_scores=shows_scores)
        self._lanes, self._behaviour = lanes, config.behaviour(lanes.horizon, 1)

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        lease, explorations = batch.lease, exploration_rates(self._behaviour, batch.slots)
        assignments = Assignments(batch.parameters, batch.version, lease.submissions, lease.agents, explorations)
        gradients, scores = np.zeros((len(batch.slots), DIMENSION)), np.zeros(len(batch.slots))
        run_agents(self._lanes, self._behaviour.loss, assignments, gradients, scores)
        if self._behaviour.reports == 0:
            gradients[:] = 0.0
        return gradients, scores


class Rollout(NamedTuple):
    """Environment, network and random keys of agents.

    key: words that seed the episodes. agent_key uint64[5]: key from which environments' numbers of agents are computed.
    """

    env: gym.Env[Any, Any]
    module: TorchRLModule
    key: tuple[int, ...]
    agent_key: npt.NDArray[np.uint64]


class TorchAgents(LocalAgents):
    """Agents' side of PGC-A3C: one episode per submission, one agent after the other.

    *Formal guarantee.* The client's. An error during an agent's episode would reveal data, so no error is raised and
    the agent reports a zero gradient.

    Args:
        config: settings of the algorithm; reward 'literal' is the environment's. rollout: their environment and
        network. client, shows_scores: see `LocalAgents`.

    Paper: [OT20] Algorithm 1 and eqs. (15), (16), (17) and (18).
    """

    def __init__(self, config: PGCA3CConfig, rollout: Rollout, client: GradientClient, *, shows_scores: bool) -> None:
        super().__init__(client, shows_scores=shows_scores)
        if not isinstance(rollout.module, ValueFunctionAPI):
            found = type(rollout.module).__name__
            raise ValueError(f"rl_module must have the ValueFunctionAPI, got {found}; add compute_values to it")
        check_playable(rollout.env, rollout.module, *OBSERVED)
        self._config, self._rollout = config, rollout
        self._buffers = [buffer.clone() for buffer in rollout.module.buffers()]

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        module, k = self._rollout.module, len(batch.slots)
        gradients, scores = np.zeros((k, n_parameters(module))), np.zeros(k)
        loaded = -1
        for j, version in enumerate(batch.version.tolist()):
            if version != loaded:
                write_parameters(module, batch.parameters[version])
                loaded = version
            agent, submission = int(batch.lease.agents[j]), int(batch.lease.submissions[j])
            with ErrorBarrier():
                scores[j] = self._update(gradients[j], agent, submission, int(batch.slots[j]))
        return gradients, scores

    def _update(self, out: Float64Array, agent: int, submission: int, slot: int) -> float:
        """Write the gradient of one agent's episode; return its score."""
        config, (env, module, key, agent_key) = self._config, self._rollout
        explore, sampled = exploration_rate(config.behaviour(1, 1), slot), config.acting == "sampled"
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((*key, submission))))
        # On CartPole with gravity this gives the same gravity as in the compiled lane.
        agent_id = int(splitmix64(agent_key, np.uint64(agent)))
        # No data of one agent may reach the next one's message: neither layer statistics nor draws.
        for buffer, first in zip(module.buffers(), self._buffers, strict=True):
            buffer.copy_(first)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence((*key, submission, 1)).generate_state(1)[0]))
            episode = play(env, module, explore, sampled, rng, {"agent": agent_id})
            if config.reports == "gradient":
                out[:] = loss_gradient(module, episode, config.loss)
        return float(episode.rewards.sum())


def loss_gradient(module: TorchRLModule, episode: Episode, loss: Loss) -> Float64Array:
    """Return the gradient float64[d] of the loss over an episode, by one forward and one backward pass.

    Parameters without influence on the loss have zeros. Numbers that overflow come out as infinities or NaN.

    Paper: [OT20] eqs. (12) and (13), (15), (16), (17) and (18).
    """
    parameters = list(module.parameters())
    parts = torch.autograd.grad(
        episode_loss(module, episode, loss), parameters, allow_unused=True, materialize_grads=True
    )
    flat: Float64Array = torch.cat([part.reshape(-1).to("cpu", torch.float64) for part in parts]).numpy()
    return flat


def episode_loss(module: TorchRLModule, episode: Episode, loss: Loss) -> torch.Tensor:
    """Return L of eq. (15), summed over the steps of an episode; see `Loss` for its readings."""
    steps = len(episode.rewards)
    batch = as_batch(episode.observations, module)
    output = module.forward_train(batch)
    values = module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))
    distribution = module.get_train_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS][:steps])
    by_advantage, by_target, returns = (
        torch.as_tensor(numbers).to(values.dtype) for numbers in _constants(episode, loss)
    )
    advantage = returns + by_advantage * values[steps] - values[:steps]
    target = returns + by_target * values[steps]
    if not loss.differentiate:
        advantage, target = advantage.detach(), target.detach()
    of_policy: torch.Tensor = (distribution.logp(torch.as_tensor(episode.actions)) * advantage).sum()
    of_value: torch.Tensor = ((target - values[:steps]) ** 2).sum()
    entropy: torch.Tensor = distribution.entropy().sum()
    return loss.value_weight * of_value - of_policy - loss.entropy_weight * entropy


def _constants(episode: Episode, loss: Loss) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the factors of V(s_T) in the advantage and in the target, and the returns, each float64[T]."""
    steps = len(episode.rewards)
    rewards = episode.rewards
    if loss.reward == "terminal":  # D18
        rewards = np.zeros(steps)
        rewards[-1] = -1.0 if episode.fallen else 1.0
    returns, later = np.zeros(steps), 0.0
    for t in reversed(range(steps)):
        later = rewards[t] + loss.discount * later
        returns[t] = later
    powers = loss.discount ** np.arange(steps, 0, -1.0)
    none = np.zeros(steps)
    by_advantage = none if loss.bootstrap == "none" else powers
    by_target = {"none": none, "discounted": powers, "printed": np.ones(steps)}[loss.bootstrap]  # D17
    return by_advantage, by_target, returns
