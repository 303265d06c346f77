"""Lower bounds on the value of a policy from private counts, for all value functions at once: docs/offline_vi.md."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from dprl.algorithms.base import SATURATED, Float64Array, Metric
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer, CountQuery, WeightedSums

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
    of rewards; divergence: u, the bound on N KL(empirical, true next states); iota: the same for rewards;
    scale: factor of the penalty.
    """

    e: float
    e_rewards: float
    divergence: float
    iota: float
    scale: float


@no_alloc_kernel
def lower_value(step: Float64Array, pair: int, values: Float64Array, cap: float, limits: Limits) -> tuple[float, bool]:
    """Return a lower bound on r(s,a) + sum_s' P(s'|s,a) values(s') in [0, cap], and whether the counts improve it.

    step float64[S+2, S*A]: transitions, visits, rewards; values float64[S]: of the next step, at least 0.
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
    reward = max(0.0, share - limits.scale * penalty / known)
    return min(reward + after, cap), reward + after > low


def check_bounded(query: CountQuery) -> None:
    """Raise ValueError unless error bounds of the counts are exact."""
    if query.noise.printed is not None:
        raise ValueError(
            "precision must be exact for lower bounds, got 'printed'; no paper prints bounds of weighted sums"
        )


def limits_of(env: FiniteMDP, privatizer: CountPrivatizer, beta: float) -> Limits:
    """Return the numbers of the bounds, which hold with probability 1 - beta for all releases of a run.

    Half of beta is for the noise, half for the users' episodes. Raises ValueError as `check_bounded`.
    """
    n_next, query, users = env.n_states, privatizer.query, privatizer.capacity
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
