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
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import TRUST, Learner, clearly_best, families, greedy_plan


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


def test_bonus_coefficients_are_those_of_the_paper(learner: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CountPrivacy("jdp", 1.0, calibration="printed", precision="printed")
    privatizer = learner(random_mdp, episodes, privacy, name="pucb").privatizer
    cells = n_states * n_actions * horizon
    e = 3 * horizon * np.sqrt(8 * np.log(episodes) ** 3 * np.log(6 * cells * n_states * episodes / beta))
    root = (horizon + 1) * np.sqrt(2 * np.log(episodes / (beta / (2 * cells))))
    psi = 1 + n_states * horizon
    bonus = PUCBConfig(beta=beta).bonus(random_mdp, privatizer, episodes)
    assert bonus == pytest.approx((e, 2 * e, root, 3 * psi * e, 2 * psi * e**2))
    scaled = PUCBConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(random_mdp, privatizer, episodes)
    assert scaled == pytest.approx((0.1 * e, 0.2 * e, 0.5 * root, 0.05 * 3 * psi * e, 0.005 * 2 * psi * e**2))


def test_without_privacy_the_precision_is_zero(learner: Learner, random_mdp: FiniteMDP) -> None:
    bonus = PUCBConfig().bonus(random_mdp, learner(random_mdp, 100, name="pucb").privatizer, 100)
    assert (bonus.e, bonus.enough, bonus.per_count, bonus.per_square) == (0.0, 1.0, 0.0, 0.0)


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


def ubev(values: np.ndarray, mdp: FiniteMDP, log_term: float) -> np.ndarray:
    """UBEV's optimistic Q [H, S, A] (Dann et al. 2017, Algorithm 1) with phi = sqrt(2 log_term/n) for its own phi."""
    horizon, n_states, n_actions = mdp.rewards.shape
    transitions, visits, rewards = families(values, mdp.rewards.shape)
    q = np.empty((horizon, n_states, n_actions))
    value = np.zeros(n_states)
    for h in reversed(range(horizon)):
        n = np.maximum(visits[h], 1.0)
        phi = np.where(visits[h] > 0, np.sqrt(2 * log_term / n), np.inf)
        remaining = horizon - 1 - h
        if remaining == 0:
            next_value = np.zeros((n_states, n_actions))
        else:
            next_value = np.minimum(value.max(), np.einsum("zsa,z->sa", transitions[h], value) / n + remaining * phi)
        q[h] = np.minimum(1.0, rewards[h] / n + phi) + next_value
        value = q[h].max(axis=1)
    return q


def test_without_noise_it_is_ubev_with_wider_clips(learner: Learner, random_mdp: FiniteMDP) -> None:
    """With the same phi PUCB's Q is never below UBEV's; without a bonus both are the values of the empirical model."""
    episodes, generator = 4000, np.random.default_rng(0)
    values = np.zeros(count_families(random_mdp).n_cells)
    transitions, visits, rewards = families(values, random_mdp.rewards.shape)
    visits[:] = generator.integers(1, 60, visits.shape)
    transitions[:] = np.moveaxis(generator.multinomial(visits.astype(int), random_mdp.transitions), -1, 1)
    rewards[:] = visits * random_mdp.rewards
    bonus = PUCBConfig().bonus(random_mdp, learner(random_mdp, episodes, name="pucb").privatizer, episodes)
    log_term = np.log(episodes * 2 * random_mdp.rewards.size / 0.1)
    for scale in (1.0, 0.1, 0.01):
        _, ours, _ = greedy_plan(plan, values, bonus._replace(per_root=scale * bonus.per_root), random_mdp)
        theirs = ubev(values, random_mdp, scale**2 * log_term)[0]
        assert np.all(ours >= theirs - 1e-9)
        assert ours.sum() > theirs.sum() + 0.1
    _, ours, saturated = greedy_plan(plan, values, bonus._replace(per_root=0.0), random_mdp)
    assert saturated == 0.0
    assert ours == pytest.approx(ubev(values, random_mdp, 0.0)[0], abs=1e-9)


def test_no_theorem_covers_any_run() -> None:
    assert PUCBConfig().covered_by is None
