"""Decreasing steps, and agents who learn a mean reward that none of them observes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.algorithm import (
    LARGEST_STEP,
    check_steps,
    consensus,
    consensus_matrix,
    correct,
    reward_step,
)
from dprl.compiled import kernel
from dprl.envs import LinearMixtureMDP, NetworkMDP

RULE = 2.0, 0.6
NETWORK = NetworkMDP(n_agents=4, gap=0.0)
WORTH = np.array([0.005, 0.0, 1.0])


@kernel
def gammas_of(step: float, decay: float, gammas: np.ndarray) -> None:
    for k in range(gammas.shape[0]):
        gammas[k] = reward_step(step, decay, k + 1)


def learned(mdp: LinearMixtureMDP, matrix: np.ndarray, episodes: int, noise: float = 0.0) -> np.ndarray:
    """Return the weights [n, p] of agents who see their own rewards at states drawn uniformly."""
    rng, gammas = np.random.default_rng(3), np.empty(episodes)
    gammas_of(*RULE, gammas)
    weights = np.zeros((mdp.n_agents, mdp.reward_features.shape[1]))
    room = np.empty_like(weights)
    for turn, state in enumerate(rng.integers(mdp.n_states, size=episodes)):
        features = mdp.reward_features[state]
        corrections = (mdp.rewards[:, state] - weights @ features)[:, None] * features
        if noise:
            corrections += noise * rng.normal(size=corrections.shape)
        correct(weights, corrections, gammas[turn])
        consensus(weights, matrix, room)
    return weights


def uneven() -> LinearMixtureMDP:
    """Four agents of the network with rewards at the same places, each with its own rate.

    In the network itself all rates are equal, so even alone each agent would learn the mean reward.
    """
    mdp = NETWORK.build()
    rewards = np.array([[0.1], [0.4], [0.7], [1.0]]) * mdp.common_rewards
    return dataclasses.replace(mdp, rewards=rewards)


@pytest.mark.parametrize("graph", ["ring", "line"])
def test_agents_learn_the_mean_reward_from_their_own(graph: str) -> None:
    """[TH23]'s Lemma 1 with states drawn uniformly: w* are the rewards of the nodes, at the mean rate."""
    mdp, target = uneven(), 0.55 * WORTH
    np.testing.assert_allclose(mdp.reward_features @ target, mdp.common_rewards, atol=1e-15)
    few, many = (
        np.abs(learned(mdp, consensus_matrix(graph, 4), episodes) - target).max() for episodes in (300, 30_000)
    )
    assert many < 0.02
    assert many < few / 4


def test_without_talk_agents_learn_something_else() -> None:
    """The test above can fail: without communication each agent learns its own reward."""
    alone = learned(uneven(), np.eye(4), 30_000)
    np.testing.assert_allclose(alone, np.outer([0.1, 0.4, 0.7, 1.0], WORTH), atol=0.02)


def test_noise_is_averaged_out() -> None:
    mdp = NETWORK.build()
    few, many = (
        np.abs(learned(mdp, consensus_matrix("ring", 4), episodes, noise=0.5) - WORTH).mean()
        for episodes in (300, 30_000)
    )
    assert many < 0.06
    assert many < few / 3


def test_one_hot_features_learn_the_reward_of_every_state() -> None:
    network = NetworkMDP(gap=0.0).build()
    parts = (network.name, network.horizon, network.lists, network.theta, network.rewards, network.start)
    mdp = LinearMixtureMDP(*parts)
    np.testing.assert_allclose(
        learned(mdp, consensus_matrix("ring", 2), 30_000), np.tile(mdp.common_rewards, (2, 1)), atol=0.02
    )


def test_steps_are_powers() -> None:
    gammas = np.empty(1000)
    gammas_of(0.5, 0.75, gammas)
    np.testing.assert_allclose(gammas, 0.5 * np.arange(1, 1001) ** -0.75, rtol=1e-14)


def test_a_correction_is_added() -> None:
    weights, corrections = np.ones((2, 3)), np.arange(6.0).reshape(2, 3)
    correct(weights, corrections, 0.5)
    assert weights.tolist() == [[1.0, 1.5, 2.0], [2.5, 3.0, 3.5]]


def test_no_step_makes_the_error_at_a_state_larger() -> None:
    features, weights = np.array([1.0, 0.0]), np.array([[3.0, 1.0]])
    correct(weights, (0.5 - weights @ features)[:, None] * features, LARGEST_STEP)
    assert weights.tolist() == [[-2.0, 1.0]]  # as far from 0.5 as before


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ((0.0, 0.75), r"^reward_step must be a finite number, at least 1e-12 and below 2, got 0\.0; "),
        ((2.1, 0.75), r"^reward_step must be a finite number"),
        ((float("nan"), 0.75), r"^reward_step must be a finite number"),
        ((1.0, 0.5), r"^reward_decay must be above 1/2, got 0\.5: the squares of the steps .* infinite sum"),
        ((1.0, 1.01), r"^reward_decay must be at most 1, got 1\.01: the steps would have a finite sum"),
        ((1.0, -1.0), r"^reward_decay must be a finite number, at least 0, got -1\.0; "),
    ],
)
def test_steps_that_need_not_settle_are_refused(rule: tuple[float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        check_steps(*rule)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("decay", [0.51, 0.75, 1.0])
def test_steps_that_settle_are_accepted(decay: float) -> None:
    check_steps(LARGEST_STEP, decay)
