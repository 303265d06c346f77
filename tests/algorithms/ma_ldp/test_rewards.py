"""Decreasing steps, and agents who learn a mean reward that none of them observes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.algorithm import (
    MALDPConfig,
    _RewardEstimates,
    consensus_matrix,
    update,
)
from dprl.envs import LinearMixtureMDP, NetworkMDP

RULE = 2.0, 0.6
NETWORK = NetworkMDP(n_agents=4, gap=0.0)
WORTH = np.array([0.005, 0.0, 1.0])


def estimates_of(
    weights: np.ndarray, matrix: np.ndarray, step: float, decay: float, features: np.ndarray
) -> _RewardEstimates:
    """Return the estimates of agents with these weights [n, p] in an environment of one stage."""
    n, p = weights.shape
    return _RewardEstimates(
        learned=1,
        weights=weights[np.newaxis].copy(),
        values=np.zeros((n, 1, len(features))),
        cut=0,
        corrections=np.zeros((n, 1, p)),
        psi=features,
        step=step,
        decay=decay,
        matrix=matrix,
        workspace=np.zeros((n, p)),
        received=np.zeros((n, 1, p)),
    )


def corrected(weights: np.ndarray, corrections: np.ndarray, step: float) -> list[list[float]]:
    """Return the weights of agents who do not talk after their first step."""
    estimates = estimates_of(weights, np.eye(len(weights)), step, 1.0, np.zeros((1, weights.shape[1])))
    estimates.corrections[:, 0] = corrections
    update(estimates, 1, 1)
    assert not estimates.corrections.any()
    found: list[list[float]] = estimates.weights[0].tolist()
    return found


def learned(mdp: LinearMixtureMDP, matrix: np.ndarray, episodes: int, noise: float = 0.0) -> np.ndarray:
    """Return the weights [n, p] of agents who see their own rewards at states drawn uniformly."""
    rng, first = np.random.default_rng(3), np.zeros((mdp.n_agents, mdp.reward_features.shape[1]))
    estimates = estimates_of(first, matrix, *RULE, mdp.reward_features)
    weights: np.ndarray = estimates.weights[0]
    for turn, state in enumerate(rng.integers(mdp.n_states, size=episodes)):
        features = mdp.reward_features[state]
        corrections = (mdp.rewards[:, state] - weights @ features)[:, None] * features
        if noise:
            corrections += noise * rng.normal(size=corrections.shape)
        estimates.corrections[:, 0] = corrections
        update(estimates, turn + 1, 1)
    np.testing.assert_allclose(estimates.values[:, 0], weights @ mdp.reward_features.T, rtol=1e-12)
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


def test_steps_are_powers() -> None:
    estimates = estimates_of(np.zeros((1, 1)), np.eye(1), 0.5, 0.75, np.ones((1, 1)))
    gammas = []
    for k in range(1, 1001):
        estimates.weights[:], estimates.corrections[:] = 0.0, 3.0
        update(estimates, k, 3)
        gammas.append(float(estimates.weights[0, 0, 0]))
    np.testing.assert_allclose(gammas, 0.5 * np.arange(1, 1001) ** -0.75, rtol=1e-14)


def test_a_correction_is_added() -> None:
    weights, corrections = np.ones((2, 3)), np.arange(6.0).reshape(2, 3)
    assert corrected(weights, corrections, 0.5) == [[1.0, 1.5, 2.0], [2.5, 3.0, 3.5]]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ((0.0, 0.75), r"^reward_step must be a number in \[1e-12, 2\], got 0\.0; "),
        ((2.1, 0.75), r"^reward_step must be a number in"),
        ((float("nan"), 0.75), r"^reward_step must be a number in"),
        ((1.0, 0.5), r"^reward_decay must be above 1/2 and at most 1, got 0\.5: otherwise weights never settle"),
        ((1.0, 1.01), r"^reward_decay must be above 1/2 and at most 1, got 1\.01: otherwise"),
        ((1.0, -1.0), r"^reward_decay must be a finite number, at least 0, got -1\.0; "),
    ],
)
def test_steps_that_need_not_settle_are_refused(rule: tuple[float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        MALDPConfig(reward_step=rule[0], reward_decay=rule[1])
    assert "\n" not in str(caught.value)
