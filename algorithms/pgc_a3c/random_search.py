"""Random search on public scores, a control for claims of learning from private gradients.

It uses no gradients and is not private, because it reads raw scores; [OT20] declares them public.
"""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.scores import WINDOW
from dprl.algorithms.pgc_a3c.agent_batch import AgentBatch, advance, agent_batch, deliver, local_update
from dprl.algorithms.pgc_a3c.gradient import Loss, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, initial_parameters
from dprl.envs import CartPole
from dprl.privacy import Streams

_MOST_SUBMISSIONS = 90_000
_STANDARD_NORMAL = 1.0
_ANY = Loss(1.0, 0.0, 0.0, "literal", "none", False)
"""Any loss: gradients are not used here."""


def first_successes(
    env: CartPole, runs: int, streams: Streams, target: float = 195.0, exploring: bool = False
) -> Float64Array:
    """Return the first success of each of `runs` random searches, float64[runs]; inf if there is none in 90,000.

    A search draws parameters from N(0, 1) and lets agents play, one after the other, until ten of them average `target`
    or no longer can; then it draws again. All agents asked count as submissions; as for PGC-A3C the first success is
    the first of the ten. exploring: whether agents also explore as PGC-A3C's do, with alpha = max(0, 0.5 - n/1800).
    """
    return np.array([_search(env, streams, f"random search {run}", target, exploring) for run in range(runs)])


def _search(env: CartPole, streams: Streams, purpose: str, target: float, exploring: bool) -> float:
    batch = agent_batch(1, env, Streams(streams.seed, f"{streams.context}|{purpose}", streams.noise))
    asked, candidate = 0, 0
    while asked < _MOST_SUBMISSIONS:
        key = streams.key("exploration", f"{purpose}, candidate {candidate}")
        theta = initial_parameters("normal", _STANDARD_NORMAL, key)
        candidate += 1
        begun, missing = asked, 0.0
        while missing <= WINDOW * (env.horizon - target) and asked - begun < WINDOW:
            asked += 1
            missing += env.horizon - _score(batch, theta, asked, max(0.0, 0.5 - asked / 1800.0) * exploring)
        if missing <= WINDOW * (env.horizon - target):
            return float(begun + 1)
    return math.inf


def _score(batch: AgentBatch, theta: Float64Array, submission: int, exploration: float) -> float:
    """Return the number of steps of one agent's episode."""
    deliver(batch, 0, theta, submission, submission, exploration)
    advance(batch)
    return local_update(batch, 0, loss_tables(_ANY, batch.horizon), np.empty(DIMENSION))
