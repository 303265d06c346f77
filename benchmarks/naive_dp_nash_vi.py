"""DP-Nash-VI as one would write it with NumPy and scipy's linprog, for benchmarks and as a check of ours.

Paper: [QW24] Algorithm 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from benchmarks.naive_ucb_vi import Counts, Floats, Integers, NaiveLearner
from dprl.algorithms import TabularLearner
from dprl.envs.games import MarkovGame

# The tightest tolerances of HiGHS; the default 1e-7 is as large as the perturbation that chooses among equilibria.
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_INFEASIBLE = 2


class Plan(NamedTuple):
    """policy [H,S,A,B], correlated; upper_q, lower_q [H,S,A,B]; upper, lower [H+1,S]: the bounds of the values."""

    policy: Floats
    upper_q: Floats
    lower_q: Floats
    upper: Floats
    lower: Floats


def nearest_by_linprog(noisy: Floats, total: float, slack: float) -> tuple[Floats, float]:
    """Solve eq. (8) as printed: x [S'] >= 0 with |sum x - total| <= slack and the least max |x - noisy|, its maximum.

    If no x is feasible, for total < -slack, it is zero. The solver chooses among minimisers.
    """
    n = len(noisy)
    objective = np.append(np.zeros(n), 1.0)
    identity, ones = np.eye(n), np.ones((n, 1))
    matrix = np.block([[identity, -ones], [-identity, -ones], [ones.T, np.zeros((1, 1))], [-ones.T, np.zeros((1, 1))]])
    bounds = np.concatenate([noisy, -noisy, [total + slack, slack - total]])
    answer = linprog(objective, A_ub=matrix, b_ub=bounds, bounds=(0, None))
    if answer.status == _INFEASIBLE:
        return np.zeros(n), math.inf
    if not answer.success:
        raise ArithmeticError(answer.message)
    return np.maximum(answer.x[:-1], 0.0), float(answer.fun)


def equilibrium_by_linprog(upper: Floats, lower: Floats, ties: Floats | float = 0.0) -> Floats:
    """The coarse correlated equilibrium [A,B] of (Qup, Qlo) with the least E[(Qup - Qlo) / scale + ties].

    ties: [A,B], small; scale: the largest absolute entry.
    """
    n_max, n_min = upper.shape
    scale = max(np.abs(upper).max(), np.abs(lower).max())
    gains_max = (upper[:, None, :] - upper[None, :, :]).reshape(n_max, -1)
    gains_min = (lower[None, :, :] - lower.T[:, :, None]).reshape(n_min, -1)
    gains = np.vstack([gains_max, gains_min]) / scale
    no_gain, one = {"A_ub": gains, "b_ub": np.zeros(len(gains))}, {"A_eq": np.ones((1, upper.size)), "b_eq": [1.0]}
    answer = linprog(((upper - lower) / scale + ties).ravel(), **no_gain, **one, bounds=(0, None), options=_TIGHT)
    if not answer.success:
        raise ArithmeticError(answer.message)
    policy = np.maximum(answer.x, 0.0)
    normalised: Floats = (policy / policy.sum()).reshape(upper.shape)
    return normalised


class NaiveNashVI(NaiveLearner):
    """DP-Nash-VI with both linear programmes solved by linprog: eq. (8) for every row, an equilibrium for every state.

    game: the simulator. ours: our learner; iota has its planned number of episodes K. output: the policy [H,S,A,B] with
    the smallest gap so far, uniform until a gap falls below H.
    """

    def __init__(self, game: MarkovGame, ours: TabularLearner, rng: np.random.Generator) -> None:
        # Rewards are known, so none are counted.
        zeros = Counts(np.zeros(game.rewards.shape), np.zeros(game.transitions.shape), np.zeros(0))
        super().__init__(game.joint, zeros, ours, rng)
        config: Any = self.config
        self.game, self.c1, self.c2 = game, config.c1, config.c2
        # E: no count has an error above E/4.
        self.error = 4.0 * config.precision_scale * max(ours.privatizer.precision(config.beta / 3.0).values())
        self.horizon, self.n_states, self.n_max, self.n_min = game.rewards.shape
        self.iota = math.log(30 * game.rewards.size * ours.episodes / config.beta)
        self.policy: Floats = np.full(game.rewards.shape, 1.0 / (self.n_max * self.n_min))
        self.output, self.smallest_gap = self.policy, float(self.horizon)

    def episode(self) -> float:
        """Plan, deploy, learn from one user; returns the exact regret: the duality gap of the deployed marginals."""
        self.deploy(self.plan(self.private_counts()))
        regret = self.game.exploitability(*self.game.marginals(self.policy))
        self.absorb(*self.roll_out())
        return regret

    def deploy(self, plan: Plan) -> None:
        """Deploy a plan's policy, and keep it as the output if its gap is the smallest so far."""
        self.policy = plan.policy
        gap = float(self.game.start @ (plan.upper[0] - plan.lower[0]))
        if gap < self.smallest_gap:
            self.output, self.smallest_gap = plan.policy, gap

    def plan(self, private: Counts) -> Plan:
        """Optimistic and pessimistic value iteration on the private counts."""
        error, shape = self.error, self.game.rewards.shape
        nearest = self.nearest_counts(private.transitions, private.visits)
        transitions = nearest + error / (2.0 * self.n_states)
        visits = transitions.sum(axis=-1)
        values = np.zeros((self.horizon + 1, self.n_states))
        plan = Plan(np.zeros(shape), np.zeros(shape), np.zeros(shape), values, values.copy())
        for h in range(self.horizon - 1, -1, -1):
            after = plan.upper[h + 1], plan.lower[h + 1]
            plan.upper_q[h], plan.lower_q[h] = self.q_of_step(h, transitions[h], visits[h], after)
            for s in range(self.n_states):
                upper_q, lower_q = plan.upper_q[h, s], plan.lower_q[h, s]
                policy = self.equilibrium(upper_q, lower_q)
                plan.policy[h, s] = policy
                plan.upper[h, s], plan.lower[h, s] = (policy * upper_q).sum(), (policy * lower_q).sum()
        return plan

    def nearest_counts(self, transitions: Floats, visits: Floats) -> Floats:
        """Eq. (8) for every (h, s, a, b): transitions [H,S,A,B,S'] to visits [H,S,A,B]."""
        if self.trust_model == "none":
            return transitions
        nearest = np.zeros(transitions.shape)
        for cell in np.ndindex(visits.shape):
            nearest[cell], _ = nearest_by_linprog(transitions[cell], float(visits[cell]), self.error / 4.0)
        return nearest

    def q_of_step(
        self, h: int, transitions: Floats, visits: Floats, after: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Qup and Qlo [S,A,B] of step h (from 0): transitions [S,A,B,S'], visits [S,A,B], both bounds after it [S].

        The cap is H-h, that of the values from step h on; the paper has H.
        """
        upper, lower = after
        rewards, cap = self.game.rewards[h], self.horizon - h
        visited = visits > 0.0
        probabilities = transitions / np.where(visited, visits, 1.0)[..., None]
        bonus = self.config.bonus_scale * self.bonus(probabilities, np.where(visited, visits, 1.0), upper, lower)
        upper_q = np.minimum(rewards + probabilities @ upper + bonus, cap)
        lower_q = np.maximum(rewards + probabilities @ lower - bonus, 0.0)
        return np.where(visited, upper_q, cap), np.where(visited, lower_q, 0.0)

    def bonus(self, probabilities: Floats, visits: Floats, upper: Floats, lower: Floats) -> Floats:
        """gamma + Gamma [S,A,B] at P~ [S,A,B,S'] and N~ [S,A,B]."""
        horizon, n_states = self.horizon, self.n_states
        middle = (upper + lower) / 2.0
        variance = np.maximum(probabilities @ middle**2 - (probabilities @ middle) ** 2, 0.0)
        gamma = self.c1 / horizon * (probabilities @ (upper - lower))
        of_variance = np.sqrt(variance * self.iota / visits)
        of_privacy = horizon * n_states * self.error * self.iota / visits
        of_samples = horizon**2 * n_states * self.iota / visits
        bonus: Floats = gamma + self.c2 * (of_variance + of_privacy + of_samples)
        return bonus

    def equilibrium(self, upper_q: Floats, lower_q: Floats) -> Floats:
        """The policy [A,B] of one state: an equilibrium with the least gap."""
        return equilibrium_by_linprog(upper_q, lower_q)

    def action(self, h: int, state: int) -> int:
        return self.draw(self.policy[h, state].ravel())

    def absorb(self, states: Integers, actions: Integers) -> None:
        """Add one user's counts, and the noise that the next release needs."""
        cells = (np.arange(self.horizon), states[:-1], *np.divmod(actions, self.n_min))
        self.counts.visits[cells] += 1.0
        self.counts.transitions[(*cells, states[1:])] += 1.0
        self.add_noise()

    def jump_to(self, episode: int) -> None:
        """Continue as if users had played uniformly for `episode` episodes: their expected counts, and fresh noise.

        The counts matter, because without any, all bounds would be clipped and all equilibria pure.
        """
        super().jump_to(episode)
        reached = episode * self.game.start
        for h in range(self.horizon):
            self.counts.visits[h] = reached[:, None, None] / (self.n_max * self.n_min)
            self.counts.transitions[h] = self.counts.visits[h, ..., None] * self.game.transitions[h]
            reached = self.counts.transitions[h].sum(axis=(0, 1, 2))
