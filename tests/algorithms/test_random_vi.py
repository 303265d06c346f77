"""random_vi against a plain NumPy reading of its docstrings, and the deviations of noise in its plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import RandomVIConfig
from dprl.algorithms.base import Float64Array
from dprl.algorithms.numerics import plain_nearest
from dprl.algorithms.random_vi import fill_nearest, plain_plan, plan
from dprl.algorithms.tabular import Released
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy, CountPrivatizer, Streams
from dprl.privacy.mechanisms.sampling import fill_noise
from tests.algorithms.cases import Learner
from tests.algorithms.test_bernstein_vi import noisy_counts

EPISODES = 40
COUNTERS = ("binary_tree", "kary_tree", "buffered_toeplitz")
NOISES: dict[str, Any] = {
    **{name: CountPrivacy("jdp", 20.0, 1e-6, counter=name, families="one_hot") for name in COUNTERS},
    "every user": CountPrivacy("jdp", 20.0, counter="kary_tree", families="one_hot", releases="every_user"),
    "laplace": CountPrivacy("ldp", 20.0, families="separate"),
    "sampled": CountPrivacy("ldp", 1.0, families="one_hot", mechanism="sampled_optimized_unary_encoding"),
}


def nearest(counts: Float64Array, total: float) -> Float64Array:
    """The non-negative vector of sum `total` nearest to `counts`, by bisection on the shift."""
    low, high = counts.min() - total, counts.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(counts - middle, 0.0).sum() > total else (low, middle)
    return np.asarray(np.maximum(counts - low, 0.0))


def test_the_nearest_counts_are_those_on_the_simplex() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        step = generator.normal(2.0, 20.0, size=(5, 1))
        total, found = float(generator.uniform(1.0, 50.0)), np.zeros(5)
        fill_nearest(step, 0, total, found)
        assert np.allclose(found, nearest(step[:, 0], total), atol=1e-6)
        assert np.allclose(plain_nearest(step[:, 0], total), nearest(step[:, 0], total), atol=1e-6)


@pytest.mark.parametrize("size", [0.0, 30.0])
@pytest.mark.parametrize(
    "privacy", [CountPrivacy("none"), CountPrivacy("jdp", 20.0, families="one_hot"), CountPrivacy("ldp", 200.0)]
)
def test_a_plan_is_that_of_its_docstring(privacy: Any, size: float) -> None:
    values = noisy_counts(np.random.default_rng(4), 900, size)
    horizon, rows, n_states, n_actions = values.shape
    mdp = FiniteMDP(
        "chain",
        np.full((horizon, n_states, n_actions, n_states), 1.0 / n_states),
        np.zeros((horizon, n_states, n_actions)),
        np.eye(n_states)[0],
    )
    config, streams, users = RandomVIConfig(bonus_scale=0.1, precision_scale=1.0), Streams(3, "plan"), 900
    privatizer = config.privatizer(mdp, privacy, 1000, streams)
    draws, tables = config.bonus_of_run(mdp, privatizer, 1000, streams), config.tables(mdp, 1000)
    plan(Released(values.ravel(), users, 1), draws, tables)
    drawn = np.zeros(horizon * n_states * n_actions)
    fill_noise(drawn, draws.normal, np.uint64(users * drawn.shape[0]))
    times, deviations, per_root = privatizer.query.deviations()
    deviation = per_root * users**0.5 if times.size == 0 else deviations[np.searchsorted(times, users)]
    summands = draws.transitions, draws.losses
    policy, best = plain_plan(values, deviation, 0.1 * drawn.reshape(horizon, n_states, n_actions), summands)
    assert best.max() < horizon  # values at their caps say nothing
    assert rows == n_states + 2
    assert np.array_equal(tables.policy, policy)
    assert np.allclose(tables.optimistic, best, rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_deviations_are_those_of_released_cells(noise: str, river: FiniteMDP) -> None:
    """Of 60 runs and all cells of the first family that are never visited: within 15 %, about 6 standard errors."""
    config = RandomVIConfig(replan_growth=0.5)

    def released(seed: int, privacy: Any) -> tuple[CountPrivatizer, Float64Array]:
        privatizer = config.privatizer(river, privacy, EPISODES, Streams(seed, noise))
        learner: Any = config.build(river, privatizer, EPISODES, Streams(0, "the same users"))
        learner.learn(EPISODES)
        return privatizer, privatizer.channel.noisy.copy()

    found = []
    for seed in range(60):
        privatizer, values = released(seed, NOISES[noise])
        found.append(values)
    never = np.std(found, axis=0)
    users = int(privatizer.release().users)
    times, deviations, per_root = privatizer.query.deviations()
    expected = per_root * users**0.5 if times.size == 0 else deviations[np.searchsorted(times, users)]
    assert np.median(never) == pytest.approx(expected, rel=0.15)


def test_every_plan_draws_anew_and_a_seed_draws_the_same(learner: Learner, river: FiniteMDP) -> None:
    def policies(seed: int) -> list[Any]:
        algorithm, found = learner(river, 60, name="random_vi", seed=seed, replan_growth=0.0), []
        for _ in range(20):
            algorithm.learn(1)
            found.append(algorithm.policy.tolist())
        return found

    first = policies(1)
    assert len({str(policy) for policy in first}) > 5
    assert policies(1) == first
    assert policies(2) != first


def test_a_failure_probability_is_refused_because_nothing_would_use_it() -> None:
    with pytest.raises(
        ValueError, match=r"^beta must be left out with random_vi, got 0.2; it has no confidence bounds$"
    ):
        RandomVIConfig(beta=0.2)
