"""Users of a runner in any Gymnasium environment, with any torch RLModule; all users of a call play at once."""

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
from dprl.algorithms.pgc.base import Batch, LocalAgents
from dprl.algorithms.pgc.on_rllib.parameters import write_parameters
from dprl.envs import ControlTask, Episodes
from dprl.privacy import GradientClient
from dprl.privacy.randomness.bits import splitmix64

_LARGEST_SEED = 2**31 - 1


class _Outputs(torch.nn.Module):
    """A module's outputs, the inputs of its action distribution and its values, for `functional_call`."""

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

    Raises ValueError for a critic without values.
    """

    def __init__(self, module: TorchRLModule, shape: tuple[int, ...] | None, *, critic: bool) -> None:
        if critic and not isinstance(module, ValueFunctionAPI):
            raise ValueError(
                f"critic must be device or none for {type(module).__name__}, which has no values, got 'joint'; change "
                "it, or add compute_values to the module"
            )
        self.module, self._shape, self._outputs = module, shape or (), _Outputs(module, critic=critic)
        self._names = [name for name, _ in self._outputs.named_parameters()]
        self._like = [parameter.detach() for parameter in self._outputs.parameters()]

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
        distribution = self.module.get_train_action_dist_cls().from_logits(inputs)
        return distribution.logp(actions), distribution.entropy(), values

    def act(self, seen: NDArray[np.float32], *, sampled: bool) -> NDArray[Any]:
        """Return actions for observations float32[n, o], drawn from torch's generator, or the most probable ones."""
        batch = {Columns.OBS: self._rows(torch.as_tensor(seen))}
        with torch.no_grad():
            # Not forward_exploration: it sets the mode of every layer anew.
            forward = self.module._forward_exploration if sampled else self.module._forward_inference
            inputs = forward(batch)[Columns.ACTION_DIST_INPUTS]
            distribution = self.module.get_exploration_action_dist_cls().from_logits(inputs)
            return np.asarray((distribution if sampled else distribution.to_deterministic()).sample())

    def _rows(self, seen: torch.Tensor) -> torch.Tensor:
        return seen.reshape(*seen.shape[:-1], *self._shape)


class VectorRollout(NamedTuple):
    """Vectorised episodes of one call: the task, copies of its environment, the policy, and random keys.

    key: words that seed the episodes. agent_key uint64[5]: key from which environments' numbers of users are computed.
    """

    task: ControlTask
    vector: VectorEnv[Any, Any, Any]
    policy: ModulePolicy
    key: tuple[int, ...] = ()
    agent_key: NDArray[np.uint64] = np.zeros(5, dtype=np.uint64)

    def play(self, number: int, agents: NDArray[np.int64], *, sampled: bool, padded: bool = False) -> Episodes:
        """Return an episode of each copy; `number` selects the random draws, and copy i belongs to user agents[i]."""
        seeds = np.random.SeedSequence((*self.key, number)).generate_state(2) % _LARGEST_SEED
        self.policy.module.eval()
        agent_ids = [int(splitmix64(self.agent_key, np.uint64(agent))) for agent in agents]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[0]))
            return self.task.play(
                self.vector,
                lambda seen: self.policy.act(seen, sampled=sampled),
                int(seeds[1]),
                padded=padded,
                checked=len(agents) == 0,
                options={"agents": agent_ids},
            )

    def updates(self, theta: Float64Array, episodes: Episodes, config: DPPGConfig) -> Float64Array:
        """Return the update float64[n, d] of each episode."""
        validated = torch.distributions.Distribution._validate_args
        torch.distributions.Distribution.set_default_validate_args(False)  # it reads values, and vmap cannot
        try:
            return updates(self.policy.evaluate, theta, episodes, config.loss)
        finally:
            torch.distributions.Distribution.set_default_validate_args(validated)


class VectorAgents(LocalAgents):
    """Users' side of DPPG: one episode and one clipped update of each user, all users of a call at once.

    *Formal guarantee.* The client's: under `ldp` a message is randomized, under `jdp` it is clipped, for a trusted
    server. An update depends on one user's episode and on public parameters: arrays have the length of the longest
    possible episode and as many rows as the largest call.

    Args:
        config: settings of the algorithm. rollout: plays the episodes. client, shows_scores: see `LocalAgents`.
    """

    def __init__(
        self, config: DPPGConfig, rollout: VectorRollout, client: GradientClient, *, shows_scores: bool
    ) -> None:
        super().__init__(client, shows_scores=shows_scores)
        self._config, self._rollout = config, rollout

    def _gradients(self, batch: Batch) -> tuple[Float64Array, Float64Array]:
        # All users of a call start from the same parameters.
        theta, lease = batch.parameters[batch.version[0]], batch.lease
        write_parameters(self._rollout.policy.module, theta)
        episodes = self._rollout.play(lease.first, lease.agents, sampled=True, padded=self._config.padded)
        return self._rollout.updates(theta, episodes, self._config)[: len(lease)], episodes.scores[: len(lease)]


def greedy_returns(rollout: VectorRollout, number: int, n: int) -> list[float]:
    """Return the sums of rewards of n episodes of the most probable actions, without users, and close the copies."""
    rounds = math.ceil(n / rollout.vector.num_envs)
    nobody = np.zeros(0, dtype=np.int64)
    found = [rollout.play(number + i, nobody, sampled=False).scores for i in range(rounds)]
    rollout.vector.close()
    return [float(score) for score in np.concatenate(found)[:n]]
