"""Private-UCB-VI as one would write it in NumPy: the yardstick of the benchmark, and a check of ours.

Paper: [CZ22] Algorithm 2, in rewards instead of costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dprl.algorithms import TabularConfig
from dprl.envs import FiniteMDP
from dprl.privacy import Privatizer
from dprl.privacy.base import TrustModel

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """What the privatizer adds, what the planner is told about it, and the bonus.

    noise_scale: of each Laplace draw, one per tree node and cell (jdp) or per user and cell (ldp);
    visits_error, transitions_error: the precisions E1 and E2; beta: the failure probability of the bonus.
    """

    trust_model: TrustModel = "none"
    noise_scale: float = 0.0
    visits_error: float = 0.0
    transitions_error: float = 0.0
    bonus_scale: float = 1.0
    beta: float = 0.1

    @classmethod
    def of(cls, privatizer: Privatizer, chosen: TabularConfig[Any]) -> Settings:
        """The same noise scale, precisions and bonus as our implementation has."""
        bounds = privatizer.precision(chosen.beta).bounds
        report, counter, _ = privatizer.noise
        noise = report or counter.node
        return cls(
            trust_model=privatizer.trust_model,
            noise_scale=0.0 if noise is None else noise.scale,
            visits_error=chosen.precision_scale * max(bounds["visits"], bounds["rewards"]),
            transitions_error=chosen.precision_scale * bounds["transitions"],
            bonus_scale=chosen.bonus_scale,
            beta=chosen.beta,
        )


@dataclass
class Counts:
    """Sums over episodes: visits [H,S,A], transitions [H,S,A,S'], rewards [H,S,A]."""

    visits: Floats
    transitions: Floats
    rewards: Floats

    @classmethod
    def zeros(cls, mdp: FiniteMDP) -> Counts:
        shape = mdp.rewards.shape
        return cls(np.zeros(shape), np.zeros((*shape, mdp.n_states)), np.zeros(shape))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.visits + other.visits, self.transitions + other.transitions, self.rewards + other.rewards)


def laplace_noise(like: Counts, scale: float, rng: np.random.Generator) -> Counts:
    """One Laplace draw for every cell of `like`."""
    return Counts(
        rng.laplace(0.0, scale, like.visits.shape),
        rng.laplace(0.0, scale, like.transitions.shape),
        rng.laplace(0.0, scale, like.rewards.shape),
    )


class BinaryTree:
    """The binary counter of Chan, Shi and Song (2011), its noise alone: one active node a level.

    The true sums are kept beside it, which gives the same releases and spares the partial sums.
    """

    def __init__(self, like: Counts, n_users: int, scale: float, rng: np.random.Generator) -> None:
        levels = n_users.bit_length()
        self.visits = np.zeros((levels, *like.visits.shape))
        self.transitions = np.zeros((levels, *like.transitions.shape))
        self.rewards = np.zeros((levels, *like.rewards.shape))
        self.like, self.scale, self.rng = like, scale, rng

    def close_node(self, user: int) -> None:
        """Draw the noise of the node that ends at `user` (counted from 1)."""
        level = (user & -user).bit_length() - 1
        fresh = laplace_noise(self.like, self.scale, self.rng)
        self.visits[level], self.transitions[level] = fresh.visits, fresh.transitions
        self.rewards[level] = fresh.rewards

    def prefix_noise(self, users: int) -> Counts:
        """The noise in the sum over the first `users` users: one node for every binary digit that is 1."""
        nodes = [level for level in range(users.bit_length()) if users >> level & 1]
        return Counts(
            self.visits[nodes].sum(axis=0),
            self.transitions[nodes].sum(axis=0),
            self.rewards[nodes].sum(axis=0),
        )


class NaiveUCBVI:
    """Private-UCB-VI, one NumPy call per step and formula.

    mdp: the simulator; n_users: the planned number of episodes K, which enters the logarithm of the bonus.
    """

    def __init__(self, mdp: FiniteMDP, n_users: int, settings: Settings, rng: np.random.Generator) -> None:
        self.mdp, self.settings, self.rng = mdp, settings, rng
        steps = n_users * mdp.horizon
        self.log_term = np.sqrt(2.0 * np.log(4 * mdp.n_states * mdp.n_actions * steps / settings.beta))
        self.optimum = mdp.optimal_start_value()
        self.counts = Counts.zeros(mdp)
        self.local_noise = Counts.zeros(mdp)
        self.tree = BinaryTree(self.counts, n_users if settings.trust_model == "jdp" else 0, settings.noise_scale, rng)
        self.episodes_done = 0
        self.policy: Integers | Floats = np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)

    def episode(self) -> float:
        """Plan, deploy, learn from one user; returns the exact regret of the deployed policy."""
        self.policy = self.plan(self.private_counts())
        regret = self.optimum - self.start_value()
        states, actions = self.roll_out()
        self.absorb(states, actions)
        return regret

    def private_counts(self) -> Counts:
        """What the server may see of the episodes so far."""
        if self.episodes_done == 0 or self.settings.trust_model == "none":
            return self.counts
        if self.settings.trust_model == "jdp":
            return self.counts + self.tree.prefix_noise(self.episodes_done)
        return self.counts + self.local_noise

    def bonus(self, denominator: Floats) -> Floats:
        """The exploration bonus at D = max(1, N~ + E1), same shape."""
        n_states, e1, e2 = self.mdp.n_states, self.settings.visits_error, self.settings.transitions_error
        of_rewards = self.log_term / np.sqrt(denominator) + 3.0 * e1 / denominator
        of_transitions = self.log_term / np.sqrt(denominator) + (n_states * e2 + 2.0 * e1) / denominator
        bonus: Floats = self.settings.bonus_scale * (of_rewards + self.mdp.horizon * of_transitions)
        return bonus

    def optimistic_q(self, private: Counts) -> Callable[[int, Floats], Floats]:
        """A function of a step and the values [S] after it, which returns the optimistic Q [S,A] of that step."""

        def of_step(h: int, values: Floats) -> Floats:
            denominator = np.maximum(1.0, private.visits[h] + self.settings.visits_error)
            rewards = private.rewards[h] / denominator
            transitions = private.transitions[h] / denominator[:, :, None]
            q: Floats = rewards + transitions @ values + self.bonus(denominator)
            return q.clip(0.0, self.mdp.horizon - h)

        return of_step

    def plan(self, private: Counts) -> Integers | Floats:
        """Optimistic value iteration on the private counts; ties go to the lowest action. Returns [H,S]."""
        q_of_step = self.optimistic_q(private)
        policy: Integers = np.zeros((self.mdp.horizon, self.mdp.n_states), dtype=np.int64)
        values = np.zeros(self.mdp.n_states)
        for h in range(self.mdp.horizon - 1, -1, -1):
            q = q_of_step(h, values)
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

    def roll_out(self) -> tuple[Integers, Integers]:
        """One episode under the deployed policy: states [H+1] and actions [H]."""
        states = np.zeros(self.mdp.horizon + 1, dtype=np.int64)
        actions = np.zeros(self.mdp.horizon, dtype=np.int64)
        states[0] = self.first_state()
        for h in range(self.mdp.horizon):
            actions[h] = self.action(h, states[h])
            states[h + 1] = self.next_state(h, states[h], actions[h])
        return states, actions

    def first_state(self) -> int:
        return self.draw(self.mdp.start)

    def action(self, h: int, state: int) -> int:
        return int(self.policy[h, state])

    def next_state(self, h: int, state: int, action: int) -> int:
        return self.draw(self.mdp.transitions[h, state, action])

    def draw(self, probabilities: Floats) -> int:
        """One index with these probabilities [S]."""
        return int(self.rng.choice(len(probabilities), p=probabilities))

    def absorb(self, states: Integers, actions: Integers) -> None:
        """Add one user's counts, and the noise that the next release needs."""
        steps = np.arange(self.mdp.horizon)
        cells = (steps, states[:-1], actions)
        self.counts.visits[cells] += 1.0
        self.counts.transitions[(*cells, states[1:])] += 1.0
        self.counts.rewards[cells] += self.mdp.rewards[cells]
        self.episodes_done += 1
        if self.settings.trust_model == "jdp":
            self.tree.close_node(self.episodes_done)
        elif self.settings.trust_model == "ldp":
            fresh = laplace_noise(self.counts, self.settings.noise_scale, self.rng)
            self.local_noise.visits += fresh.visits
            self.local_noise.transitions += fresh.transitions
            self.local_noise.rewards += fresh.rewards

    def jump_to(self, episode: int) -> None:
        """Continue as if `episode` episodes were done, with their tree noise but without their counts.

        The cost of an episode in the central model grows with the binary digits of its number, so a timing
        that starts at 0 would flatter this implementation.
        """
        self.episodes_done = episode
        if self.settings.trust_model == "jdp":
            for level in range(episode.bit_length()):
                self.tree.close_node(1 << level)


class TunedUCBVI(NaiveUCBVI):
    """The same with what a patient NumPy programmer would do next.

    Denominators, bonuses and estimates of all steps at once, and inverse-CDF sampling instead of
    Generator.choice, which checks its probabilities at every call.
    """

    uniforms: Iterator[float]

    def optimistic_q(self, private: Counts) -> Callable[[int, Floats], Floats]:
        denominator = np.maximum(1.0, private.visits + self.settings.visits_error)
        known = private.rewards / denominator + self.bonus(denominator)
        transitions = private.transitions / denominator[..., None]
        return lambda h, values: np.clip(known[h] + transitions[h] @ values, 0.0, self.mdp.horizon - h)

    def roll_out(self) -> tuple[Integers, Integers]:
        return self.roll_out_with(self.rng.random(2 * self.mdp.horizon + 1))

    def roll_out_with(self, uniforms: Floats) -> tuple[Integers, Integers]:
        """One episode driven by given uniforms, as many as it needs, in the order of the draws."""
        self.uniforms = iter(uniforms)
        return super().roll_out()

    def first_state(self) -> int:
        return self.pick(self.mdp.start_cdf)

    def next_state(self, h: int, state: int, action: int) -> int:
        return self.pick(self.mdp.cdf[h, state, action])

    def draw(self, probabilities: Floats) -> int:
        return min(self.pick(np.cumsum(probabilities)), len(probabilities) - 1)

    def pick(self, cumulative: Floats) -> int:
        """The first index whose cumulative probability is above the next uniform."""
        return int(cumulative.searchsorted(next(self.uniforms), side="right"))
