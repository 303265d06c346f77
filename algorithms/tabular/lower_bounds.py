"""Lower bounds on the value of a policy from private counts, for all value functions at once: docs/offline_vi.md."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import SATURATED, Float64Array, Int64Array, Metric
from dprl.algorithms.tabular.simulator import N_FAMILIES
from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer, CountQuery, WeightedSums
from dprl.privacy.queries.count_kernels import Released

# With more next states, bounds for single cells replace bounds for all their subsets.
_MOST_SUBSETS = 2**20

LOWER_BOUND = Metric(
    "lower_bound",
    "last",
    "reward",
    of="output",
    short="bound",
    definition="the proved lower bound on the output policy's value",
    better="high",
    covered=True,
)
UNINFORMED = replace(
    SATURATED,
    over="last",
    of="output",
    definition="the share of (h, s, a) with no lower bound from the counts, about which the policy knows nothing",
)
VALUE = Metric(
    "value",
    "last",
    "reward",
    of="output",
    short="value",
    definition="the output policy's exact value",
    better="high",
    covered=True,
)


class Limits(NamedTuple):
    """The numbers of the bounds.

    e: error bound of weighted sums of transitions, for all weights in [0, 1] at once; e_rewards: error bound of a count
    of rewards or losses; divergence: u, the bound on N KL(empirical, true next states); iota: the same for rewards;
    scale: factor of the penalty.
    """

    e: float
    e_rewards: float
    divergence: float
    iota: float
    scale: float


@no_alloc_kernel
def lower_value(
    step: Float64Array, pair: int, values: Float64Array, cap: float, limits: Limits, losses: bool
) -> tuple[float, bool]:
    """Return a lower bound on r(s,a) + sum_s' P(s'|s,a) values(s') in [0, cap], and whether the counts improve it.

    step float64[S+2, S*A]: transitions, visits, rewards or losses; values float64[S]: of the next step, at least 0.
    """
    n_states = values.shape[0]
    low, high, total, first = values[0], values[0], 0.0, 0.0
    for t in range(n_states):
        low, high = min(low, values[t]), max(high, values[t])
        total += step[t, pair]
        first += step[t, pair] * values[t]
    known, most, third = total - limits.e, total + limits.e, step[n_states + 1, pair]
    if known <= 0.0:
        return min(low, cap), False
    mean, squares, span = min(max(first / total, low), high), 0.0, high - low
    for t in range(n_states):
        squares += step[t, pair] * (values[t] - mean) ** 2
    squares = min(max(squares, 0.0) + max(mean - low, high - mean) ** 2 * limits.e, 0.25 * most * span * span)
    penalty = span * (limits.e + limits.divergence) + math.sqrt(2.0 * limits.divergence * squares)
    after = max(low, mean - limits.scale * penalty / known)
    share = min(max(third / total, 0.0), 1.0)
    spread = min(third, total - third + limits.e) + limits.e_rewards
    spread = min(max(spread, 0.0), 0.25 * most)
    penalty = limits.e_rewards + share * limits.e + limits.iota + math.sqrt(2.0 * limits.iota * spread)
    reward = max(0.0, (1.0 - share if losses else share) - limits.scale * penalty / known)
    return min(reward + after, cap), reward + after > low


@kernel
def lower_values(counts: Released, policy: Float64Array, limits: Limits, losses: bool) -> Float64Array:
    """Return lower bounds float64[S] on the values of a policy float64[H, S, A] at the first step."""
    horizon, n_states, n_actions = policy.shape
    bounds, older = np.zeros(n_states), np.zeros(n_states)
    if counts.users == 0:
        return bounds
    values = counts.values.reshape((-1, n_states + 2, n_states * n_actions))
    for h in range(horizon - 1, -1, -1):
        older[:] = bounds
        step = values[h if values.shape[0] == horizon else 0]
        for s in range(n_states):
            bounds[s] = 0.0
            for a in range(n_actions):
                if policy[h, s, a] > 0.0:
                    bound, _ = lower_value(step, s * n_actions + a, older, float(horizon - h), limits, losses)
                    bounds[s] += policy[h, s, a] * bound
    return bounds


def probabilities(policy: Int64Array | Float64Array, n_actions: int) -> Float64Array:
    """Return a policy, int64[H, S] or float64[H, S, A], as probabilities float64[H, S, A]."""
    return np.eye(n_actions)[policy] if policy.ndim == 2 else np.asarray(policy, dtype=np.float64)


def check_bounded(query: CountQuery) -> None:
    """Raise ValueError unless error bounds of the counts are exact, and users count rewards or losses."""
    if query.noise.printed is not None:
        raise ValueError(
            "precision must be exact for lower bounds, got 'printed'; no paper prints bounds of weighted sums"
        )
    if len(query.families.families) < N_FAMILIES:
        raise ValueError("known_rewards must be false for lower bounds, got True; they are made from counted rewards")


def limits_of(env: FiniteMDP, privatizer: CountPrivatizer, beta: float, n_next: int = 0) -> Limits:
    """Return the numbers of the bounds, which hold with probability 1 - beta for all releases of a run.

    Half of beta is for the noise, half for the users' episodes. n_next: number of possible next states, 0 for all.
    Raises ValueError as `check_bounded`.
    """
    n_next = n_next or env.n_states
    query, users = privatizer.query, privatizer.capacity
    check_bounded(query)
    layers = query.families.layers
    pairs, visits = layers * env.n_states * env.n_actions, env.horizon // layers * users
    iota = math.log(4.0 * pairs * visits / beta)

    def bound(family: str, cells: int, number: int) -> float:
        return query.weighted_precision(WeightedSums(family, cells, number, users), beta / 4.0)

    e = n_next * bound("transitions", 1, n_next * pairs)
    if 2**n_next <= _MOST_SUBSETS:
        e = min(e, bound("transitions", n_next, 2**n_next * pairs))
    return Limits(e, bound(query.families.families[2].name, 1, pairs), divergence_bound(n_next, iota), iota, 1.0)


def divergence_bound(n_states: int, iota: float) -> float:
    """Return u with P(N KL(empirical law of N draws, their law) >= u) <= e^-iota, for laws on this many states.

    Paper: Agrawal 2020 (the moment generating function is at most that of a gamma law).
    """
    others = n_states - 1
    if others == 0:
        return 0.0
    u = 2.0 * iota + 4.0 * others  # above the root of u - others ln(e u / others) = iota, and falls to it
    for _ in range(100):
        u = iota + others * (1.0 + math.log(u / others))
    return u
