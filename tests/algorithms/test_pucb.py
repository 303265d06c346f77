"""PUCB against a plain NumPy reading of its box, and next to UBEV when there is no noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import PUCBConfig
from dprl.algorithms.pucb import _Bonus, plain_plan, plan
from dprl.algorithms.tabular import Released, count_families
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import FiniteMDP, RandomMDP
from tests.algorithms.cases import TRUST, Learner, clearly_best, greedy_plan


@TRUST
def test_planning_equals_the_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    episodes, beta, c, c_e = 3000, 0.1, 0.02, 0.02
    settings = PUCBConfig(bonus_scale=c, precision_scale=c_e, beta=beta)
    algorithm = learner(random_mdp, episodes, privacy, name="pucb", bonus_scale=c, precision_scale=c_e, beta=beta)
    bonus = settings.bonus(random_mdp, algorithm.privatizer, episodes)
    e = c_e * max(algorithm.privatizer.precision(beta).values())
    horizon, n_states, _ = random_mdp.rewards.shape
    log_term, psi = np.log(episodes * 2 * random_mdp.rewards.size / beta), 1 + n_states * horizon
    root = c * (horizon + 1) * np.sqrt(2 * log_term)
    assert bonus == pytest.approx((e, max(2 * e, 1.0), root, 3 * c * psi * e, 2 * c * psi * e**2))
    compared, estimated = 0, 0
    for _ in range(10):
        algorithm.learn(300)
        counts = algorithm.privatizer.release()
        _, q = plain_plan(counts, bonus, random_mdp.rewards.shape)
        policy, first_q, saturated = greedy_plan(plan, counts.values, bonus, random_mdp)
        assert first_q == pytest.approx(q[0], abs=1e-9)
        assert saturated == np.mean(q == random_mdp.horizon)
        clear = clearly_best(q)
        assert np.array_equal(policy[clear], q.argmax(axis=2)[clear])
        compared += int(clear.sum())
        estimated += int((q < random_mdp.horizon).sum())
    assert compared > 50
    assert estimated > 50


@pytest.mark.parametrize(("visits", "value"), [(7.999, 2.0), (8.0, 6.0 / 8 + 0.25)])
def test_a_count_is_used_from_twice_its_error_on(visits: float, value: float) -> None:
    # One state, one action, two steps. The last step has 6 of reward; with fewer than 2 E = 8 visits it is worth H = 2.
    mdp = RandomMDP(n_states=1, n_actions=1, horizon=2, seed=0).build()
    many = 1e12
    values = np.array([many, many, 0.0, visits, visits, 6.0])
    assert values.size == count_families(mdp).n_cells
    tables = GreedyTables(np.zeros((2, 1), dtype=np.int64), np.zeros(1), np.zeros(1))
    plan(Released(values, 10, 1), _Bonus(4.0, 8.0, 0.5, 0.0, 0.0), tables)
    assert tables.q[0] == pytest.approx(value, abs=1e-5)


def test_no_theorem_covers_any_run() -> None:
    assert PUCBConfig().covered_by is None
