"""LDP-OBI against a plain NumPy reading of its formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import LDPOBIConfig
from dprl.algorithms.ldp_obi import _Bonus, plain_plan, plan
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import FiniteMDP
from tests.algorithms.cases import TRUST, Learner, clearly_best, greedy_plan


@TRUST
def test_planning_equals_the_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    values: dict[str, Any] = {"bonus_scale": 0.02, "precision_scale": 0.05, "beta": 0.05, "alpha": 1.5}
    episodes, settings = 3000, LDPOBIConfig(**values)
    algorithm = learner(random_mdp, episodes, privacy, name="ldp_obi", **values)
    bonus = settings.bonus(random_mdp, algorithm.privatizer, episodes)
    bounds = algorithm.privatizer.precision(settings.beta)
    c1, c2, c4 = (0.05 * bounds[name] for name in ("rewards", "visits", "transitions"))
    horizon, n_states, n_actions = random_mdp.rewards.shape
    log = np.log(4 * np.pi**2 * n_states * n_actions * horizon / (3 * 0.05))
    of_rewards, of_transitions = (np.sqrt(2), 2.5 * c2 + c1), (np.sqrt(14 * n_states), n_states * c4 + 2.5 * c2)
    assert bonus == pytest.approx((1.5 * c2, log, *(0.02 * np.array([*of_rewards, *of_transitions]))))
    caps = np.arange(random_mdp.horizon, 0, -1)[:, None, None]
    compared, below = 0, 0
    for _ in range(10):
        algorithm.learn(300)
        counts = algorithm.privatizer.release()
        _, q = plain_plan(counts, bonus, random_mdp.rewards.shape)
        policy, first_q, saturated = greedy_plan(plan, counts.values, bonus, random_mdp, counts.users)
        assert first_q == pytest.approx(q[0], abs=1e-9)
        assert saturated == np.mean(q >= caps)
        clear = clearly_best(q)
        assert np.array_equal(policy[clear], q.argmax(axis=2)[clear])
        compared += int(clear.sum())
        below += int((q < caps).sum())
    assert compared > 50
    assert below > 50


def test_the_policy_is_greedy_before_values_are_clipped(random_mdp: FiniteMDP) -> None:
    # Two cells of each state are far above the cap; the one with fewer visits has the larger bonus and must win.
    horizon, n_states, n_actions = random_mdp.rewards.shape
    values = np.zeros((horizon, n_states + 2, n_states, n_actions))
    values[:, n_states] = [30.0, 10.0, 20.0]
    tables = GreedyTables(np.zeros((horizon, n_states), np.int64), np.zeros(n_states), np.zeros(n_states * n_actions))
    changed, saturated = plan(Released(values.ravel(), 59, 1), _Bonus(0.0, 5.0, 100.0, 0.0, 0.0, 0.0), tables)
    assert changed
    assert saturated == 1.0
    assert np.all(tables.policy == 1)
    assert np.all(tables.optimistic == horizon)


def test_a_number_below_one_is_refused_as_alpha() -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number, at least 1"):
        LDPOBIConfig(alpha=0.9)
    with pytest.raises(ValueError, match="bonus_scale must be a finite number, at least 0"):
        LDPOBIConfig(bonus_scale=-1.0)


def test_no_theorem_covers_any_run() -> None:
    assert LDPOBIConfig().covered_by is None
