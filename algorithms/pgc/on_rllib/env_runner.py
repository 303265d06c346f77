"""RLlib env runner with simulated agents; its only output is private messages."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import gymnasium as gym
from gymnasium import spaces
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.checkpoints import Checkpointable

from dprl.algorithms.pgc.aggregator import Batch, LocalUpdate, Reply, report
from dprl.algorithms.pgc.user_code import error_barrier, one_thread, silent
from dprl.privacy import Client

_FAILED = "agents could not report, and none of their data has left the runner; test the environment and module alone"


def check_observed(env: gym.Env[Any, Any], *observed: type[spaces.Space[Any]]) -> None:
    """Raise ValueError unless observations are in a space of these types."""
    if not isinstance(env.observation_space, observed):
        raise ValueError(f"env must observe arrays, got {env.observation_space}; wrap it in FlattenObservation")


def check_playable(env: gym.Env[Any, Any], module: TorchRLModule, *observed: type[spaces.Space[Any]]) -> None:
    """Raise ValueError unless observations are in a space of these types, and actions and module are supported."""
    check_observed(env, *observed)
    if not isinstance(env.action_space, spaces.Discrete | spaces.Box):
        raise ValueError(f"env must have actions in Discrete or Box, got {env.action_space}; wrap the environment")
    if module.is_stateful():
        raise ValueError("rl_module must have no state, got a recurrent one; put the history into the observation")


@contextmanager
def quiet(log_level: str) -> Iterator[None]:
    """Drop RLlib's warnings in a block, unless the level asks for more: they are about its own API."""
    before = logging.root.manager.disable
    if log_level not in ("DEBUG", "INFO"):
        logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


class PrivateEnvRunner(EnvRunner, Checkpointable):
    """Plays the agents of a batch and replies with their messages. It keeps no parameters and no results.

    *Formal guarantee.* Its only output is the client's messages: randomized in the local model, clipped in the central
    model. A compromised runner sees the episodes of its own agents only. Raw scores leave it only if a simulation reads
    them; the certificate then says so. State and metrics are empty, and errors have a fixed text. With round_seconds
    every reply leaves at a whole multiple of it. The constructors of environment and module must not read private data,
    because their errors and prints reach the driver. An agent's data must arrive in env.reset, not before.
    """

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:  # noqa: ANN401 - as RLlib's
        super().__init__(config=config, **kwargs)
        self._env_creator = kwargs["env_creator"]
        self._update: LocalUpdate | None = None
        self._client: Client | None = None
        self._shows_scores = bool(self.config.shows_scores)
        self.make_env()
        self.make_module()
        if self.config.num_gpus_per_env_runner > 0:  # the module's errors on another device, before users are leased
            self.config.dry_run(self.env, self.module, self._create)

    def make_env(self) -> None:
        """Create the environment of the torch lane; the compiled lane uses only its spaces."""
        self.env = self._create()

    def _create(self) -> Any:  # noqa: ANN401 - a gym.Env
        context = EnvContext(self.config.env_config, worker_index=self.worker_index or 0, num_workers=self.num_workers)
        return self._env_creator(context)

    def make_module(self) -> None:
        """Create the module of the torch lane; parameters are written into it."""
        spec = self.config.get_rl_module_spec(env=self.env, spaces=self.get_spaces(), inference_only=False)
        with quiet(self.config.log_level):
            self.module = spec.build()

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces of the environment, as RLlib asks for them."""
        spaces = (self.env.observation_space, self.env.action_space)
        return {"__env__": spaces, "__env_single__": spaces, DEFAULT_MODULE_ID: spaces}

    def assert_healthy(self) -> None:
        """Do nothing: an existing runner is complete."""

    def sample(self, **_: object) -> NoReturn:
        """Raise RuntimeError: trajectories stay here."""
        raise RuntimeError("a PrivateEnvRunner gives out no trajectories; call train() of the algorithm")

    def get_metrics(self) -> dict[str, Any]:
        """Return nothing: all measurements here are private."""
        return {}

    def get_state(
        self,
        components: str | Collection[str] | None = None,  # noqa: ARG002 - as RLlib's
        *,
        not_components: str | Collection[str] | None = None,  # noqa: ARG002 - as RLlib's
        **_: object,
    ) -> dict[str, Any]:
        """Return nothing: parameters come with every batch."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[()], dict[str, Any]]:
        """Return the arguments to rebuild the runner."""
        return (), {"config": self.config}

    def report(self, batch: Batch, new_client: Callable[[], Client]) -> Reply:
        """Let the agents of a batch play; return their messages, and their scores if a simulation reads them.

        Raises ValueError for an unsupported environment or module, LedgerError for a repeated submission, and
        RuntimeError with a fixed text for all else.
        """
        started, reply = time.monotonic(), None
        # Outside of the barrier: errors of settings, environment and module constructors are public.
        if self._update is None or self._client is None or self._client.issuer != batch.lease.issuer:
            self._update = self.config.local_update(self.env, self.module, self._create)
            self._client = new_client()  # it remembers the submissions that it has sent
        with silent(), error_barrier(refusals=True), one_thread():
            reply = report(self._update, batch, self._client, shows_scores=self._shows_scores)
        if (seconds := self.config.round_seconds) > 0.0:
            passed = time.monotonic() - started
            time.sleep((math.floor(passed / seconds) + 1) * seconds - passed)
        if reply is None:
            raise RuntimeError(_FAILED)
        return reply
