"""Consensus matrices are those of Assumption 2, and agents reach agreement by them."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.algorithm import GRAPHS, consensus, consensus_matrix


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
