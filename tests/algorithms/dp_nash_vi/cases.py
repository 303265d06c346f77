"""Shared cases of DP-Nash-VI: games solved by hand, and the bounds of a plan at every step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dprl.algorithms import TabularLearner
from dprl.algorithms.dp_nash_vi.algorithm import _NashBonus, _NashPlanner, _NashTables, plan
from dprl.algorithms.tabular import Released
from dprl.envs.games import MarkovGame
from dprl.privacy.base import Float64Array


class Bounds(NamedTuple):
    """A joint policy float64[H, S, A, B], and V_up and V_lo float64[H, S] of its plan."""

    policy: Float64Array
    upper: Float64Array
    lower: Float64Array


def repeated(payoff: ArrayLike, horizon: int) -> MarkovGame:
    """The same matrix game [A, B] in every step, in one state."""
    matrix = np.asarray(payoff, dtype=np.float64)
    rewards = np.broadcast_to(matrix, (horizon, 1, *matrix.shape))
    return MarkovGame("repeated", np.ones((*rewards.shape, 1)), rewards, np.ones(1))


def numbers(e: float = 0.0, per_gap: float = 0.0, per_deviation: float = 0.0, per_count: float = 0.0) -> _NashBonus:
    """A bonus, by default none."""
    return _NashBonus(e, per_gap, per_deviation, per_count)


def planned(game: MarkovGame, values: Float64Array, bonus: _NashBonus) -> _NashTables:
    """The tables that planning leaves, values float64[H * (S+1) * S*A*B]."""
    tables = _NashTables.first(game)
    plan(Released(values, 1, 1), _NashPlanner.of(game, bonus), tables)
    return tables


def from_step(game: MarkovGame, h: int) -> MarkovGame:
    """The same game without its first h steps."""
    return MarkovGame(game.name, game.transitions[h:], game.rewards[h:], game.start)


def next_bounds(algorithm: TabularLearner, game: MarkovGame) -> Bounds:
    """The next plan's policy and bounds at every step.

    The tables keep the first step's only, but those of step h are the first step's of the game that starts there.
    """
    learner: Any = algorithm
    counts = algorithm.privatizer.release()
    rows = counts.values.reshape(game.horizon, -1)
    upper, lower = np.empty(game.rewards.shape[:2]), np.empty(game.rewards.shape[:2])
    policy = algorithm.plan(counts)
    for h in range(game.horizon):
        tables = planned(from_step(game, h), rows[h:].ravel(), learner._bonus.bonus)
        assert np.array_equal(tables.policy, policy[h:])
        upper[h], lower[h] = tables.optimistic, tables.pessimistic
    return Bounds(np.asarray(policy, dtype=np.float64), upper, lower)
