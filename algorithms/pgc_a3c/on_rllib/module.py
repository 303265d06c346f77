"""The actor-critic network as an RLModule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.pgc.on_rllib.parameters import write_parameters

_HIDDEN = 16


class ActorCriticModule(TorchRLModule, ValueFunctionAPI):
    """Policy and value with a shared first layer: ReLU, no biases, 112 parameters on the cart-pole.

    Parameters in this order: c [hidden, observations], p [outputs, hidden], v [1, hidden], each row by row. Outputs: a
    logit per action; for Box actions the means and the logarithms of the standard deviations. Discrete and other
    non-numeric observations need a FlattenObservation wrapper around the environment.

    model_config: {"hidden": 16, "parameters": flat initial parameters, default torch's own}.

    Paper: [OT20] sec. 4.
    """

    def setup(self) -> None:
        """Make the layers; called by RLlib's constructor."""
        config: dict[str, Any] = dict(self.model_config or {})
        seen, taken = self.observation_space, self.action_space
        if not isinstance(seen, spaces.Box):
            raise ValueError(
                f"env must have observations in a Box for the default module, got {seen}; wrap it in "
                "FlattenObservation, or give a module of your own by rl_module(rl_module_spec=...)"
            )
        if not isinstance(taken, spaces.Discrete | spaces.Box):
            raise ValueError(f"env must have actions in Discrete or Box, got {taken}; wrap the environment")
        inputs = math.prod(seen.shape)
        outputs = int(taken.n) if isinstance(taken, spaces.Discrete) else 2 * math.prod(taken.shape)
        hidden = int(config.get("hidden", _HIDDEN))
        self.c = torch.nn.Linear(inputs, hidden, bias=False)
        self.p = torch.nn.Linear(hidden, outputs, bias=False)
        self.v = torch.nn.Linear(hidden, 1, bias=False)
        if config.get("parameters") is not None:
            write_parameters(self, np.asarray(config["parameters"], dtype=np.float64))

    def _forward(self, batch: dict[str, Any], **_: object) -> dict[str, Any]:
        shared = self._shared(batch)
        return {Columns.ACTION_DIST_INPUTS: self.p(shared), Columns.EMBEDDINGS: shared}

    def compute_values(self, batch: dict[str, Any], embeddings: torch.Tensor | None = None) -> torch.Tensor:
        """Return V(s) of the observations, float[k]."""
        values: torch.Tensor = self.v(self._shared(batch) if embeddings is None else embeddings).squeeze(-1)
        return values

    def _shared(self, batch: dict[str, Any]) -> torch.Tensor:
        observations = batch[Columns.OBS]
        flat = observations.reshape(observations.shape[0], -1).to(self.c.weight.dtype)
        return torch.relu(self.c(flat))
