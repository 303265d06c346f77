"""Policy tables as RLModules, and the RLlib config that evaluates them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.envs import FiniteMDP
from dprl.platform.errors import UserError
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.policies.game import GamePolicy
from dprl.platform.policies.loading import load_policy
from dprl.platform.policies.tabular import ActionTable, TabularPolicy
from dprl.platform.policies.team import TeamPolicy

_INSTEAD: Mapping[type, str] = {
    GamePolicy: "call TabularRLModule.from_policy(load_policy(...).max_player), or min_player",
    TeamPolicy: "call TabularRLModule.from_policy(load_policy(...).agent(0)), or another one's",
    ActorCriticPolicy: "call load_policy(...).to_rl_module(), and evaluate() of a PGC on RLlib",
}
_MOST_ENVIRONMENTS = 100
"""Most environments per env runner. They step together, because RLlib's overhead is per step, not per environment."""


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
        return cls.from_policy(_load_mdp_policy(path, seed))

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
        raise NotImplementedError("the module is the frozen policy of a finished run; call evaluate(), not train()")


def evaluation_config(path: str | Path, seed: int | None = None, episodes: int = 1000) -> PPOConfig:
    """Return the RLlib config for `build_algo().evaluate()` of the policy of a finished cell of an MDP.

    RLlib needs some algorithm for an evaluation, so this is a PPO config; PPO does not run, and train() fails.
    path, seed: see `load_policy`. episodes: per evaluation; `episode_return_mean` is their mean. Raises ValueError if
    episodes < 1, and UserError for anything but a finished cell of an MDP.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}; 1000 give a mean to about 3 % of its spread")
    policy = _load_mdp_policy(path, seed)
    return (
        PPOConfig()
        .environment(policy.env_id, env_config=policy.env_settings)
        .rl_module(rl_module_spec=RLModuleSpec.from_module(TabularRLModule.from_policy(policy)))
        .env_runners(num_env_runners=0, num_envs_per_env_runner=min(episodes, _MOST_ENVIRONMENTS), explore=False)
        .evaluation(evaluation_duration=episodes, evaluation_duration_unit="episodes")
        # By default the mean is over the last hundred episodes only.
        .reporting(metrics_num_episodes_for_smoothing=episodes)
    )


def _load_mdp_policy(path: str | Path, seed: int | None) -> TabularPolicy:
    """Return the policy of a finished cell of an MDP. Raises UserError for another cell."""
    policy = load_policy(path, seed)
    if not isinstance(policy, TabularPolicy):
        raise UserError(
            f"{path}: must be a cell of a {FiniteMDP.kind}, got {policy.env.name}, a {policy.env.builds.kind}; "
            + _INSTEAD[type(policy)]
        )
    return policy
