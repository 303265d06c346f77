"""Collection of messages: lease, deliver, wait and aggregate until enough messages are applied."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dprl.algorithms.pgc.aggregator import LARGEST_STALENESS, Aggregator, last_startable
from dprl.envs.checks import require_integer
from dprl.privacy import SubmissionRange

AGENTS_PER_CALL, AGENTS_OF_ALL_CALLS = 9, 24
_PAUSE_SECONDS = 0.02


def collect(
    aggregator: Aggregator,
    workers: Any,  # noqa: ANN401 - this module does without Ray
    lease: Callable[[int, int], SubmissionRange],
    goal: int,
    *,
    agents_per_call: int,
    losses: int,
    patience: float,
    fixed: bool = False,
) -> None:
    """Collect until `goal` messages are applied in total; then no batch is pending.

    Every slot is assigned to an agent, and to a new agent if the message is lost.

    Args:
        aggregator: receives the replies.
        workers: plays the batches; `_Workers` of `on_rllib/algorithm.py`, or a simulation with its methods.
        lease: returns k charged submissions of as many as will be needed.
        agents_per_call: most agents per batch. losses: most batches lost in a row. patience: most seconds without a
            reply.
        fixed: whether batches have their full size for any number of runners.

    Raises RuntimeError if no runner is left, LedgerError if no agent is.
    """
    # After an error, pending batches are lost, and their slots are assigned again.
    workers.abandon()
    aggregator.forget_waiting()
    begun, lost_in_a_row, alive = aggregator.applied, 0, time.monotonic()
    again: list[tuple[int, int]] = []  # lost slots, a heap of (first, last)
    while aggregator.applied < goal:
        workers.restore()
        # Send batches to runners with room while slots can start.
        while free := workers.free():
            startable = last_startable(aggregator.rules, aggregator.applied) - begun
            fresh, lost = min(goal - begun, startable), sum(last - first + 1 for first, last in again)
            runner, load = next(iter(free.items()))
            # Small batches cost as much as large ones, so a busy runner waits for a full batch.
            waits = load and lost + fresh < agents_per_call and fresh < goal - begun
            if lost + fresh <= 0 or waits:
                break
            # If there are too few agents to fill all batches, each runner gets an equal share.
            among = 1 if fixed else list(free.values()).count(0) or len(free)
            k, needed = min(agents_per_call, math.ceil((lost + fresh) / among)), lost + goal - begun
            if again:  # lost slots first
                first, end = heapq.heappop(again)
                last = min(end, first + k - 1)
                if last < end:
                    heapq.heappush(again, (last + 1, end))
            else:
                first, last = begun + 1, begun + min(k, int(fresh))
                begun = last
            slots = np.arange(first, last + 1)
            workers.send(runner, aggregator.batch(lease(len(slots), needed), slots))
        outcomes = workers.outcomes()
        for slots, reply in outcomes:
            if reply is not None:
                lost_in_a_row = 0
                aggregator.receive(slots, reply)
                continue
            heapq.heappush(again, (int(slots[0]), int(slots[-1])))
            lost_in_a_row += 1
            if lost_in_a_row > losses:
                raise RuntimeError(f"{lost_in_a_row} batches in a row were lost with their runners; see why they die")
        if any(reply is not None for _, reply in outcomes):
            alive = time.monotonic()
        elif time.monotonic() - alive > patience:
            wrong = f"no runner has answered for {patience:g} s"
            raise RuntimeError(f"{wrong}; see why they do not start, or whether episodes end")
        elif not outcomes:
            time.sleep(_PAUSE_SECONDS)


def call_plan(
    runners: int, calls_per_runner: int, buffer_size: int, agents_per_call: int | None, staleness: int | None
) -> tuple[int, int]:
    """Return the number of agents per call and the staleness that keeps all runners busy; None chooses a default.

    Without remote runners there is one pending call, else `runners * calls_per_runner`. The default staleness is the
    number of agents in all pending calls minus 1. The default number of agents per call is AGENTS_PER_CALL, but with
    one or two runners AGENTS_OF_ALL_CALLS divided by their number, and never more than a given staleness allows.
    Hence the default staleness is 8 without runners, as in the paper with nine threads, and 47 with one or two.

    Raises ValueError if a given staleness is out of range or leaves no room for a full call of every runner.
    """
    if staleness is not None:
        require_integer("staleness", staleness, 0, LARGEST_STALENESS)
    at_once = max(1, runners)
    if agents_per_call is None:
        agents_per_call = max(AGENTS_PER_CALL, AGENTS_OF_ALL_CALLS // runners) if runners else AGENTS_PER_CALL
        if staleness is not None:
            agents_per_call = max(1, min(agents_per_call, (staleness + buffer_size) // at_once))
    elif staleness is not None and agents_per_call * at_once > staleness + buffer_size:
        raise ValueError(
            f"agents_per_call must be at most {(staleness + buffer_size) // at_once} for {at_once} runners with "
            f"staleness {staleness} and buffer_size {buffer_size}, which let {staleness + buffer_size} agents play at "
            f"once, got {agents_per_call}; leave out agents_per_call or staleness"
        )
    if staleness is None:
        staleness = min(max(1, runners * calls_per_runner) * agents_per_call - 1, LARGEST_STALENESS)
    return agents_per_call, staleness
