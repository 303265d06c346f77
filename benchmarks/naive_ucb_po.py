"""Private-UCB-PO as one would write it in NumPy, for benchmarks and as a check of ours.

Paper: [CZ22] Algorithm 1, in rewards instead of costs.
"""

from __future__ import annotations

import numpy as np

from benchmarks.naive_ucb_vi import Counts, Floats, NaiveUCBVI
from dprl.algorithms import TabularLearner
from dprl.envs import FiniteMDP


class NaiveUCBPO(NaiveUCBVI):
    """Private-UCB-PO, one NumPy call per step and formula; counts, noise and users are those of NaiveUCBVI.

    policy: probabilities [H,S,A]; q [H,S,A]: the optimistic values of the last plan. Probabilities are multiplied as in
    the paper's algorithm. This works for some thousand episodes, until one falls below the smallest float.
    """

    def __init__(self, mdp: FiniteMDP, ours: TabularLearner, rng: np.random.Generator) -> None:
        super().__init__(mdp, ours, rng)
        self.log_term_of_transitions = np.sqrt(4.0 * mdp.n_states * np.log(6 * self.cells / self.config.beta))
        self.eta = np.sqrt(2.0 * np.log(mdp.n_actions) / (mdp.horizon**2 * ours.episodes))
        self.policy = np.full(mdp.rewards.shape, 1.0 / mdp.n_actions)
        self.q = np.zeros(mdp.rewards.shape)

    def plan(self, private: Counts) -> Floats:
        """The policy improved by the last plan's values, if there was one, and evaluated on the private counts."""
        weights = self.policy * np.exp(self.eta * self.q)
        policy: Floats = weights / weights.sum(axis=2, keepdims=True)
        values = np.zeros(self.mdp.n_states)
        for h in range(self.mdp.horizon - 1, -1, -1):
            self.q[h] = self.optimistic_q(private, h, values)
            values = (policy[h] * self.q[h]).sum(axis=1)
        return policy

    def start_value(self) -> float:
        values = np.zeros(self.mdp.n_states)
        for h in range(self.mdp.horizon - 1, -1, -1):
            values = (self.policy[h] * (self.mdp.rewards[h] + self.mdp.transitions[h] @ values)).sum(axis=1)
        return float(self.mdp.start @ values)

    def action(self, h: int, state: int) -> int:
        return self.draw(self.policy[h, state])
