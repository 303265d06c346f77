"""Private-UCB-VI: optimistic value iteration on private counts ([CZ22] Algorithm 2).

With trust model none it is UCB-VI with a Hoeffding bonus (Azar, Osband, Munos 2017) for step-dependent kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, Segment, check_number
from dprl.algorithms.tabular import Simulator, count_families, play, policy_value, simulator
from dprl.envs import FiniteMDP
from dprl.privacy import PrivacyConfig, PrivateCounts, Privatizer, Streams, kernel
from dprl.privacy.exchange import Channel, exchange


class Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e1: E_1, added to every visit count. per_root: factor of 1/sqrt(D). per_count: factor of 1/D.
    """

    e1: float
    per_root: float
    per_count: float


class Tables(NamedTuple):
    """What planning works on: policy int64[H, S]; optimistic values float64[S] of a step; q float64[S*A]."""

    policy: Int64Array
    optimistic: Float64Array
    q: Float64Array


@kernel
def plan(counts: Float64Array, bonus: Bonus, tables: Tables) -> tuple[bool, float]:
    """Optimistic value iteration; writes the greedy policy, returns (did it change, share of saturated cells).

    counts float64[H * (S+2) * S*A], each step holding transitions [S', S, A], visits [S, A], rewards [S, A]. With
    D = max(1, N + E_1): Q = clip(R/D + sum_s' N(s')/D V(s') + bonus, 0, H-h+1). Estimated transitions are neither
    normalised nor clipped, as printed. Ties go to the lowest action.

    Paper: [CZ22] eq. (1) and Algorithm 2, lines 4-10.
    """
    policy, optimistic, q = tables
    horizon, n_states = policy.shape
    pairs = q.shape[0]
    n_actions = pairs // n_states
    block = pairs * (n_states + 2)
    changed, saturated = False, 0
    optimistic[:] = 0.0  # line 4
    for h in range(horizon - 1, -1, -1):  # line 5
        step = counts[h * block : (h + 1) * block]
        visits = step[n_states * pairs : (n_states + 1) * pairs]
        rewards = step[(n_states + 1) * pairs :]
        cap = float(horizon - h)
        # Lines 6-8, times D. The sum over s' is outermost so that the innermost loop runs along (s, a) without gaps.
        for j in range(pairs):
            q[j] = rewards[j]
        for next_state in range(n_states):
            row = step[next_state * pairs : (next_state + 1) * pairs]
            v = optimistic[next_state]
            for j in range(pairs):
                q[j] += row[j] * v
        for j in range(pairs):
            over_d = 1.0 / max(1.0, visits[j] + bonus.e1)
            q[j] = min(cap, max(0.0, (q[j] + bonus.per_count) * over_d + bonus.per_root * math.sqrt(over_d)))
        for s in range(n_states):  # lines 9-10
            best, action = -1.0, 0
            for a in range(n_actions):
                x = q[s * n_actions + a]
                saturated += x == cap
                if x > best:
                    best, action = x, a
            changed |= policy[h, s] != action
            policy[h, s] = action
            optimistic[s] = best
    return changed, saturated / (horizon * pairs)


@kernel
def run(
    simulator: Simulator, channel: Channel, bonus: Bonus, tables: Tables, first: int, last: int
) -> tuple[float, float]:
    """Play episodes first..last (1-based, inclusive) of K; return the summed regret and the summed saturated share.

    Line 1 is the privatizer's, line 2 the bonus'. The user of episode K sends nothing: no later policy could use it.

    Paper: [CZ22] Algorithm 2.
    """
    regret, saturated, value = 0.0, 0.0, 0.0
    for k in range(first, last + 1):
        changed, share = plan(channel.released, bonus, tables)  # lines 4-10
        if changed or k == first:
            value = policy_value(simulator, tables.policy)
        regret += simulator.optimal_value - value
        saturated += share
        play(simulator, tables.policy, k)  # line 11
        if k < simulator.episodes:
            exchange(channel, simulator.device.cells, simulator.device.amounts, k)  # line 12
    return regret, saturated


@dataclass(frozen=True)
class PrivateUCBVIConfig:
    """Private-UCB-VI, optimistic value iteration on private counts ([CZ22] Algorithm 2; with model none, UCB-VI).

    Args:
        bonus_scale: c >= 0, multiplies the whole exploration bonus; 1 is the paper.
        precision_scale: c_E >= 0, multiplies E_1 and E_2 wherever planning uses them; 1 is the paper. Both act after
            the noise and leave the privacy guarantee alone.
        beta: failure probability of the confidence bounds ([CZ22] writes delta), in [1e-20, 1).
    """

    bonus_scale: float = 1.0
    precision_scale: float = 1.0
    beta: float = 0.1
    name: ClassVar[str] = "private_ucb_vi"

    def __post_init__(self) -> None:
        check_number("bonus_scale", self.bonus_scale, 0.0)
        check_number("precision_scale", self.precision_scale, 0.0)
        check_number("beta", self.beta, 1e-20, 1.0)

    def privatizer(self, mdp: FiniteMDP, privacy: PrivacyConfig, episodes: int, streams: Streams) -> Privatizer:
        """Return the privatizer of the counts of users 1..K-1; the last user's could serve no later policy."""
        return privacy.build(count_families(mdp), episodes - 1, streams)

    def build(self, mdp: FiniteMDP, privatizer: Privatizer, episodes: int, streams: Streams) -> PrivateUCBVI:
        """Return a fresh learner."""
        return PrivateUCBVI(self, mdp, privatizer, episodes, streams)

    def bonus(self, mdp: FiniteMDP, privatizer: Privatizer, episodes: int) -> Bonus:
        """Return the bonus L_c/sqrt(D) + 3 E_1/D + H L_c/sqrt(D) + H (S E_2 + 2 E_1)/D, as its coefficients.

        E_1 bounds the errors of visit and reward counts, E_2 those of transition counts.

        Paper: [CZ22] Lemma 2, with L_c of Lemma 1.
        """
        horizon, n_states, n_actions = mdp.rewards.shape
        bounds = privatizer.precision(self.beta).bounds
        e1 = self.precision_scale * max(bounds["visits"], bounds["rewards"])
        e2 = self.precision_scale * bounds["transitions"]
        steps = horizon * episodes
        l_c = math.sqrt(2.0 * math.log(4.0 * n_states * n_actions * steps / self.beta))
        return Bonus(
            e1=e1,
            per_root=self.bonus_scale * (1 + horizon) * l_c,
            per_count=self.bonus_scale * (3.0 * e1 + horizon * (n_states * e2 + 2.0 * e1)),
        )


class PrivateUCBVI:
    """Private-UCB-VI on one MDP.

    *Formal guarantee.* The privatizer's: everything this class computes is a function of the counts it released.

    Paper: [CZ22] Algorithm 2.
    """

    def __init__(
        self, config: PrivateUCBVIConfig, mdp: FiniteMDP, privatizer: Privatizer, episodes: int, streams: Streams
    ) -> None:
        if episodes < 2:
            raise ValueError(f"episodes must be at least 2, got {episodes}; the second is the first that can learn")
        if privatizer.families != count_families(mdp) or privatizer.n_users < episodes - 1:
            raise ValueError(
                f"the privatizer must be built for this MDP and {episodes - 1} users, "
                f"got {privatizer.families.n_cells} cells for {privatizer.n_users} users; use config.privatizer"
            )
        self.config = config
        self.privatizer = privatizer
        self.episodes = episodes
        self.episodes_done = 0
        self._bonus = config.bonus(mdp, privatizer, episodes)
        self._simulator = simulator(mdp, episodes, streams)
        horizon, n_states, n_actions = mdp.rewards.shape
        self._tables = Tables(
            policy=np.zeros((horizon, n_states), dtype=np.int64),
            optimistic=np.zeros(n_states),
            q=np.zeros(n_states * n_actions),
        )
        plan(privatizer.private_counts().values, self._bonus, self._tables)

    @property
    def policy(self) -> Int64Array:
        """The policy deployed last, int64[H, S]; before the first episode the one planned from zero counts."""
        return self._tables.policy.copy()

    def plan(self, counts: PrivateCounts) -> Int64Array:
        """Return the greedy policy int64[H, S] of optimistic value iteration on private counts."""
        tables = self._tables._replace(policy=self.policy)
        plan(counts.values, self._bonus, tables)
        return tables.policy

    def learn(self, n: int) -> Segment:
        """Run the next n episodes, compiled; raise ValueError beyond the number this learner was built for."""
        first, last = self.episodes_done + 1, self.episodes_done + n
        if n < 1 or last > self.episodes:
            raise ValueError(f"n must be in 1..{self.episodes - self.episodes_done}, got {n}; build for more episodes")
        if first < self.episodes:
            self.privatizer.charge(first, min(last, self.episodes - 1))
        regret, saturated = run(self._simulator, self.privatizer.channel, self._bonus, self._tables, first, last)
        self.episodes_done = last
        return Segment(n, regret, saturated / n)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return counts, noise, policy and position; every draw is keyed by its episode, so nothing else is needed."""
        state = {f"privatizer.{key}": value for key, value in self.privatizer.state_dict().items()}
        return state | {"policy": self.policy, "episodes_done": np.array(self.episodes_done)}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit."""
        prefix = "privatizer."
        policy, episodes_done = state.get("policy"), int(state.get("episodes_done", -1))
        if policy is None or policy.shape != self.policy.shape or policy.dtype != np.int64:
            raise ValueError("the state's 'policy' is missing or of another shape; resume with the same settings")
        if int(state[prefix + "users"][-1]) != min(episodes_done, self.episodes - 1):
            raise ValueError("the state's episodes are not those that its ledger has charged; start anew")
        self.privatizer.load_state_dict(
            {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        )
        self._tables.policy[:] = policy
        self.episodes_done = episodes_done
