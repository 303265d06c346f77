"""The naive MA-LDP is the same algorithm: the same plans from the same estimates, the same policies without noise."""

from __future__ import annotations

import math
from itertools import product
from typing import cast

import numpy as np
import pytest

from benchmarks.ma_ldp import learner, naive
from benchmarks.naive_ma_ldp import TensorPlanner, feature_tensor
from dprl.algorithms.ma_ldp.planning import Planning, make_plan, planning
from dprl.envs import LinearMixture, LinearMixtureMDP, NetworkMDP, RandomMixture
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.gram import Gram
from tests.envs.network_mdp.cases import theta_star

SIZES = [(1, 2), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)]
ENVIRONMENTS: list[LinearMixtureMDP] = [
    *(NetworkMDP(n_agents=n, dimension=d, gap=0.015).build() for n, d in SIZES),
    *(RandomMixture(n_states=4, n_actions=3, n_agents=n, dimension=2, horizon=4).build() for n in (1, 2, 3)),
]
NAMES = [f"{env.name}-{env.n_agents}-{env.dimension}" for env in ENVIRONMENTS]


def test_the_tensor_gives_the_transitions() -> None:
    env = NetworkMDP(n_agents=3, gap=0.02).build()
    np.testing.assert_allclose(feature_tensor(env) @ theta_star(env), env.transitions()[0], atol=1e-12)


@pytest.mark.parametrize("env", ENVIRONMENTS, ids=NAMES)
@pytest.mark.parametrize("floor", [0.0, -math.inf])
@pytest.mark.parametrize("joint", [False, True])
def test_plans_are_those_of_the_tensor(env: LinearMixtureMDP, floor: float, joint: bool) -> None:
    n, generator = env.n_agents, np.random.default_rng(env.dimension)
    spans = np.arange(env.horizon - 1.0, -1.0, -1.0) / 2.0 if floor == 0.0 else np.zeros(env.horizon)
    tensor = TensorPlanner(env, floor, joint, centered=floor == 0.0)
    for radius in (0.0, 0.3, 30.0):
        theta, inverse, rewards = random_estimates(env, generator)
        # Some values below 0, some above the cap.
        box = planning(env, spans, floor, joint, n)
        rewards = 2.0 * rewards - 1.0
        radii = np.full(env.horizon, radius)
        _, cut = make_plan(box, theta, inverse, padded(box, rewards), radii)
        expected_cut = 0
        for i in range(n):
            features, q, values, least = tensor.plan(i, theta[i], inverse[i], rewards[i], radii)
            np.testing.assert_allclose(box.values[i, :, : env.n_states], values, atol=1e-11)
            stages = env.horizon if isinstance(env, LinearMixture) else env.horizon - 1
            check_features(env, box, i, features)
            check_chances(box.chances[:stages, :, i], least[:stages])
            expected_cut += cuts(q)
        assert cut == expected_cut


def padded(box: Planning, rewards: np.ndarray) -> np.ndarray:
    full = np.zeros((*rewards.shape[:2], max(box.values.shape[2], rewards.shape[2])))
    full[..., : rewards.shape[2]] = rewards
    return full


def check_features(env: LinearMixtureMDP, box: Planning, agent: int, features: np.ndarray) -> None:
    if isinstance(env, LinearMixture):
        shape = (env.horizon, env.n_states, env.n_joint_actions, env.dimension)
        np.testing.assert_allclose(box.phis[agent].swapaxes(1, 2).reshape(shape), features, atol=1e-11)
        return
    for h, s in product(range(env.horizon - 1), range(env.n_states)):
        slopes, levels = box.slopes[agent, h, :, s], box.levels[agent, h, :, s]
        actions = box.actions[env.joint_actions()]
        built = np.concatenate(
            [slopes[:, None] * actions, np.broadcast_to(levels[:, None], (*actions.shape[:2], 1))], axis=2
        )
        np.testing.assert_allclose(built.reshape(len(actions), -1), features[h, s], atol=1e-11)


def check_chances(chances: np.ndarray, least: np.ndarray) -> None:
    """Actions that are not within rounding of the best are not taken, those that are share."""
    best = least.max(axis=2, keepdims=True)
    assert (chances[least < best - 1e-10] == 0.0).all()
    np.testing.assert_allclose(chances.sum(axis=2), 1.0, atol=1e-15)
    taken = chances > 0.0
    np.testing.assert_allclose(np.where(taken, chances * taken.sum(axis=2, keepdims=True), 1.0), 1.0, atol=1e-15)


def cuts(q: np.ndarray) -> int:
    """How many entries are at their caps, of the stages that have a bonus."""
    horizon = q.shape[0]
    return sum(int((q[h] >= horizon - h).sum()) for h in range(horizon - 1))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (2, 3), (3, 2)])
def test_one_shared_plan_decides_for_all(n: int, d: int) -> None:
    env, generator = NetworkMDP(n_agents=n, dimension=d, gap=0.015).build(), np.random.default_rng(5)
    theta, inverse, rewards = (array[:1] for array in random_estimates(env, generator))
    box = planning(env, np.zeros(env.horizon), 0.0, joint=True, n_messages=1)
    make_plan(box, theta, inverse, padded(box, rewards), np.full(env.horizon, 0.2))
    tensor = TensorPlanner(env, 0.0, joint=True)
    for i in range(n):
        least = tensor.plan(i, theta[0], inverse[0], rewards[0], np.full(env.horizon, 0.2))[3]
        check_chances(box.chances[:-1, :, i], least[:-1])
        chosen = box.chances[:-1, :, i].argmax(axis=2)
        np.testing.assert_array_equal(chosen, least[:-1].argmax(axis=2))


def random_estimates(env: LinearMixtureMDP, generator: np.random.Generator) -> tuple[Float64Array, ...]:
    """Return theta [n, H, D], inverses of Sigma [n, H, D, D] and rewards [n, H, S] of n agents, at random."""
    n, horizon, dimension = env.n_agents, env.horizon, env.dimension
    theta = 0.3 * generator.standard_normal((n, horizon, dimension))
    root = generator.standard_normal((n, horizon, dimension, dimension))
    return theta, root @ root.swapaxes(2, 3) / dimension, generator.random((n, horizon, env.common_rewards.size))


def test_the_noise_has_the_same_scales() -> None:
    env = NetworkMDP().build()
    np.testing.assert_array_equal(cast(Gram, learner(env).privatizer.query.law).scales, naive(env).scales)
