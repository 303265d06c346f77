"""One episode of one agent in any Gymnasium environment, with any torch RLModule; it stays in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array

_LARGEST_SEED = 2**31
_DRY_RUN_STEPS = 20
OBSERVED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Supported spaces of observations."""


@dataclass(frozen=True, eq=False)
class Episode:
    """Trajectory of an agent in T steps. It is private: only a client's messages may leave.

    Args:
        observations: [T + 1, ...], with the final one. actions: [T, ...]. rewards: float64[T].
        fallen: whether it ended in a terminal state, not by a time limit.
    """

    observations: np.ndarray = field(repr=False)
    actions: np.ndarray = field(repr=False)
    rewards: Float64Array = field(repr=False)
    fallen: bool = field(repr=False)


def play(
    env: gym.Env[Any, Any],
    module: TorchRLModule,
    explore: float,
    sampled: bool,
    rng: np.random.Generator,
    options: Mapping[str, Any],
) -> Episode:
    """Play one episode; all random draws come from `rng`.

    The module gets one observation at a time, so its bits do not depend on other agents.

    explore: alpha, the probability of a uniform random action. sampled: whether other actions are drawn from the
    policy; else they are its most probable ones. options: passed to env.reset; {'agent': n} has the agent's number.
    """
    observation, _ = env.reset(seed=int(rng.integers(_LARGEST_SEED)), options=dict(options))
    action_space = env.action_space
    action_space.seed(int(rng.integers(_LARGEST_SEED)))
    observations, actions, rewards = [np.asarray(observation)], [], []
    while True:
        if explore > 0.0 and rng.random() < explore:
            action = _any_action(action_space)
        else:
            action = _own_action(module, observations[-1], rng if sampled else None)
        observation, reward, terminated, truncated, _ = env.step(_to_env(action_space, action))
        observations.append(np.asarray(observation))
        actions.append(action)
        rewards.append(float(reward))
        if terminated or truncated:
            return Episode(np.stack(observations), np.stack(actions), np.array(rewards), bool(terminated))


def dry_run(env: gym.Env[Any, Any], module: TorchRLModule) -> None:
    """Take a few steps without an agent, and raise errors of environment and module unchanged.

    Later, when agents play, such errors are hidden.
    """
    observation, _ = env.reset(seed=0, options={})
    for _ in range(_DRY_RUN_STEPS):
        seen = np.asarray(observation)
        if isinstance(module, ValueFunctionAPI):
            with torch.no_grad():
                module.compute_values(as_batch(seen[np.newaxis], module))
        action = _own_action(module, seen, None)
        observation, reward, terminated, truncated, _ = env.step(_to_env(env.action_space, action))
        float(reward)
        if terminated or truncated:
            return


def greedy_return(env: gym.Env[Any, Any], module: TorchRLModule, seed: int) -> float:
    """Return the sum of rewards of one episode of the most probable actions, without an agent."""
    episode = play(env, module, 0.0, False, np.random.default_rng(seed), {})
    return float(episode.rewards.sum())


def as_batch(observations: np.ndarray, module: TorchRLModule) -> dict[str, torch.Tensor]:
    """Return the batch of a module for observations [k, ...], floats in the module's own precision."""
    precision = next(module.parameters()).dtype
    tensor = torch.as_tensor(observations)
    return {Columns.OBS: tensor.to(precision) if tensor.is_floating_point() else tensor}


def _own_action(module: TorchRLModule, observation: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Return the module's action: drawn from its distribution with `rng`, or else the most probable one."""
    with torch.no_grad():
        inputs = module.forward_inference(as_batch(observation[np.newaxis], module))[Columns.ACTION_DIST_INPUTS]
        distribution = module.get_exploration_action_dist_cls().from_logits(inputs)
        if rng is None:
            action = distribution.to_deterministic().sample()
        else:
            # Torch draws from its global generator only; its state is restored.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(rng.integers(_LARGEST_SEED)))
                action = distribution.sample()
        return np.asarray(action[0].numpy())


def _to_env(space: spaces.Space[Any], action: np.ndarray) -> Any:  # noqa: ANN401 - what the space holds
    """Return an action in the environment's format; actions outside a Box are moved to its edge."""
    if isinstance(space, spaces.Box):
        return np.clip(action, space.low, space.high).astype(space.dtype)
    return int(action) + int(getattr(space, "start", 0))


def _any_action(space: spaces.Space[Any]) -> np.ndarray:
    """Return a uniform random action; Discrete ones count from 0, as in RLlib's distributions."""
    return np.asarray(space.sample()) - getattr(space, "start", 0)
