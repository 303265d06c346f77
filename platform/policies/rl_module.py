"""Policy tables as RLModules of RLlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.platform.errors import broken_rule
from dprl.platform.policies.loading import load_policy
from dprl.platform.policies.tabular import ActionTable, TabularPolicy


class _PolicyDistribution(TorchCategorical):
    """Categorical distribution that also draws actions when RLlib does not explore.

    RLlib would otherwise take the most probable action: another policy.
    """

    def to_deterministic(self) -> Self:
        """Return this distribution."""
        return self


class TabularRLModule(TorchRLModule):
    """Frozen policy [H, S, A] for RLlib; it can be run, checkpointed and evaluated, but not trained.

    model_config: {"probabilities": floats [H, S, A]}. Observations: integers [..., 2], (steps taken, state).
    Output: action_dist_inputs float32 [..., A], the logarithms of the probabilities.
    """

    @classmethod
    def from_policy(cls, policy: ActionTable) -> Self:
        """Return the module of a TabularPolicy, of a player of a GamePolicy, or of an agent of a TeamPolicy."""
        probabilities = policy.probability_table
        horizon, n_states, n_actions = probabilities.shape
        return cls(
            observation_space=spaces.MultiDiscrete([horizon + 1, n_states]),
            action_space=spaces.Discrete(n_actions),
            model_config={"probabilities": probabilities},
        )

    @classmethod
    def from_run(cls, path: str | Path, seed: int | None = None) -> Self:
        """Return the policy of a finished cell of an MDP, see `load_policy`. Raises UserError."""
        policy = load_policy(path, seed)
        if not isinstance(policy, TabularPolicy):
            remedy = "pass a player of its policy, or an agent, to from_policy"
            raise broken_rule(str(path), "must be a cell of a finite MDP", policy.env.name, remedy)
        return cls.from_policy(policy)

    def setup(self) -> None:
        """Build the table; called by RLlib's constructor."""
        config: dict[str, Any] = self.model_config
        probabilities = torch.as_tensor(config["probabilities"], dtype=torch.float32)
        # With several environments RLlib also requests an action after the last step, and drops it.
        end = torch.full_like(probabilities[:1], 1.0 / probabilities.shape[-1])
        # A parameter and not a buffer, because the optimizers of RLlib's learners refuse an empty list.
        self.log_probabilities = torch.nn.Parameter(torch.cat([probabilities, end]).log(), requires_grad=False)
        self.action_dist_cls = _PolicyDistribution

    def _forward(self, batch: dict[str, Any], **_: object) -> dict[str, Any]:
        places = batch[Columns.OBS].long()
        return {Columns.ACTION_DIST_INPUTS: self.log_probabilities[places[..., 0], places[..., 1]]}

    def _forward_train(self, batch: dict[str, Any], **_: object) -> dict[str, Any]:
        raise NotImplementedError("the module is the frozen policy of a finished run; it cannot be trained")
