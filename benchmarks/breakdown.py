"""Where our time goes: each compiled part of an episode, called alone."""

from collections.abc import Callable

import numpy as np

from benchmarks import subjects
from benchmarks.timing import Blocks, microseconds_per_episode
from dprl.algorithms.private_ucb_vi import Bonus, plan
from dprl.algorithms.tabular import N_FAMILIES, write_contribution
from dprl.envs import FiniteMDP
from dprl.envs.dynamics import deterministic_value, roll_out
from dprl.privacy import kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.privatizers import Channel, exchange
from dprl.privacy.streams import fill_uniform

_COUNTS_AFTER = 2000


@kernel
def plan_often(n: int, counts: Float64Array, bonus: Bonus, policy: Int64Array, values: Float64Array) -> None:
    """Plan n times from the same counts, but for one that moves."""
    q = np.zeros(policy.shape[1] * (counts.size // (policy.size * (policy.shape[1] + 2))))
    for _ in range(n):
        counts[0] += 1e-9
        plan(counts, bonus, policy, values, q)


@kernel
def exchange_often(n: int, channel: Channel, index: Int64Array, value: Float64Array) -> None:
    """Have users 1..n send the same contribution."""
    for user in range(1, n + 1):
        exchange(channel, index, value, user)


@kernel
def value_often(
    n: int, transitions: Float64Array, rewards: Float64Array, policy: Int64Array, values: Float64Array
) -> None:
    """Compute the exact value of n policies, of which any two in a row differ in one entry."""
    for i in range(n):
        policy[0, 0] = i & 1
        deterministic_value(transitions, rewards, policy, values)


@kernel
def roll_out_often(
    n: int, cdf: Float64Array, start_cdf: Float64Array, policy: Int64Array, rewards: Float64Array
) -> float:
    """Draw, roll out and write down n episodes."""
    horizon = policy.shape[0]
    uniforms = np.empty(horizon + 1)
    states, actions = np.empty(horizon + 1, np.int64), np.empty(horizon, np.int64)
    index, value = np.empty((horizon, N_FAMILIES), np.int64), np.empty((horizon, N_FAMILIES))
    total = 0.0
    for k in range(n):
        fill_uniform(uniforms, np.uint64(7), np.uint64(k) * np.uint64(horizon + 1))
        roll_out(cdf, start_cdf, policy, uniforms, states, actions)
        write_contribution(states, actions, rewards, index, value)
        total += value[horizon - 1, N_FAMILIES - 1]
    return total


def parts(mdp: FiniteMDP, model: subjects.Model, episodes: int, blocks: Blocks) -> dict[str, float]:
    """CPU microseconds of each part of an episode; `exact value` is paid only when the policy has changed."""
    learner = subjects.ours(mdp, model, episodes)
    learner.learn(_COUNTS_AFTER)
    privatizer = learner.privatizer
    bonus = subjects.CHOSEN.bonus(mdp, privatizer, episodes)
    counts = privatizer.private_counts().values.copy()
    policy, values = learner.policy, np.zeros((mdp.horizon + 1, mdp.n_states))
    index = np.zeros((mdp.horizon, N_FAMILIES), dtype=np.int64)
    value = np.ones((mdp.horizon, N_FAMILIES))
    channel = subjects.privatizer(mdp, model, episodes).channel

    def timed(run: Callable[[int], object]) -> float:
        run(1)
        return microseconds_per_episode(run, blocks)

    return {
        "plan": timed(lambda n: plan_often(n, counts, bonus, policy, np.zeros(mdp.n_states))),
        "roll-out": timed(lambda n: roll_out_often(n, mdp.cdf, mdp.start_cdf, policy, mdp.rewards)),
        "exchange": timed(lambda n: exchange_often(n, channel, index, value)),
        "exact value": timed(lambda n: value_often(n, mdp.transitions, mdp.rewards, policy, values)),
    }
