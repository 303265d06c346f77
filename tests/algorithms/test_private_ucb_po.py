"""Private-UCB-PO against a plain NumPy reading of the paper's box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import PrivateUCBPOConfig
from dprl.algorithms.private_ucb_po import _Bonus, _Tables, plain_evaluation, plain_improvement, plan
from dprl.algorithms.private_ucb_vi import CZ22Bonus
from dprl.algorithms.tabular import Released, count_families
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import COUNTS, PRACTICAL, TRUST

Learner = Callable[..., Any]


@pytest.fixture
def optimiser(learner: Learner) -> Learner:
    def make(*arguments: Any, **settings: Any) -> Any:
        return learner(*arguments, name="private_ucb_po", **settings)

    return make


@COUNTS
@TRUST
def test_planning_equals_the_papers_box_for_a_whole_run(
    privacy: Any, form: Any, optimiser: Learner, random_mdp: FiniteMDP
) -> None:
    settings: Any = PRACTICAL | {"counts": form}
    algorithm = optimiser(random_mdp, 200, privacy, **settings)
    bonus = PrivateUCBPOConfig(**settings).bonus(random_mdp, algorithm.privatizer, 200)
    shape = random_mdp.rewards.shape
    policy, q, unsaturated = np.full(shape, 1.0 / 3.0), np.zeros(shape), 0
    for _ in range(200):
        policy = plain_improvement(policy, q, bonus.eta)
        q, value = plain_evaluation(algorithm.privatizer.release(), policy, bonus)
        segment = algorithm.learn(1)
        np.testing.assert_allclose(algorithm.policy, policy, rtol=1e-9)
        np.testing.assert_allclose(algorithm._tables.q.reshape(shape), q, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(algorithm._tables.optimistic, value, rtol=1e-9, atol=1e-12)
        caps = np.arange(5, 0, -1)[:, None, None]
        assert (q > caps - 1e-9).mean() >= segment["saturated"] >= (q == caps).mean() - 1e-12
        unsaturated += segment["saturated"] < 1.0
    assert unsaturated > 50
    assert policy.max() > 0.4


def test_coefficients_are_those_of_the_paper(optimiser: Learner, random_mdp: FiniteMDP) -> None:
    horizon, n_states, n_actions = random_mdp.rewards.shape
    episodes, beta = 1000, 0.05
    privacy = CountPrivacy("jdp", 1.0, calibration="printed", precision="printed")
    privatizer = optimiser(random_mdp, episodes, privacy).privatizer
    bonus = PrivateUCBPOConfig(beta=beta).bonus(random_mdp, privatizer, episodes)
    sat, log_k = n_states * n_actions * horizon * episodes, np.log(episodes)
    e1 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat / beta))
    e2 = 3 * horizon * np.sqrt(8 * log_k**3 * np.log(6 * sat * n_states / beta))
    l_c, l_p = np.sqrt(2 * np.log(4 * sat / beta)), np.sqrt(4 * n_states * np.log(6 * sat / beta))
    eta = np.sqrt(2 * np.log(n_actions) / (horizon**2 * episodes))
    assert bonus.q[:4] == pytest.approx((e1, l_c + horizon * l_p, 3 * e1 + horizon * (n_states * e2 + 2 * e1), 0.0))
    assert bonus.eta == pytest.approx(eta)
    scaled = PrivateUCBPOConfig(beta=beta, bonus_scale=0.5, precision_scale=0.1).bonus(random_mdp, privatizer, episodes)
    assert scaled.q[:4] == pytest.approx((0.1 * bonus.q.e1, 0.5 * bonus.q.per_root, 0.05 * bonus.q.per_count, 0.0))
    assert scaled.eta == bonus.eta


def planned(mdp: FiniteMDP, q: np.ndarray, new: int, eta: float) -> np.ndarray:
    """The policy after uniform and values q [H, S, A], from `new` new episodes."""
    horizon, n_states, n_actions = mdp.rewards.shape
    tables = _Tables(
        np.full((horizon, n_states, n_actions), 1.0 / n_actions),
        np.zeros(n_states),
        q.reshape(horizon, -1).copy(),
        np.zeros((horizon, n_states * n_actions)),
    )
    plan(Released(np.zeros(count_families(mdp).n_cells), new, new), _Bonus(CZ22Bonus(0.0, 1.0, 0.0), eta), tables)
    return tables.policy


@pytest.mark.parametrize("new", [0, 1, 7])
def test_a_step_is_as_long_as_the_number_of_new_episodes(new: int, random_mdp: FiniteMDP) -> None:
    q = np.random.default_rng(0).random(random_mdp.rewards.shape)
    uniform = np.full(q.shape, 1.0 / 3.0)
    np.testing.assert_allclose(planned(random_mdp, q, new, 0.3), plain_improvement(uniform, q, new * 0.3), rtol=1e-12)


def test_a_very_long_step_leaves_the_best_action(random_mdp: FiniteMDP) -> None:
    q = np.random.default_rng(0).permutation(np.arange(60.0)).reshape(random_mdp.rewards.shape)
    policy = planned(random_mdp, q, 10**9, 0.01)
    assert (policy == np.eye(3)[q.argmax(axis=2)]).all()


def test_only_the_printed_settings_are_covered() -> None:
    assert PrivateUCBPOConfig().covered_by == "[CZ22] Theorem 1"
    assert PrivateUCBPOConfig(replan_growth=0.1).covered_by is None
