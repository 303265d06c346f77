"""Compiled loop of PGC-A3C: deliver, act, report and aggregate, with one agent per lane in step.

Paper: [OT20] Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc.aggregator import AggregatorState, StepRule, aggregate, delivered
from dprl.algorithms.pgc.schedule import Schedule, last_startable
from dprl.algorithms.pgc.scores import ScoreKeeper, record
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, deliver, is_idle, local_update, tick
from dprl.algorithms.pgc_a3c.gradient import LossTables
from dprl.compiled import inlined, no_alloc_kernel
from dprl.privacy.queries.gradients import GradientChannel, receive, submit


class Behaviour(NamedTuple):
    """Behaviour of every agent.

    loss: of eq. (15). exploration: alpha of the first agents. fading: slots until it would be 0. floor: the least
    alpha. n_agents: their number; submission n is of agent (n - 1) mod n_agents + 1. reports: 1, or 0 for the control
    with zero gradients: only noise arrives.
    """

    loss: LossTables
    exploration: float
    fading: float
    floor: float
    n_agents: int
    reports: int


class _PendingGradients(NamedTuple):
    """Gradients of finished agents that wait for their turn to report; on the agents' side.

    gradients float64[W, d], scores float64[W]: of the slot i at row i mod W; slots int64[W]: the slot of each row.
    """

    gradients: Float64Array
    scores: Float64Array
    slots: Int64Array

    def __repr__(self) -> str:
        return f"PendingGradients({self.slots.shape[0]} places)"


class Agents(NamedTuple):
    """Agents' side: the acting agents, their pending gradients, and their behaviour."""

    batch: AgentBatch
    pending: _PendingGradients
    behaviour: Behaviour

    def __repr__(self) -> str:
        return f"Agents({self.behaviour.n_agents})"


class Server(NamedTuple):
    """Aggregator's side: its state, its rules, and workspace for one estimate float64[d]."""

    state: AggregatorState
    schedule: Schedule
    step: StepRule
    estimate: Float64Array


def no_pending_gradients(schedule: Schedule, n_parameters: int) -> _PendingGradients:
    """Return an empty buffer with a place for every agent that can have begun."""
    places = schedule.most_waiting + 1
    return _PendingGradients(np.zeros((places, n_parameters)), np.zeros(places), np.zeros(places, dtype=np.int64))


@inlined
def exploration_rate(behaviour: Behaviour, slot: int) -> float:
    """Return alpha = max(floor, alpha_1 (1 - slot / fading)): with 0.5, 900 and 0 the paper's max(0, 0.5 - n/1800).

    It depends on the slot, a public number; a dependence on agents would be another channel.
    """
    return max(behaviour.floor, behaviour.exploration * (1.0 - slot / behaviour.fading))


def exploration_rates(behaviour: Behaviour, slots: Int64Array) -> Float64Array:
    """Return the rate of each of the slots int64[k], as `exploration_rate` does, bit for bit."""
    return np.maximum(behaviour.floor, behaviour.exploration * (1.0 - slots / behaviour.fading))


@no_alloc_kernel
def run(agents: Agents, channel: GradientChannel, server: Server, keeper: ScoreKeeper, first: int, last: int) -> float:
    """Let the agents of slots first..last act and report, and aggregate; return the sum of their scores.

    The simulator reads the scores; the server does not. Slots first..last must be charged.
    """
    batch, pending, behaviour = agents
    state, schedule, step, estimate = server
    begun, applied, total = first - 1, first - 1, 0.0
    while applied < last:
        for lane in range(batch.n_lanes):
            if is_idle(batch, lane) and begun < min(last, last_startable(schedule, applied)):
                begun += 1
                agent, alpha = (begun - 1) % behaviour.n_agents + 1, exploration_rate(behaviour, begun)
                deliver(batch, lane, delivered(state, schedule, begun), begun, agent, alpha)
                batch.order[lane] = begun
        if tick(batch) == 0:
            continue
        for lane in range(batch.n_lanes):
            if batch.ended[lane] == 1:
                place = batch.order[lane] % pending.slots.shape[0]
                pending.scores[place] = local_update(batch, lane, behaviour.loss, pending.gradients[place])
                if behaviour.reports == 0:
                    pending.gradients[place, :] = 0.0
                pending.slots[place] = batch.order[lane]
        while applied < last and pending.slots[(applied + 1) % pending.slots.shape[0]] == applied + 1:
            applied += 1
            place = applied % pending.slots.shape[0]
            submit(channel, pending.gradients[place], pending.scores[place], applied)
            bit = receive(channel, estimate)
            aggregate(state, schedule, step, estimate, bit)
            record(keeper, pending.scores[place])
            total += pending.scores[place]
    return total
