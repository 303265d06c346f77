"""Aggregator as RLlib's Learner: it holds the parameters, applies private messages, and never sees data.

Parameters of RLModules are flat vectors here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import Aggregator

_AGGREGATOR = "aggregator"


def n_parameters(module: torch.nn.Module) -> int:
    """Return d, the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def read_parameters(module: torch.nn.Module) -> Float64Array:
    """Return the parameters of a module one after the other, a copy float64[d]."""
    with torch.no_grad():
        parts = [parameter.detach().reshape(-1).to("cpu", torch.float64) for parameter in module.parameters()]
        flat: Float64Array = torch.cat(parts).numpy()
    return flat


def write_parameters(module: torch.nn.Module, flat: Float64Array) -> None:
    """Write float64[d] into the parameters of a module, in its own precision. Raises ValueError for another d."""
    expected = n_parameters(module)
    if flat.shape != (expected,):
        raise ValueError(
            f"parameters must be float64[{expected}] for this module, got shape {flat.shape}; flatten them"
        )
    source = torch.tensor(flat, dtype=torch.float64)
    with torch.no_grad():
        start = 0
        for parameter in module.parameters():
            end = start + parameter.numel()
            parameter.copy_(source[start:end].reshape(parameter.shape))
            start = end


class PGCLearner(TorchLearner):
    """Holds an Aggregator; the module has its parameters, in the module's own precision, for use and checkpoints.

    `aggregator` is set by `start`. No optimizer is registered and no loss is computed.
    """

    aggregator: Aggregator | None = None

    def start(self, aggregator: Aggregator) -> None:
        """Set the aggregator and write its parameters into the module."""
        self.aggregator = aggregator
        self.publish()

    def publish(self) -> None:
        """Write the aggregator's parameters into the module."""
        if self.aggregator is not None:
            write_parameters(self.module[DEFAULT_MODULE_ID], self.aggregator.parameters)

    def configure_optimizers_for_module(self, module_id: str, config: object = None) -> None:
        """Register none: the aggregator updates its own parameters."""

    def compute_loss_for_module(self, **_: object) -> NoReturn:
        """Raise RuntimeError: losses are the agents' own."""
        raise RuntimeError("the aggregator computes no losses, it is sent private gradients; call train()")

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - as RLlib's
    ) -> dict[str, Any]:
        """Return RLlib's state, and 'aggregator'."""
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        if self.aggregator is not None and self._check_component(_AGGREGATOR, components, not_components):
            state[_AGGREGATOR] = self.aggregator.state_dict()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `get_state`. Raises ValueError for a state of other settings."""
        super().set_state(state)
        if _AGGREGATOR in state and self.aggregator is not None:
            self.aggregator.load_state_dict(state[_AGGREGATOR])
            self.publish()
