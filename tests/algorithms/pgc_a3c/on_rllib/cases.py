"""Environments and modules for tests only."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule

SECRET = "gravity 9.7182"


class Corridor(gym.Env[np.ndarray, Any]):
    """Walk right; 5 steps at most. Actions are two numbered from `start`, or one number."""

    def __init__(self, config: Any = None, start: int = 0, box: bool = False) -> None:
        self.observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.Discrete(2, start=start)
        if box:
            self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.seen: list[Any] = []
        self.options: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.options = options or {}
        self.place, self.steps = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.seen.append(action)
        low = getattr(self.action_space, "start", 0)
        self.place += float(np.asarray(action).reshape(-1)[0]) - float(low)
        self.steps += 1
        return self._observation(), self.place, self.place > 2.5, self.steps == 5, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.place, self.steps], dtype=np.float32)


class Broken(Corridor):
    """Raises, with private numbers in its text, in every third episode."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.options.get("agent", 0) % 3 == 2:
            raise Exception(SECRET)
        return super().step(action)


class TwoHeads(TorchRLModule, ValueFunctionAPI):
    """A foreign module: biases, tanh, no shared layer, and an unused parameter."""

    def setup(self) -> None:
        self.policy = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        self.value = torch.nn.Linear(2, 1)
        self.unused = torch.nn.Parameter(torch.ones(2))

    def _forward(self, batch: dict[str, Any], **_: object) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        values: torch.Tensor = self.value(batch[Columns.OBS]).squeeze(-1)
        return values


def actor_critic(env: gym.Env[Any, Any], **config: Any) -> ActorCriticModule:
    """Return the default module for an environment."""
    return ActorCriticModule(
        observation_space=env.observation_space, action_space=env.action_space, model_config=dict(config)
    )
