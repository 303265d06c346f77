"""Agents of CartPole with gravity in the compiled lane: several episodes at once, a hundred times faster."""

from __future__ import annotations

import numpy as np

from dprl.algorithms.pgc.base import Batch, Reply
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.crowd import Crowd, Orders, run_agents
from dprl.algorithms.pgc_a3c.loop import exploration_rates
from dprl.algorithms.pgc_a3c.network import DIMENSION
from dprl.privacy import GradientClient


class CompiledAgents:
    """Agents' side of PGC-A3C on CartPole; its episodes equal, bit for bit, those of the learner in one process.

    *Formal guarantee.* That of the sender.

    Args:
        config: of the box. crowd: its lanes. sender: turns gradients into messages.
        shows_scores: whether a simulation reads the scores; its certificate then says so.

    Paper: [OT20] Algorithm 1.
    """

    n_parameters = DIMENSION

    def __init__(self, config: PGCA3CConfig, crowd: Crowd, sender: GradientClient, *, shows_scores: bool) -> None:
        self._crowd, self._sender, self._shows_scores = crowd, sender, shows_scores
        self._behaviour = config.behaviour(crowd.horizon, 1)

    def report(self, batch: Batch) -> Reply:
        """Let every agent of the batch play, and return their private messages."""
        lease = batch.lease
        explorations = exploration_rates(self._behaviour, batch.slots)
        orders = Orders(batch.parameters, batch.version, lease.submissions, lease.agents, explorations)
        gradients, scores = np.zeros((len(batch.slots), DIMENSION)), np.zeros(len(batch.slots))
        run_agents(self._crowd, self._behaviour.loss, orders, gradients, scores)
        if self._behaviour.reports == 0:
            gradients[:] = 0.0
        messages = self._sender.send(lease, gradients, scores)
        return Reply(messages, scores if self._shows_scores else None)
