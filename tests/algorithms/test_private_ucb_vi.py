"""Private-UCB-VI against a plain NumPy reading of the paper's box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import PrivateUCBVIConfig
from dprl.algorithms.private_ucb_vi import Bonus, plan
from dprl.algorithms.tabular import Released, count_families
from dprl.algorithms.tabular.counts import write_contribution
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import FiniteMDP
from dprl.envs.dynamics import roll_out
from dprl.privacy import CentralPrivacy, Contribution, PrivateCounts, Streams
from dprl.privacy.randomness.bits import fill_uniform
from tests.algorithms.cases import TRUST, Learner, clearly_best, families


def planned_by_the_box(counts: PrivateCounts, mdp: FiniteMDP, bonus: Bonus) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2, lines 4-10, in NumPy; returns policy [H, S] and Q [H, S, A]."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions, visits, rewards = families(counts.values, mdp.rewards.shape)
    q = np.empty((horizon, n_states, n_actions))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        d = np.maximum(1.0, visits[h] + bonus.e1)
        r_hat, p_hat = rewards[h] / d, np.moveaxis(transitions[h], 0, -1) / d[..., None]
        beta = bonus.per_root / np.sqrt(d) + bonus.per_count / d
        q[h] = np.clip(r_hat + p_hat @ value + beta, 0.0, horizon - h)
        value = q[h].max(axis=1)
    return q.argmax(axis=2), q


def step_by_step(algorithm: Any, mdp: FiniteMDP, streams: Streams) -> tuple[float, np.ndarray]:
    """Play the whole run one user at a time through encode and absorb; return the regret and the last policy."""
    horizon = mdp.horizon
    states, actions = np.zeros(horizon + 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    uniforms, key = np.zeros(horizon + 1), streams.key("env")
    regret, counts = 0.0, algorithm.privatizer.private_counts()
    policy = algorithm.policy
    for k in range(1, algorithm.episodes + 1):
        policy = algorithm.plan(counts)
        regret += mdp.optimal_start_value() - mdp.start_value(policy)
        fill_uniform(uniforms, key, np.uint64(k * (horizon + 1)))
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
        if k < algorithm.episodes:
            index, value = np.zeros((horizon, 3), dtype=np.int64), np.zeros((horizon, 3))
            write_contribution(states, actions, mdp.rewards, index, value)
            counts = algorithm.privatizer.absorb(algorithm.privatizer.encode(Contribution(index, value), k))
    return regret, policy


@TRUST
def test_the_compiled_loop_equals_one_user_at_a_time(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    compiled = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    slow = learner(random_mdp, 60, privacy, bonus_scale=0.1)
    regret, policy = step_by_step(slow, random_mdp, Streams(0, "test"))
    assert compiled.learn(60).regret == pytest.approx(regret, abs=1e-9)
    assert np.array_equal(compiled.policy, policy)
    for key, value in slow.privatizer.state_dict().items():
        assert np.array_equal(compiled.privatizer.state_dict()[key], value)


@TRUST
def test_planning_equals_the_papers_box(privacy: Any, learner: Learner, random_mdp: FiniteMDP) -> None:
    episodes = 400
    algorithm = learner(random_mdp, episodes, privacy, bonus_scale=0.05)
    bonus = PrivateUCBVIConfig(bonus_scale=0.05).bonus(random_mdp, algorithm.privatizer, episodes)
    compared = 0
    for _ in range(20):
        algorithm.learn(15)
        counts = algorithm.privatizer.private_counts()
        policy, q = planned_by_the_box(counts, random_mdp, bonus)
        ours = algorithm.plan(counts)
        clear = clearly_best(q)
        assert np.array_equal(ours[clear], policy[clear])
        compared += int(clear.sum())
    assert compared > 50


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CentralPrivacy(1.0, calibration="printed", precision="printed")
    algorithm = learner(random_mdp, episodes, privacy)
    bonus = PrivateUCBVIConfig(beta=beta).bonus(random_mdp, algorithm.privatizer, episodes)
    sat, log_k = n_states * n_actions * horizon * episodes, np.log(episodes)
    e1 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat / beta))
    e2 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat * n_states / beta))
    l_c = np.sqrt(2 * np.log(4 * sat / beta))
    assert bonus == pytest.approx((e1, (1 + horizon) * l_c, 3 * e1 + horizon * (n_states * e2 + 2 * e1)))
    scaled = PrivateUCBVIConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(
        random_mdp, algorithm.privatizer, episodes
    )
    assert scaled == pytest.approx((0.1 * bonus.e1, 0.5 * bonus.per_root, 0.05 * bonus.per_count))


def test_without_privacy_the_precision_is_zero(learner: Learner, river: FiniteMDP) -> None:
    bonus = PrivateUCBVIConfig().bonus(river, learner(river, 100).privatizer, 100)
    assert bonus.e1 == 0.0
    assert bonus.per_count == 0.0


def test_paper_constants_saturate_on_a_short_run(learner: Learner, river: FiniteMDP) -> None:
    segment = learner(river, 200, CentralPrivacy(1.0)).learn(200)
    assert segment.saturated == 1.0
    assert segment.regret == pytest.approx(
        200 * (river.optimal_start_value() - river.start_value(np.zeros((4, 3), int)))
    )


def test_ties_go_to_the_lowest_action(river: FiniteMDP) -> None:
    cells = count_families(river).n_cells
    policy = np.ones((4, 3), dtype=np.int64)
    changed, saturated = plan(
        Released(np.zeros(cells), 0, 0), Bonus(0.0, 100.0, 0.0), GreedyTables(policy, np.zeros(3), np.zeros(6))
    )
    assert changed
    assert saturated == 1.0
    assert not policy.any()
