"""Private-UCB-VI against a plain NumPy reading of the paper's box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import PrivateUCBVIConfig
from dprl.algorithms.private_ucb_vi import CZ22Bonus, plain_plan, plan
from dprl.algorithms.tabular import Released, count_families
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.algorithms.tabular.simulator import write_contribution
from dprl.envs import FiniteMDP
from dprl.envs.dynamics import roll_out
from dprl.privacy import CountPrivacy, Streams, UserRecord
from dprl.privacy.randomness.bits import fill_uniform
from tests.algorithms.cases import COUNTS, PRACTICAL, TRUST, Learner, clearly_best, families, greedy_plan, true_counts
from tests.privacy.sending import sent


def step_by_step(algorithm: Any, mdp: FiniteMDP, streams: Streams) -> tuple[float, np.ndarray]:
    """Play the whole run one user at a time through send and receive; return the regret and the last policy."""
    horizon = mdp.horizon
    states, actions = np.zeros(horizon + 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    uniforms, key = np.zeros(horizon + 1), streams.key("env")
    regret, counts = 0.0, algorithm.privatizer.release()
    policy = algorithm.policy
    for k in range(1, algorithm.episodes + 1):
        policy = algorithm.plan(counts)
        regret += mdp.optimal_start_value() - mdp.start_value(policy)
        fill_uniform(uniforms, key, np.uint64(k * (horizon + 1)))
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
        if k < algorithm.episodes:
            index, value = np.zeros((horizon, 3), dtype=np.int64), np.zeros((horizon, 3))
            write_contribution(states, actions, mdp.rewards, index, value)
            counts = sent(algorithm.privatizer, UserRecord(index, value), k)
    return regret, policy


@TRUST
def test_the_compiled_loop_equals_one_user_at_a_time(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    compiled = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    slow = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    regret, policy = step_by_step(slow, random_mdp, Streams(0, "test"))
    assert compiled.learn(60)["regret"] == pytest.approx(regret, abs=1e-9)
    assert np.array_equal(compiled.policy, policy)
    for key, value in slow.privatizer.state_dict().items():
        assert np.array_equal(compiled.privatizer.state_dict()[key], value)


@COUNTS
@TRUST
def test_planning_equals_the_papers_box(privacy: Any, form: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    episodes = 400
    settings: Any = PRACTICAL | {"counts": form}
    algorithm = learner(random_mdp, episodes, privacy, **settings)
    bonus = PrivateUCBVIConfig(**settings).bonus(random_mdp, algorithm.privatizer, episodes)
    compared = 0
    for _ in range(20):
        algorithm.learn(15)
        counts = algorithm.privatizer.release()
        policy, q = plain_plan(counts, bonus, random_mdp.rewards.shape)
        ours = algorithm.plan(counts)
        clear = clearly_best(q)
        assert np.array_equal(ours[clear], policy[clear])
        compared += int(clear.sum())
    assert compared > 50


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CountPrivacy("jdp", 1.0, calibration="printed", precision="printed")
    algorithm = learner(random_mdp, episodes, privacy)
    bonus = PrivateUCBVIConfig(beta=beta).bonus(random_mdp, algorithm.privatizer, episodes)
    sat, log_k = n_states * n_actions * horizon * episodes, np.log(episodes)
    e1 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat / beta))
    e2 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat * n_states / beta))
    l_c = np.sqrt(2 * np.log(4 * sat / beta))
    assert bonus[:4] == pytest.approx((e1, (1 + horizon) * l_c, 3 * e1 + horizon * (n_states * e2 + 2 * e1), 0.0))
    scaled = PrivateUCBVIConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(
        random_mdp, algorithm.privatizer, episodes
    )
    assert scaled[:4] == pytest.approx((0.1 * bonus.e1, 0.5 * bonus.per_root, 0.05 * bonus.per_count, 0.0))


def test_ties_go_to_the_lowest_action(river: FiniteMDP) -> None:
    cells = count_families(river).n_cells
    policy = np.ones((4, 3), dtype=np.int64)
    changed, saturated = plan(
        Released(np.zeros(cells), 0, 0), CZ22Bonus(0.0, 100.0, 0.0), GreedyTables(policy, np.zeros(3), np.zeros(6))
    )
    assert changed
    assert saturated == 1.0
    assert not policy.any()


def test_noise_bounds_make_the_cost_form_more_optimistic(random_mdp: FiniteMDP) -> None:
    """Dividing by N + E shrinks estimated rewards and estimated costs alike (D25)."""
    values = true_counts(random_mdp, 1000)
    costs = values.copy()
    families(costs, random_mdp.rewards.shape)[2][:] = 1000 * (1.0 - random_mdp.rewards)
    for e1, more in ((0.0, False), (50.0, True)):
        bonus = CZ22Bonus(e1, 0.1, 3.0 * e1 / 100)
        _, in_rewards, _ = greedy_plan(plan, values, bonus, random_mdp)
        _, in_costs, _ = greedy_plan(plan, costs, bonus._replace(costs=1.0), random_mdp)
        if more:
            assert (in_costs > in_rewards).all()
        else:
            np.testing.assert_allclose(in_costs, in_rewards, rtol=1e-12)
