"""Assignment of batches to RLlib's runners; each batch is sent once.

This module calls the runners directly. RLlib's asynchronous requests cannot wait for the first reply, do not
report the lost request, and may pass an argument to the wrong runner.
"""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from dprl.algorithms.base import Int64Array
from dprl.algorithms.pgc.aggregator import Batch, Reply
from dprl.algorithms.pgc.journaled_privatizer import JournaledPrivatizer

_LOCAL = 0
_PROBE_SECONDS = 0.2

Outcome = tuple[Int64Array, Reply | None]
"""Outcome of a batch: its slots int64[k], and the reply, or None if the batch is lost."""


class Workers:
    """Runners of an algorithm; sends batches and returns every reply once.

    A dead runner gets no batch until RLlib has restarted it; its batches are lost and not repeated.

    Args:
        group: RLlib's runners; without remote runners the local one plays.
        journaled: has the spec of the runners' clients. in_flight: most batches per runner.
        limit: seconds per batch of a remote runner. After that the runner is killed and restarted, because an episode
            may be endless, and the batch is lost.
    """

    def __init__(self, group: EnvRunnerGroup, journaled: JournaledPrivatizer, in_flight: int, limit: float) -> None:
        self._group, self._journaled, self._in_flight, self._limit = group, journaled, in_flight, limit
        self._pending: dict[Any, tuple[int, Int64Array]] = {}
        # Start time of each busy runner's last batch.
        self._begun: dict[int, float] = {}
        self._played: list[Outcome] = []
        self._probed = 0.0
        self.waited = 0.0

    def free(self) -> dict[int, int]:
        """Return the number of batches of each runner with room for another one, idle runners first."""
        if self._group.num_remote_env_runners() == 0:
            return {} if self._played else {_LOCAL: 0}
        load = dict.fromkeys(self._group.healthy_env_runner_ids(), 0)
        for runner, _ in self._pending.values():
            if runner in load:
                load[runner] += 1
        return {runner: load[runner] for runner in sorted(load, key=load.__getitem__) if load[runner] < self._in_flight}

    def send(self, runner: int, batch: Batch) -> None:
        """Let a runner play a batch."""
        spec = self._journaled.client_spec()
        if runner == _LOCAL:
            started = time.perf_counter()
            reply = self._group.local_env_runner.report(batch, spec)
            self.waited += time.perf_counter() - started
            self._played.append((batch.slots, reply))
            return
        actor = self._group._worker_manager.actors()[runner]
        if all(busy != runner for busy, _ in self._pending.values()):
            self._begun[runner] = time.monotonic()
        self._pending[actor.report.remote(batch, spec)] = (runner, batch.slots)

    def outcomes(self) -> list[Outcome]:
        """Wait until a batch is played or lost; return all such batches.

        Raises RuntimeError if a runner refused a batch for a reason unrelated to agents.
        """
        played, self._played = self._played, []
        if played or not self._pending:
            return played
        started, pending = time.perf_counter(), list(self._pending)
        first_late = min(self._begun[runner] for runner, _ in self._pending.values()) + self._limit
        ready, _ = ray.wait(pending, num_returns=1, timeout=max(0.0, first_late - time.monotonic()))
        self.waited += time.perf_counter() - started
        outcomes = [self._outcome(reference) for reference in ready]
        return outcomes + self._give_up_late_ones()

    def _outcome(self, reference: Any) -> Outcome:  # noqa: ANN401 - Ray's
        runner, slots = self._pending.pop(reference)
        self._begun[runner] = time.monotonic()
        refusal = ""
        try:
            reply: Reply = ray.get(reference)
        except RayTaskError as error:  # its last line, without Ray's traceback
            cause = getattr(error, "cause", None) or error
            refusal = (str(cause).strip().splitlines() or [type(cause).__name__])[-1]
        except RayError:
            self._group._worker_manager.set_actor_state(runner, healthy=False)
            return slots, None
        if refusal:
            raise RuntimeError(f"runner {runner} refused a batch: {refusal}")
        return slots, reply

    def _give_up_late_ones(self) -> list[Outcome]:
        """Restart late runners; return their lost batches."""
        now = time.monotonic()
        late = {runner for runner, _ in self._pending.values() if now - self._begun[runner] > self._limit}
        for runner in late:
            ray.kill(self._group._worker_manager.actors()[runner], no_restart=False)
            self._group._worker_manager.set_actor_state(runner, healthy=False)
        references = [each for each, (runner, _) in self._pending.items() if runner in late]
        return [(self._pending.pop(reference)[1], None) for reference in references]

    def restore(self) -> list[int]:
        """Return the restarted runners; they need no state, as parameters come with every batch."""
        now = time.monotonic()
        if self._group.num_healthy_remote_env_runners() == self._group.num_remote_env_runners():
            return []
        if now - self._probed < _PROBE_SECONDS:
            return []
        self._probed = now
        restored: list[int] = self._group.probe_unhealthy_env_runners()
        return restored

    def abandon(self) -> None:
        """Drop all pending batches after an error."""
        self._pending.clear()
        self._played.clear()
