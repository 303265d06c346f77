"""Users of a runner, in any Gymnasium environment with any torch RLModule; all users of a call play together."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch.func import functional_call

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.algorithm import DPPGConfig
from dprl.algorithms.dppg.updates import updates
from dprl.algorithms.pgc.base import Batch, Reply
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, write_parameters
from dprl.envs import ControlTask, Episodes
from dprl.privacy import GradientClient
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31 - 1


class _Outputs(torch.nn.Module):
    """Inputs of the action distribution and values of a module, as a function for `functional_call`."""

    def __init__(self, module: TorchRLModule, *, critic: bool) -> None:
        super().__init__()
        self.module, self._critic = module, critic

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs [T, ...] and values [T], zeros without a critic, for observations [T, ...]."""
        batch = {Columns.OBS: seen}
        output = self.module.forward_train(batch)
        inputs = output[Columns.ACTION_DIST_INPUTS]
        if not self._critic:
            return inputs, inputs.new_zeros(inputs.shape[0])
        return inputs, self.module.compute_values(batch, embeddings=output.get(Columns.EMBEDDINGS))


class ModulePolicy:
    """The policy of a module, as a function of one row of parameters; see `Evaluate` in `updates.py`.

    Args:
        module: any torch RLModule without state. shape: of its observations. critic: whether its values are learned.

    Raises ValueError for a module that cannot play here.
    """

    def __init__(self, module: TorchRLModule, shape: tuple[int, ...] | None, *, critic: bool) -> None:
        if module.is_stateful():
            raise ValueError("rl_module must have no state, got a recurrent one; put the history into the observation")
        if critic and not isinstance(module, ValueFunctionAPI):
            raise ValueError(
                f"critic must be device or none for {type(module).__name__}, which has no values, got 'joint'; change "
                "it, or add compute_values to the module"
            )
        self.module, self._shape, self._outputs = module, shape or (), _Outputs(module, critic=critic)
        self._names = [name for name, _ in self._outputs.named_parameters()]
        self._like = [parameter.detach() for parameter in self._outputs.parameters()]
        self.n_parameters = n_parameters(module)

    def evaluate(
        self, theta: torch.Tensor, seen: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log probabilities, entropies and values [T] for theta [d], observations [T, o] and actions."""
        rows = torch.split(theta, [like.numel() for like in self._like])
        parameters = {
            name: row.reshape(like.shape).to(like.dtype)
            for name, row, like in zip(self._names, rows, self._like, strict=True)
        }
        inputs, values = functional_call(self._outputs, parameters, (self._rows(seen),))
        chosen_from = self.module.get_train_action_dist_cls().from_logits(inputs)
        return chosen_from.logp(actions), chosen_from.entropy(), values

    def act(self, seen: NDArray[np.float32], *, sampled: bool) -> NDArray[Any]:
        """Return actions for observations float32[n, o], drawn from torch's generator, or the most probable ones."""
        batch = {Columns.OBS: self._rows(torch.as_tensor(seen))}
        with torch.no_grad():
            # Not forward_exploration: it sets the mode of every layer anew.
            forward = self.module._forward_exploration if sampled else self.module._forward_inference
            inputs = forward(batch)[Columns.ACTION_DIST_INPUTS]
            chosen_from = self.module.get_exploration_action_dist_cls().from_logits(inputs)
            return np.asarray((chosen_from if sampled else chosen_from.to_deterministic()).sample())

    def _rows(self, seen: torch.Tensor) -> torch.Tensor:
        return seen.reshape(*seen.shape[:-1], *self._shape)


class Stage(NamedTuple):
    """Place of the episodes of a call: the task, copies of its environment, the policy, and keys of random draws.

    key: words, of all randomness in episodes. agent_key uint64[5]: of the users' numbers for environments.
    """

    task: ControlTask
    vector: VectorEnv[Any, Any, Any]
    policy: ModulePolicy
    key: tuple[int, ...] = ()
    agent_key: NDArray[np.uint64] = np.zeros(5, dtype=np.uint64)

    def play(self, number: int, agents: NDArray[np.int64], *, sampled: bool, padded: bool = False) -> Episodes:
        """Return an episode of each copy, with randomness of its own for each `number`; copy i is of user agents[i]."""
        seeds = np.random.SeedSequence((*self.key, number)).generate_state(2) % _LARGEST_SEED
        self.policy.module.eval()
        told = [int(splitmix64(self.agent_key, np.uint64(agent))) for agent in agents]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[0]))
            return self.task.play(
                self.vector,
                lambda seen: self.policy.act(seen, sampled=sampled),
                int(seeds[1]),
                padded=padded,
                options={"agents": told},
            )

    def updates(self, theta: Float64Array, episodes: Episodes, config: DPPGConfig) -> Float64Array:
        """Return the update float64[n, d] of each episode."""
        checks = torch.distributions.Distribution._validate_args
        torch.distributions.Distribution.set_default_validate_args(False)  # they look at values, as vmap cannot
        try:
            return updates(self.policy.evaluate, theta, episodes, config.loss)
        finally:
            torch.distributions.Distribution.set_default_validate_args(checks)


class VectorAgents:
    """Users' side of DPPG: one episode and one clipped update of each.

    *Formal guarantee.* That of the sender: under `ldp` a message has noise, under `jdp` it is clipped, for a trusted
    server. An update depends on one user's episode and on public parameters: arrays have the length of the longest
    possible episode and as many rows as a call has at most.

    Args:
        config: settings of the algorithm. stage: see `Stage`. sender: turns updates into messages. shows_scores:
            whether a simulation reads the scores; its certificate then says so.
    """

    def __init__(self, config: DPPGConfig, stage: Stage, sender: GradientClient, *, shows_scores: bool) -> None:
        self._config, self._stage, self._sender, self._shows_scores = config, stage, sender, shows_scores
        self.n_parameters = stage.policy.n_parameters

    def report(self, batch: Batch) -> Reply:
        """Let every user of the batch play, and return their messages; all of them start from the same parameters."""
        theta, lease = batch.parameters[batch.version[0]], batch.lease
        write_parameters(self._stage.policy.module, theta)
        episodes = self._stage.play(lease.first, lease.agents, sampled=True, padded=self._config.padded)
        found = self._stage.updates(theta, episodes, self._config)[: len(lease)]
        scores = episodes.scores[: len(lease)]
        return Reply(self._sender.send(lease, found, scores), scores if self._shows_scores else None)


def greedy_returns(stage: Stage, number: int, n: int) -> list[float]:
    """Return the sums of rewards of n episodes of the most probable actions, without users, and close the copies."""
    rounds = math.ceil(n / stage.vector.num_envs)
    nobody = np.zeros(0, dtype=np.int64)
    found = [stage.play(number + i, nobody, sampled=False).scores for i in range(rounds)]
    stage.vector.close()
    return [float(score) for score in np.concatenate(found)[:n]]
