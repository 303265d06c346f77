"""Estimates of MA-LDP: ridge regression on noisy sums, consensus, and mean rewards."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.algorithm import (
    _POWERS,
    GRAPHS,
    MALDPConfig,
    _RewardEstimates,
    beta_rates,
    consensus,
    consensus_matrix,
    estimate,
    shift_rates,
    update,
)
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy.mechanisms import GRAMS

# Ridge regression on noisy sums: exact if Sigma is positive definite, and defined if it is not.


def estimated(
    matrices: np.ndarray, vectors: np.ndarray, rates: np.ndarray, n_messages: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of extra shifts, theta and inverses from sums of two stages; the last one has no data."""
    both, sums = np.stack([matrices, np.zeros_like(matrices)], axis=1), np.stack([vectors, 0.0 * vectors], axis=1)
    d = vectors.shape[-1]
    theta, inverses = np.zeros_like(sums), np.tile(np.eye(d), (len(vectors), 2, 1, 1))
    scratch = np.zeros((d, d))
    return estimate(both, sums, rates, n_messages, 1.0, np.zeros(0), theta, inverses, scratch), theta, inverses


def test_theta_is_that_of_ridge_regression() -> None:
    generator = np.random.default_rng(0)
    features, targets = generator.standard_normal((2, 50, 3)), generator.standard_normal((2, 50))
    matrices, vectors = features.swapaxes(1, 2) @ features, np.einsum("mkd,mk->md", features, targets)
    extra, theta, inverses = estimated(matrices, vectors, np.array([0.7, 0.0]), 50)
    assert extra == 0
    shift = 1.0 + 0.7 * math.sqrt(50)
    for m in range(2):
        expected = np.linalg.solve(features[m].T @ features[m] + shift * np.eye(3), features[m].T @ targets[m])
        np.testing.assert_allclose(theta[m, 0], expected, rtol=1e-10)
    np.testing.assert_array_equal(theta[:, 1], 0.0)
    np.testing.assert_array_equal(inverses[:, 1], np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_what_is_added_doubles_until_sigma_is_positive_definite() -> None:
    """With eigenvalues down to -100 and a shift of 1, what is added is 128: the first power of two above 100."""
    generator = np.random.default_rng(1)
    turn, _ = np.linalg.qr(generator.standard_normal((3, 3)))
    matrix = turn @ np.diag([-100.0, 5.0, 40.0]) @ turn.T
    extra, _, inverses = estimated(matrix[None], np.ones((1, 3)), np.zeros(2), 9)
    assert extra == 1
    np.testing.assert_allclose(inverses[0, 0], np.linalg.inv(matrix + 128.0 * np.eye(3)), rtol=1e-9)


def test_the_proofs_shift_makes_noise_positive_definite() -> None:
    """Of 200 sums of 100 noisy messages none needs a larger shift; with eta = 1 as printed nearly all do (D24)."""
    generator = np.random.default_rng(2)
    needed = {}
    for scale in (1.0, 0.0):
        rates = shift_rates(np.array([3.0, 0.0]), 4, 0.1, scale)
        needed[scale] = 0
        for _ in range(200):
            noise = np.triu(3.0 * generator.standard_normal((100, 4, 4)).sum(axis=0))
            needed[scale] += estimated(noise[None], np.zeros((1, 4)), rates, 100)[0]
    assert needed[1.0] == 0
    assert needed[0.0] > 190


def test_the_shift_is_that_of_the_proof() -> None:
    """2 Gamma_k over the root of the messages, Gamma_k for 1 - alpha / 6 at all H stages together."""
    deviations, alpha = np.array([3.0, 0.5, 0.0, 1.0, 2.0]), 0.1
    expected = 2.0 * deviations * (math.sqrt(4 * 6) + 2.0 * math.log(6 * 5 / alpha))
    np.testing.assert_allclose(shift_rates(deviations, 6, alpha, 1.0), expected, rtol=1e-12)
    np.testing.assert_allclose(shift_rates(deviations, 6, alpha, 0.25), expected / 4.0, rtol=1e-12)


def test_radii_are_those_of_the_theorems() -> None:
    sizes, alpha = (4, 5, 8500), 0.1
    common = 4**0.75 * math.log(4 * 8500 * 5 / 0.1)
    ahead = np.arange(5, 0, -1)
    np.testing.assert_allclose(beta_rates("raw", None, sizes, alpha), common * ahead**1.5)
    for name in ("gram_laplace", "gram_bounded_laplace"):
        np.testing.assert_allclose(beta_rates(name, (0.1, 0.0), sizes, alpha), common * ahead**1.5 / math.sqrt(0.1))
    delta = np.log(ahead / 1e-5) ** 0.25
    gaussian = beta_rates("gram_gaussian", (0.2, 1e-5), sizes, alpha)
    np.testing.assert_allclose(gaussian, common * ahead**1.5 * delta / math.sqrt(0.2))
    np.testing.assert_allclose(beta_rates("gram_uniform", (0.2, 1e-5), sizes, alpha), common * ahead**1.5 * delta)


def test_every_mechanism_has_a_radius() -> None:
    assert set(_POWERS) == {"raw", *GRAMS}


# Consensus matrices are those of Assumption 2, and agents reach agreement by them.


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("n_agents", [1, 2, 3, 4, 5, 8, 64])
def test_matrices_meet_assumption_2(graph: str, n_agents: int) -> None:
    """Doubly stochastic, on edges only, at least 1/n where they are positive, and a contraction towards the mean."""
    matrix, edges = consensus_matrix(graph, n_agents), np.eye(n_agents, dtype=np.bool_)
    for i, j in GRAPHS[graph](n_agents):
        edges[i, j] = edges[j, i] = True
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert ((matrix > 0.0) == edges).all()
    assert matrix[matrix > 0.0].min() >= 1.0 / n_agents - 1e-15
    away = np.eye(n_agents) - np.ones((n_agents, n_agents)) / n_agents
    norm = np.linalg.norm(matrix.T @ away @ matrix, 2)
    assert norm < 1.0 - 1e-9
    values = np.random.default_rng(1).normal(size=(n_agents, 1))
    first = values - values.mean()
    consensus(values, matrix, np.empty((n_agents, 1)))
    assert values.mean() == pytest.approx(values.mean(), abs=1e-12)
    assert ((values - values.mean()) ** 2).sum() <= (norm + 1e-12) * (first**2).sum()


def test_matrices_by_hand() -> None:
    third, quarter = 1 / 3, 1 / 4
    by_hand: list[tuple[str, int, list[list[float]]]] = [
        ("complete", 1, [[1.0]]),
        ("complete", 2, [[0.5, 0.5], [0.5, 0.5]]),
        ("ring", 2, [[0.5, 0.5], [0.5, 0.5]]),
        ("complete", 3, [[third] * 3] * 3),
        ("line", 3, [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]]),
        (
            "ring",
            4,
            [[third, third, 0, third], [third, third, third, 0], [0, third, third, third], [third, 0, third, third]],
        ),
        ("star", 4, [[quarter] * 4, [quarter, 0.75, 0, 0], [quarter, 0, 0.75, 0], [quarter, 0, 0, 0.75]]),
    ]
    for graph, n_agents, expected in by_hand:
        np.testing.assert_allclose(consensus_matrix(graph, n_agents), expected, rtol=0, atol=1e-15)


def test_consensus_is_a_product_in_place() -> None:
    rng = np.random.default_rng(2)
    matrix, values = rng.random((5, 5)), rng.normal(size=(5, 3))
    expected = matrix @ values
    consensus(values, matrix, np.empty((5, 3)))
    np.testing.assert_allclose(values, expected, rtol=1e-13)


def test_a_graph_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^n_agents must be a whole number from 1 to 64, got 0; "):
        consensus_matrix("ring", 0)


# Decreasing steps, and agents who learn a mean reward that none of them observes.

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
