"""Where our time goes: each compiled part of an episode, called alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import subjects
from benchmarks.timing import Blocks, microseconds_per_episode
from dprl.algorithms.private_ucb_vi import Bonus, Tables, plan
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.counts import N_FAMILIES
from dprl.algorithms.tabular.simulator import Simulator, play, policy_value, simulator
from dprl.envs import FiniteMDP
from dprl.privacy import Streams, kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.exchange import CHARGED, Channel, exchange

_COUNTS_AFTER = 2000


@kernel
def plan_often(n: int, counts: Float64Array, bonus: Bonus, tables: Tables) -> None:
    """Plan n times from the same counts, but for one that moves."""
    for _ in range(n):
        counts[0] += 1e-9
        plan(Released(counts, 1, 1), bonus, tables)


@kernel
def exchange_often(n: int, channel: Channel, cells: Int64Array, amounts: Float64Array) -> None:
    """Have users 1..n send the same contribution."""
    for user in range(1, n + 1):
        channel.users[:] = user - 1
        channel.users[CHARGED] = user
        exchange(channel, cells, amounts, user)


@kernel
def value_often(n: int, simulator: Simulator, policy: Int64Array) -> None:
    """Compute the exact value of n policies, of which any two in a row differ in one entry."""
    for i in range(n):
        policy[0, 0] = i & 1
        policy_value(simulator, policy)


@kernel
def play_often(n: int, simulator: Simulator, policy: Int64Array) -> None:
    """Draw, roll out and write down n episodes."""
    for user in range(1, n + 1):
        play(simulator, policy, user)


def parts(mdp: FiniteMDP, model: subjects.Model, episodes: int, blocks: Blocks) -> dict[str, float]:
    """CPU microseconds of each part of an episode; `exact value` is paid only when the policy has changed."""
    learner = subjects.ours(mdp, model, episodes)
    learner.learn(_COUNTS_AFTER)
    privatizer = learner.privatizer
    bonus = subjects.CHOSEN.bonus(mdp, privatizer, episodes)
    counts = privatizer.private_counts().values.copy()
    policy = learner.policy
    tables = Tables(policy.copy(), np.zeros(mdp.n_states), np.zeros(mdp.n_states * mdp.n_actions))
    users = simulator(mdp, episodes, Streams(0, "breakdown"))
    cells = np.zeros((mdp.horizon, N_FAMILIES), dtype=np.int64)
    amounts = np.ones((mdp.horizon, N_FAMILIES))
    channel = subjects.privatizer(mdp, model, episodes).channel

    def timed(run: Callable[[int], object]) -> float:
        run(1)
        return microseconds_per_episode(run, blocks)

    return {
        "plan": timed(lambda n: plan_often(n, counts, bonus, tables)),
        "roll-out": timed(lambda n: play_often(n, users, policy)),
        "exchange": timed(lambda n: exchange_often(n, channel, cells, amounts)),
        "exact value": timed(lambda n: value_often(n, users, policy)),
    }
