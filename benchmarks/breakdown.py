"""Where our time goes: each compiled part of an episode, called alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import subjects
from benchmarks.timing import Blocks, microseconds_per_episode
from dprl.algorithms import private_ucb_po, private_ucb_vi
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.counts import N_FAMILIES
from dprl.algorithms.tabular.cz22 import Bonus
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.algorithms.tabular.simulator import (
    Simulator,
    play,
    play_stochastic,
    policy_value,
    simulator,
    stochastic_policy_value,
)
from dprl.envs import FiniteMDP
from dprl.privacy import Streams, kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counts.exchange import CHARGED, Channel, exchange

_COUNTS_AFTER = 2000


@kernel
def plan_often(n: int, counts: Float64Array, bonus: Bonus, tables: GreedyTables) -> None:
    """Plan n times from the same counts, but for one that moves."""
    for _ in range(n):
        counts[0] += 1e-9
        private_ucb_vi.plan(Released(counts, 1, 1), bonus, tables)


@kernel
def optimise_often(n: int, counts: Float64Array, bonus: private_ucb_po.Bonus, tables: private_ucb_po.Tables) -> None:
    """The same with a policy that is improved and evaluated."""
    for _ in range(n):
        counts[0] += 1e-9
        private_ucb_po.plan(Released(counts, 1, 1), bonus, tables)


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
def stochastic_value_often(n: int, simulator: Simulator, policy: Float64Array) -> None:
    """The same with stochastic policies."""
    for _ in range(n):
        policy[0, 0, 0] += 1e-12
        stochastic_policy_value(simulator, policy)


@kernel
def play_often(n: int, simulator: Simulator, policy: Int64Array) -> None:
    """Draw, roll out and write down n episodes."""
    for user in range(1, n + 1):
        play(simulator, policy, user)


@kernel
def play_stochastic_often(n: int, simulator: Simulator, policy: Float64Array) -> None:
    """The same with a stochastic policy."""
    for user in range(1, n + 1):
        play_stochastic(simulator, policy, user)


@dataclass(frozen=True)
class Kernels:
    """The parts of an algorithm's episode that are its own, each called n times."""

    plan: Callable[..., None]
    play: Callable[..., None]
    value: Callable[..., None]


KERNELS = {
    "private_ucb_vi": Kernels(plan_often, play_often, value_often),
    "private_ucb_po": Kernels(optimise_often, play_stochastic_often, stochastic_value_often),
}


def parts(case: subjects.Subject, mdp: FiniteMDP, model: subjects.Model, blocks: Blocks) -> dict[str, float]:
    """CPU microseconds of each part of an episode; `exact value` is paid only when the policy has changed."""
    learner = case.ours(mdp, model, subjects.PLANNED_EPISODES)
    learner.learn(_COUNTS_AFTER)
    privatizer, own = learner.privatizer, KERNELS[case.settings.name]
    bonus = case.settings.bonus(mdp, privatizer, subjects.PLANNED_EPISODES)
    tables = case.settings.tables(mdp, subjects.PLANNED_EPISODES)
    counts = privatizer.private_counts().values.copy()
    policy = learner.policy
    users = simulator(mdp, subjects.PLANNED_EPISODES, Streams(0, "breakdown"))
    cells = np.zeros((mdp.horizon, N_FAMILIES), dtype=np.int64)
    amounts = np.ones((mdp.horizon, N_FAMILIES))
    channel = case.privatizer(mdp, model, subjects.PLANNED_EPISODES).channel

    def timed(run: Callable[[int], object]) -> float:
        run(1)
        return microseconds_per_episode(run, blocks)

    return {
        "plan": timed(lambda n: own.plan(n, counts, bonus, tables)),
        "roll-out": timed(lambda n: own.play(n, users, policy)),
        "exchange": timed(lambda n: exchange_often(n, channel, cells, amounts)),
        "exact value": timed(lambda n: own.value(n, users, policy)),
    }
