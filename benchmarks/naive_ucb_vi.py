"""Private-UCB-VI as one would write it in NumPy, for benchmarks and as a check of ours.

Paper: [CZ22] Algorithm 2, in rewards instead of costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprl.algorithms import TabularLearner
from dprl.envs import FiniteMDP

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass
class Counts:
    """Sums over episodes: visits [H,S,A], transitions [H,S,A,S'], rewards [H,S,A]; in a game, A stands for A, B."""

    visits: Floats
    transitions: Floats
    rewards: Floats

    @classmethod
    def zeros(cls, mdp: FiniteMDP) -> Counts:
        shape = mdp.rewards.shape
        return cls(np.zeros(shape), np.zeros((*shape, mdp.n_states)), np.zeros(shape))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.visits + other.visits, self.transitions + other.transitions, self.rewards + other.rewards)

    def __rmul__(self, factor: float) -> Counts:
        return Counts(factor * self.visits, factor * self.transitions, factor * self.rewards)


def laplace_noise(like: Counts, scale: float, rng: np.random.Generator) -> Counts:
    """One Laplace draw for every cell of `like`."""
    return Counts(*(rng.laplace(0.0, scale, part.shape) for part in (like.visits, like.transitions, like.rewards)))


class NaiveLearner:
    """Episodes of a learner from private counts: exact counts and, separately, the noise of the trust model.

    Separate sums give the same releases without the partial sums of the tree. jdp: the binary counter of Chan, Shi and
    Song (2011), one active node per level; ldp: one draw per user and cell. mdp: the simulator; of a game its joint
    MDP. ours: our learner; config and scale of noise are the same. uniforms: those that the roll-out still uses instead
    of `rng`.
    """

    uniforms: Iterator[float] = iter(())

    def __init__(self, mdp: FiniteMDP, zeros: Counts, ours: TabularLearner, rng: np.random.Generator) -> None:
        self.mdp, self.counts, self.local_noise = mdp, 1.0 * zeros, 1.0 * zeros
        law = ours.privatizer.query.law
        self.trust_model, self.noise_scale = ours.privatizer.trust_model, 0.0 if law is None else law.scale
        self.config, self.rng = ours.config, rng
        self.nodes: dict[int, Counts] = {}
        self.episodes_done = 0

    def roll_out(self, uniforms: Floats | None = None) -> tuple[Integers, Integers]:
        """One episode under the deployed policy: states [H+1] and actions [H], a*B + b in a game.

        uniforms: as many as it needs instead of draws from `rng`, in the order of its draws.
        """
        self.uniforms = iter(() if uniforms is None else uniforms)
        states = np.zeros(self.mdp.horizon + 1, dtype=np.int64)
        actions = np.zeros(self.mdp.horizon, dtype=np.int64)
        states[0] = self.draw(self.mdp.start)
        for h in range(self.mdp.horizon):
            actions[h] = self.action(h, states[h])
            states[h + 1] = self.draw(self.mdp.transitions[h, states[h], actions[h]])
        return states, actions

    def action(self, h: int, state: int) -> int:
        raise NotImplementedError

    def private_counts(self) -> Counts:
        """Return the counts of the episodes so far as the server sees them; the tree has a node per binary digit 1."""
        if self.trust_model == "ldp":
            return self.counts + self.local_noise
        return sum((noise for level, noise in self.nodes.items() if self.episodes_done >> level & 1), self.counts)

    def add_noise(self) -> None:
        """Draw the noise for one more user, in the tree that of the node that ends at this user."""
        self.episodes_done += 1
        if self.trust_model == "jdp":
            level = (self.episodes_done & -self.episodes_done).bit_length() - 1
            self.nodes[level] = laplace_noise(self.counts, self.noise_scale, self.rng)
        elif self.trust_model == "ldp":
            self.local_noise = self.local_noise + laplace_noise(self.counts, self.noise_scale, self.rng)

    def jump_to(self, episode: int) -> None:
        """Continue as if `episode` episodes were done, with their noise but without their counts.

        The cost of an episode in the central model grows with the binary digits of its number, so timings from 0 on
        would be too good. A local sum's noise is correct in its variance only.
        """
        self.episodes_done = episode
        if self.trust_model == "jdp":
            for level in range(episode.bit_length()):
                self.nodes[level] = laplace_noise(self.counts, self.noise_scale, self.rng)
        elif self.trust_model == "ldp":
            self.local_noise = math.sqrt(episode) * laplace_noise(self.counts, self.noise_scale, self.rng)

    def draw(self, probabilities: Floats) -> int:
        """One index with these probabilities."""
        uniform = next(self.uniforms, None)
        if uniform is None:
            return int(self.rng.choice(len(probabilities), p=probabilities))
        return min(int(np.cumsum(probabilities).searchsorted(uniform, side="right")), len(probabilities) - 1)


class NaiveUCBVI(NaiveLearner):
    """Private-UCB-VI, one NumPy call per step and formula.

    mdp: the simulator; users observe its known rewards. ours: our learner; the bonus has its planned number of episodes
    K and its precisions E1 and E2. policy: the one of the next episode.
    """

    def __init__(self, mdp: FiniteMDP, ours: TabularLearner, rng: np.random.Generator) -> None:
        super().__init__(mdp, Counts.zeros(mdp), ours, rng)
        bounds, scale = ours.privatizer.precision(self.config.beta), self.config.precision_scale
        self.e1, self.e2 = scale * max(bounds["visits"], bounds["rewards"]), scale * bounds["transitions"]
        self.optimum = mdp.optimal_start_value()
        self.cells = mdp.n_states * mdp.n_actions * ours.episodes * mdp.horizon
        self.log_term = self.log_term_of_transitions = np.sqrt(2.0 * np.log(4 * self.cells / self.config.beta))
        self.policy: Integers | Floats = np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)

    def episode(self) -> float:
        """Plan, deploy, learn from one user; returns the exact regret of the deployed policy."""
        self.policy = self.plan(self.private_counts())
        regret = self.optimum - self.start_value()
        states, actions = self.roll_out()
        self.absorb(states, actions)
        return regret

    def bonus(self, denominator: Floats) -> Floats:
        """The exploration bonus at D = max(1, N~ + E1), same shape."""
        n_states, e1, e2 = self.mdp.n_states, self.e1, self.e2
        of_rewards = self.log_term / np.sqrt(denominator) + 3.0 * e1 / denominator
        of_transitions = self.log_term_of_transitions / np.sqrt(denominator) + (n_states * e2 + 2.0 * e1) / denominator
        return np.asarray(self.config.bonus_scale * (of_rewards + self.mdp.horizon * of_transitions))

    def optimistic_q(self, private: Counts, h: int, values: Floats) -> Floats:
        """The optimistic Q [S,A] of step h, from the values [S] after it."""
        denominator = np.maximum(1.0, private.visits[h] + self.e1)
        rewards = private.rewards[h] / denominator
        transitions = private.transitions[h] / denominator[:, :, None]
        q: Floats = rewards + transitions @ values + self.bonus(denominator)
        return q.clip(0.0, self.mdp.horizon - h)

    def plan(self, private: Counts) -> Integers | Floats:
        """Optimistic value iteration on the private counts; ties go to the lowest action. Returns [H,S]."""
        policy: Integers = np.zeros((self.mdp.horizon, self.mdp.n_states), dtype=np.int64)
        values = np.zeros(self.mdp.n_states)
        for h in range(self.mdp.horizon - 1, -1, -1):
            q = self.optimistic_q(private, h, values)
            policy[h] = q.argmax(axis=1)
            values = q.max(axis=1)
        return policy

    def start_value(self) -> float:
        """The exact value of the deployed policy on the known simulator."""
        states = np.arange(self.mdp.n_states)
        values = np.zeros(self.mdp.n_states)
        for h in range(self.mdp.horizon - 1, -1, -1):
            chosen = self.policy[h]
            values = self.mdp.rewards[h, states, chosen] + self.mdp.transitions[h, states, chosen] @ values
        return float(self.mdp.start @ values)

    def action(self, h: int, state: int) -> int:
        return int(self.policy[h, state])

    def absorb(self, states: Integers, actions: Integers) -> None:
        """Add one user's counts, and the noise that the next release needs."""
        steps = np.arange(self.mdp.horizon)
        cells = (steps, states[:-1], actions)
        self.counts.visits[cells] += 1.0
        self.counts.transitions[(*cells, states[1:])] += 1.0
        self.counts.rewards[cells] += self.mdp.rewards[cells]
        self.add_noise()
