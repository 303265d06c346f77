"""Aggregator as RLlib's Learner: it holds the parameters, applies private messages, and never sees data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner

from dprl.algorithms.pgc.aggregator import Aggregator
from dprl.algorithms.pgc.on_rllib.parameters import write_parameters

_AGGREGATOR = "aggregator"


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
