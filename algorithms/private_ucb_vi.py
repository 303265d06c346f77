"""Private-UCB-VI: optimistic value iteration on private counts ([CZ22] Algorithm 2).

With trust model none it is UCB-VI with a Hoeffding bonus (Azar, Osband, Munos 2017) for step-dependent kernels.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array, Segment, check_number
from dprl.algorithms.tabular import N_FAMILIES, count_families, write_contribution
from dprl.envs import FiniteMDP
from dprl.envs.dynamics import deterministic_value, roll_out
from dprl.privacy import CountFamilies, PrivateCounts, Privatizer, Streams, kernel
from dprl.privacy.privatizers import Channel, exchange
from dprl.privacy.streams import fill_uniform


class Simulator(NamedTuple):
    """The environment as the loop sees it; K = episodes; key: of the stream that moves it."""

    transitions: Float64Array
    rewards: Float64Array
    cdf: Float64Array
    start: Float64Array
    start_cdf: Float64Array
    optimal_value: float
    episodes: int
    key: np.uint64


class Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e1: E_1, added to every visit count. per_root: factor of 1/sqrt(D). per_count: factor of 1/D.
    """

    e1: float
    per_root: float
    per_count: float


class Tables(NamedTuple):
    """Scratch and state of the loop.

    policy int64[H, S]; values float64[H+1, S]: exact V^pi; optimistic float64[S]; q float64[S*A];
    uniforms float64[H+1]; states int64[H+1]; actions int64[H]; cells int64[H, 3] and
    amounts float64[H, 3]: the contribution.
    """

    policy: Int64Array
    values: Float64Array
    optimistic: Float64Array
    q: Float64Array
    uniforms: Float64Array
    states: Int64Array
    actions: Int64Array
    cells: Int64Array
    amounts: Float64Array


@kernel
def plan(
    counts: Float64Array, bonus: Bonus, policy: Int64Array, optimistic: Float64Array, q: Float64Array
) -> tuple[bool, float]:
    """Optimistic value iteration; writes the greedy policy, returns (did it change, share of saturated cells).

    counts float64[H * (S+2) * S*A], each step holding transitions [S', S, A], visits [S, A], rewards [S, A]. With
    D = max(1, N + E_1): Q = clip(R/D + sum_s' N(s')/D V(s') + bonus, 0, H-h+1). Estimated transitions are neither
    normalised nor clipped, as printed. Ties go to the lowest action.

    Paper: [CZ22] eq. (1) and Algorithm 2, lines 4-10.
    """
    horizon, n_states = policy.shape
    pairs = q.shape[0]
    n_actions = pairs // n_states
    block = pairs * (n_states + 2)
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        step = counts[h * block : (h + 1) * block]
        visits = step[n_states * pairs : (n_states + 1) * pairs]
        rewards = step[(n_states + 1) * pairs :]
        cap = float(horizon - h)
        for j in range(pairs):
            q[j] = rewards[j]
        for next_state in range(n_states):
            row = step[next_state * pairs : (next_state + 1) * pairs]
            v = optimistic[next_state]
            for j in range(pairs):
                q[j] += row[j] * v
        for j in range(pairs):
            inverse = 1.0 / max(1.0, visits[j] + bonus.e1)
            q[j] = min(cap, max(0.0, (q[j] + bonus.per_count) * inverse + bonus.per_root * math.sqrt(inverse)))
        for s in range(n_states):
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
def start_value(start: Float64Array, values: Float64Array) -> float:
    """Return the expected value of the first state; start float64[S], values float64[H+1, S]."""
    total = 0.0
    for s in range(start.shape[0]):
        total += start[s] * values[0, s]
    return total


@kernel
def run(mdp: Simulator, channel: Channel, bonus: Bonus, tables: Tables, first: int, last: int) -> tuple[float, float]:
    """Play episodes first..last (1-based, inclusive) of K; return the summed regret and the summed saturated share.

    The user of the last episode K sends nothing: no later policy could use it.

    Paper: [CZ22] Algorithm 2.
    """
    regret, saturated = 0.0, 0.0
    draws = np.uint64(tables.uniforms.shape[0])
    value = -1.0
    for k in range(first, last + 1):
        changed, share = plan(channel.released, bonus, tables.policy, tables.optimistic, tables.q)
        if changed or k == first:
            deterministic_value(mdp.transitions, mdp.rewards, tables.policy, tables.values)
            value = start_value(mdp.start, tables.values)
        regret += mdp.optimal_value - value
        saturated += share
        fill_uniform(tables.uniforms, mdp.key, np.uint64(k) * draws)
        roll_out(mdp.cdf, mdp.start_cdf, tables.policy, tables.uniforms, tables.states, tables.actions)
        if k < mdp.episodes:
            write_contribution(tables.states, tables.actions, mdp.rewards, tables.cells, tables.amounts)
            exchange(channel, tables.cells, tables.amounts, k)
    return regret, saturated


@dataclass(frozen=True)
class PrivateUCBVISettings:
    """Settings of Private-UCB-VI.

    Args:
        bonus_scale: c >= 0, multiplies the whole exploration bonus; 1 is the paper.
        precision_scale: c_E >= 0, multiplies E_1 and E_2 wherever planning uses them; 1 is the paper. Both act after
            the noise and leave the privacy guarantee alone.
        beta: failure probability of the confidence bounds ([CZ22] writes delta), in (0, 1).
    """

    bonus_scale: float = 1.0
    precision_scale: float = 1.0
    beta: float = 0.1
    name: ClassVar[str] = "private_ucb_vi"

    def __post_init__(self) -> None:
        check_number("bonus_scale", self.bonus_scale, 0.0)
        check_number("precision_scale", self.precision_scale, 0.0)
        check_number("beta", self.beta, np.nextafter(0.0, 1.0), 1.0)

    def families(self, mdp: FiniteMDP) -> CountFamilies:
        """Return what the algorithm counts."""
        return count_families(mdp)

    def build(self, mdp: FiniteMDP, privatizer: Privatizer, episodes: int, streams: Streams) -> "PrivateUCBVI":
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
        self, settings: PrivateUCBVISettings, mdp: FiniteMDP, privatizer: Privatizer, episodes: int, streams: Streams
    ) -> None:
        if episodes < 2:
            raise ValueError(f"episodes must be at least 2, got {episodes}; the second is the first that can learn")
        self.settings = settings
        self.privatizer = privatizer
        self.episodes = episodes
        self.episodes_done = 0
        self._bonus = settings.bonus(mdp, privatizer, episodes)
        self._simulator = Simulator(
            transitions=mdp.transitions,
            rewards=mdp.rewards,
            cdf=mdp.cdf,
            start=mdp.start,
            start_cdf=mdp.start_cdf,
            optimal_value=mdp.optimal_start_value(),
            episodes=episodes,
            key=streams.key("env"),
        )
        self._tables = _tables(*mdp.rewards.shape)
        self.plan(privatizer.private_counts())

    @property
    def policy(self) -> Int64Array:
        """The policy deployed last, int64[H, S]; before the first episode the one planned from zero counts."""
        return self._tables.policy.copy()

    def plan(self, counts: PrivateCounts) -> Int64Array:
        """Return the greedy policy int64[H, S] of optimistic value iteration on private counts."""
        plan(counts.values, self._bonus, self._tables.policy, self._tables.optimistic, self._tables.q)
        return self.policy

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
        self.privatizer.load_state_dict(
            {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        )
        self._tables.policy[:] = state["policy"]
        self.episodes_done = int(state["episodes_done"])


def _tables(horizon: int, n_states: int, n_actions: int) -> Tables:
    return Tables(
        policy=np.zeros((horizon, n_states), dtype=np.int64),
        values=np.zeros((horizon + 1, n_states)),
        optimistic=np.zeros(n_states),
        q=np.zeros(n_states * n_actions),
        uniforms=np.zeros(horizon + 1),
        states=np.zeros(horizon + 1, dtype=np.int64),
        actions=np.zeros(horizon, dtype=np.int64),
        cells=np.zeros((horizon, N_FAMILIES), dtype=np.int64),
        amounts=np.zeros((horizon, N_FAMILIES)),
    )
