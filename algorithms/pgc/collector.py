"""Collection of messages: lease, deliver, wait and aggregate until enough messages are applied."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc.aggregator import Aggregator, ReorderBuffer
from dprl.algorithms.pgc.base import Runners
from dprl.privacy import SubmissionRange

_PAUSE_SECONDS = 0.02


class CollectionLimits(NamedTuple):
    """Batch size and tolerated failures.

    agents_per_call: most agents per batch. losses: most batches lost in a row. patience: most seconds without a reply.
    fixed: whether batches have their full size for any number of runners.
    """

    agents_per_call: int
    losses: int
    patience: float
    fixed: bool = False


class Collector:
    """Assigns every slot to an agent, and to a new agent if the message is lost.

    Args:
        aggregator: receives the messages. workers: play the batches. lease: returns k
            charged submissions of as many as will be needed. limits: see `CollectionLimits`.
        on_scores: called with the scores float64[k] of the next k slots in order, if agents report scores.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        workers: Runners,
        lease: Callable[[int, int], SubmissionRange],
        limits: CollectionLimits,
        on_scores: Callable[[Float64Array], None],
    ) -> None:
        self._aggregator, self._workers, self._lease, self._limits = aggregator, workers, lease, limits
        self._on_scores = on_scores
        self._begun = 0
        self._again: list[tuple[int, int]] = []
        self._scores: ReorderBuffer[Float64Array] = ReorderBuffer()
        self._lost_in_a_row = 0

    def until(self, goal: int) -> None:
        """Collect until `goal` messages are applied in total; then no batch is pending.

        Raises RuntimeError if no runner is left, LedgerError if no agent is.
        """
        # After an error, pending batches are lost, and their slots are assigned again.
        self._workers.abandon()
        self._aggregator.load_state_dict(self._aggregator.state_dict())
        self._begun = self._aggregator.applied
        self._again.clear()
        self._scores = ReorderBuffer(self._begun)
        alive = time.monotonic()
        while self._aggregator.applied < goal:
            self._workers.restore()
            self._dispatch(goal)
            outcomes = self._workers.outcomes()
            for slots, reply in outcomes:
                if reply is None:
                    self._lose(slots)
                else:
                    self._lost_in_a_row = 0
                    self._aggregator.receive(slots, reply.messages)
                    self._note(slots, reply.scores)
            if any(reply is not None for _, reply in outcomes):
                alive = time.monotonic()
            elif time.monotonic() - alive > self._limits.patience:
                raise RuntimeError(
                    f"no runner has answered for {self._limits.patience:g} s; see why they do not start, or whether "
                    "episodes end"
                )
            elif not outcomes:
                time.sleep(_PAUSE_SECONDS)

    def _dispatch(self, goal: int) -> None:
        """Send batches to runners with room while slots can start."""
        while free := self._workers.free():
            fresh = min(goal - self._begun, self._aggregator.startable(self._begun))
            lost = sum(last - first + 1 for first, last in self._again)
            if lost + fresh <= 0:
                return
            runner, load = next(iter(free.items()))
            # Small batches cost as much as large ones, so a busy runner waits for a full batch.
            if load and lost + fresh < self._limits.agents_per_call and fresh < goal - self._begun:
                return
            # If there are too few agents to fill all batches, each runner gets an equal share.
            among = 1 if self._limits.fixed else list(free.values()).count(0) or len(free)
            share = math.ceil((lost + fresh) / among)
            needed = lost + goal - self._begun
            first, last = self._next_slots(min(self._limits.agents_per_call, share), int(fresh))
            slots = np.arange(first, last + 1)
            self._workers.send(runner, self._aggregator.batch(self._lease(len(slots), needed), slots))

    def _next_slots(self, k: int, fresh: int) -> tuple[int, int]:
        """Return the first and last of the next k slots or fewer, lost slots first; `fresh` new slots can start."""
        if not self._again:
            first, last = self._begun + 1, self._begun + min(k, fresh)
            self._begun = last
            return first, last
        first, last = heapq.heappop(self._again)
        stop = min(last, first + k - 1)
        if stop < last:
            heapq.heappush(self._again, (stop + 1, last))
        return first, stop

    def _lose(self, slots: Int64Array) -> None:
        heapq.heappush(self._again, (int(slots[0]), int(slots[-1])))
        self._lost_in_a_row += 1
        if self._lost_in_a_row > self._limits.losses:
            raise RuntimeError(f"{self._lost_in_a_row} batches in a row were lost with their runners; see why they die")

    def _note(self, slots: Int64Array, scores: Float64Array | None) -> None:
        """Report the scores in the order of application."""
        if scores is not None:
            for block in self._scores.put(int(slots[0]), int(slots[-1]), scores):
                self._on_scores(block)
