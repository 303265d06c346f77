"""Consensus matrices are those of Assumption 2, and agents reach agreement by them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.algorithms.ma_ldp.graphs import (
    GRAPHS,
    SAMPLED_GRAPHS,
    FixedGraph,
    Gossip,
    Graph,
    RandomEdges,
    check_assumption_2,
    consensus,
    matrix_number,
    metropolis,
)
from dprl.algorithms.ma_ldp.rewards import correct, reward_step
from dprl.compiled import kernel
from tests.without_compiler import printed_both_ways

Bools = NDArray[np.bool_]

ALL: dict[str, Graph] = {
    **{name: graph() for name, graph in GRAPHS.items()},
    "few_edges": RandomEdges(0.1),
    "all_edges": RandomEdges(1.0),
    **{f"gossip_{over}": Gossip(over) for over in ("ring", "star", "line")},
}
every_graph = pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
every_size = pytest.mark.parametrize("n_agents", [1, 2, 3, 4, 5, 6, 8])

RING = FixedGraph("ring")


@every_graph
@every_size
def test_matrices_are_doubly_stochastic_and_respect_the_graph(graph: Graph, n_agents: int) -> None:
    (matrices, probabilities), (graphs, _) = graph.matrices(n_agents), graph.adjacencies(n_agents)
    assert matrices.shape == graphs.shape == (probabilities.size, n_agents, n_agents)
    assert (matrices.dtype.name, matrices.flags.c_contiguous) == ("float64", True)
    np.testing.assert_allclose(matrices.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrices.sum(axis=2), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    assert ((matrices > 0.0) == (graphs | np.eye(n_agents, dtype=np.bool_))).all()
    assert matrices[matrices > 0.0].min() >= 1.0 / n_agents - 1e-15
    assert probabilities.min() > 0.0
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)


@every_graph
@every_size
def test_the_norm_is_that_of_the_definition(graph: Graph, n_agents: int) -> None:
    matrices, probabilities = graph.matrices(n_agents)
    away = np.eye(n_agents) - np.ones((n_agents, n_agents)) / n_agents
    expected = sum(p * matrix.T @ away @ matrix for p, matrix in zip(probabilities, matrices, strict=True))
    norm = check_assumption_2(graph.adjacencies(n_agents)[0], matrices, probabilities)
    assert norm == pytest.approx(np.linalg.norm(expected, 2), abs=1e-12)
    assert norm < 1.0


def test_matrices_by_hand() -> None:
    third, quarter = 1 / 3, 1 / 4
    by_hand: list[tuple[Graph, int, list[list[float]]]] = [
        (FixedGraph(), 1, [[1.0]]),
        (FixedGraph(), 2, [[0.5, 0.5], [0.5, 0.5]]),
        (RING, 2, [[0.5, 0.5], [0.5, 0.5]]),
        (FixedGraph(), 3, [[third] * 3] * 3),
        (FixedGraph("line"), 3, [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]]),
        (
            RING,
            4,
            [[third, third, 0, third], [third, third, third, 0], [0, third, third, third], [third, 0] * 2],
        ),
        (FixedGraph("star"), 4, [[quarter] * 4, [quarter, 0.75, 0, 0], [quarter, 0, 0.75, 0], [quarter, 0, 0, 0.75]]),
    ]
    by_hand[5][2][3] = [third, 0, third, third]
    for graph, n_agents, expected in by_hand:
        matrices, probabilities = graph.matrices(n_agents)
        assert probabilities.tolist() == [1.0]
        np.testing.assert_allclose(matrices[0], expected, rtol=0, atol=1e-15)


def test_gossip_is_one_edge_at_a_time() -> None:
    matrices, probabilities = Gossip("line").matrices(3)
    assert matrices.tolist() == [[[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]]
    assert probabilities.tolist() == [0.5, 0.5]
    assert len(Gossip("ring").matrices(5)[0]) == len(Gossip("star").matrices(6)[0]) == 5
    assert len(Gossip().matrices(5)[0]) == 10
    assert Gossip().matrices(1)[0].tolist() == [[[1.0]]]


@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_random_edges_of_few_agents_have_their_exact_law(chance: float) -> None:
    """Each edge has its probability, and two of them are independent."""
    graphs, probabilities = RandomEdges(chance).adjacencies(4)
    assert len(np.unique(graphs, axis=0)) == len(graphs) == 2**6
    present = graphs[:, *np.triu_indices(4, 1)].astype(np.float64)
    np.testing.assert_allclose(probabilities @ present, chance, atol=1e-14)
    both = np.einsum("m,mi,mj->ij", probabilities, present, present)
    np.testing.assert_allclose(both[~np.eye(6, dtype=np.bool_)], chance**2, atol=1e-14)
    assert len(RandomEdges(1.0).matrices(5)[0]) == 1


def test_random_edges_of_many_agents_are_a_fixed_list() -> None:
    """Of 15 edges and 256 graphs the share is within five standard errors of its probability."""
    one, two = RandomEdges(0.3).adjacencies(6), RandomEdges(0.3).adjacencies(6)
    assert one[0].tobytes() == two[0].tobytes()
    assert one[0].shape == (SAMPLED_GRAPHS, 6, 6)
    assert np.unique(one[1]).tolist() == [1 / SAMPLED_GRAPHS]
    share = one[0][:, *np.triu_indices(6, 1)].mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / (SAMPLED_GRAPHS * 15))
    assert (one[0] <= RandomEdges(0.6).adjacencies(6)[0]).all()


@every_graph
def test_agents_agree_on_the_mean_at_the_rate_of_the_norm(graph: Graph) -> None:
    """The mean squared distance over 2000 runs of 3 stages is below norm^3 of the first one, and 5 % for chance."""
    matrices, probabilities = graph.matrices(4)
    norm = check_assumption_2(graph.adjacencies(4)[0], matrices, probabilities)
    rng, room = np.random.default_rng(1), np.empty((4, 1))
    reached, first, left = np.cumsum(probabilities), np.array([[1.0], [-1.0], [3.0], [-3.0]]), 0.0
    for _ in range(2000):
        values = first.copy()
        for uniform in rng.random(3):
            consensus(values, matrices[matrix_number(reached, uniform)], room)
        assert values.mean() == pytest.approx(0.0, abs=1e-12)
        left += float((values**2).sum()) / 2000
    assert left <= 1.05 * norm**3 * 20.0 + 1e-12


def test_numbers_of_matrices_follow_the_probabilities() -> None:
    reached = np.cumsum([0.2, 0.5, 0.3])
    uniforms = [0.0, 0.19, 0.2, 0.69, 0.71, 0.999]
    assert [matrix_number(reached, uniform) for uniform in uniforms] == [0, 0, 1, 1, 2, 2]
    # Rounding may leave the last sum below a draw.
    assert matrix_number(np.array([0.5, 1.0 - 1e-15]), 1.0 - 1e-16) == 1
    many = np.cumsum(np.full(37, 1 / 37))
    for uniform in np.random.default_rng(0).random(500):
        assert matrix_number(many, float(uniform)) == np.searchsorted(many, uniform, side="right")


def test_consensus_is_a_product_in_place() -> None:
    rng = np.random.default_rng(2)
    matrix, values = rng.random((5, 5)), rng.normal(size=(5, 3))
    expected = matrix @ values
    consensus(values, matrix, np.empty((5, 3)))
    np.testing.assert_allclose(values, expected, rtol=1e-13)


PARTS = np.zeros((1, 4, 4), np.bool_)
PARTS[0, [0, 1, 2, 3], [1, 0, 3, 2]] = True


@pytest.mark.parametrize(("graphs", "parts"), [(PARTS, 2), (np.zeros((1, 3, 3), np.bool_), 3)])
def test_graphs_in_parts_break_the_assumption(graphs: Bools, parts: int) -> None:
    message = rf"^graph must mix .* spectral norm of E\[.* below 1, got 1 for a graph of {parts} parts; add an edge$"
    with pytest.raises(ValueError, match=message):
        check_assumption_2(graphs, metropolis(graphs), np.ones(1))


@pytest.mark.parametrize(
    ("graph", "n_agents", "message"),
    [
        (RandomEdges(1e-6), 6, r"^graph must mix .* for a graph of 6 parts; add an edge$"),
        (RING, 0, r"^n_agents must be a whole number from 1 to 64, got 0; "),
    ],
)
def test_graphs_that_do_not_mix_are_refused(graph: Graph, n_agents: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph.matrices(n_agents)


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (RandomEdges, 0.0, r"^edge_probability must be a finite number, at least 1e-06 "),
        (RandomEdges, 1.1, r"^edge_probability must be a finite number"),
        (Gossip, "circle", r"^over must be one of complete, ring, star, line, got 'circle'; "),
    ],
)
def test_settings_that_are_no_graph_are_refused(build: Any, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(given)


def test_registered_graphs_are_frozen_and_named() -> None:
    assert list(GRAPHS) == ["complete", "ring", "star", "line", "random_edges", "gossip"]
    for graph in GRAPHS.values():
        assert graph() == graph()
        with pytest.raises(dataclasses.FrozenInstanceError):
            graph().over = "ring"  # type: ignore[attr-defined]


def test_every_connected_graph_of_four_agents_mixes_and_no_other() -> None:
    pairs = list(itertools.combinations(range(4), 2))
    connected = 0
    for bits in itertools.product([0, 1], repeat=6):
        graph = np.zeros((1, 4, 4), np.bool_)
        for (i, j), bit in zip(pairs, bits, strict=True):
            graph[0, i, j] = graph[0, j, i] = bit
        with contextlib.suppress(ValueError):
            connected += check_assumption_2(graph, metropolis(graph), np.ones(1)) < 1.0
    # Of 64 labelled graphs on four vertices 38 are connected.
    assert connected == 38


@kernel
def reward_steps(gammas: NDArray[np.float64]) -> None:
    for k in range(gammas.shape[0]):
        gammas[k] = reward_step(1.5, 0.7, k + 1)


def digest_of_all_kernels() -> str:
    """A digest of the agents' weights after 200 turns of mixing and corrections."""
    digest, rng = hashlib.sha256(), np.random.default_rng(0)
    matrices, probabilities = RandomEdges(0.4).matrices(5)
    reached = np.cumsum(probabilities)
    weights, room, gammas = rng.random((5, 3)), np.empty((5, 3)), np.empty(200)
    reward_steps(gammas)
    for turn in range(200):
        correct(weights, rng.normal(size=(5, 3)), gammas[turn])
        number = matrix_number(reached, rng.random())
        consensus(weights, matrices[number], room)
        digest.update(weights.tobytes() + bytes([number % 256]))
    return digest.hexdigest()


def test_plain_python_gives_the_same_bits_as_compiled_code() -> None:
    printed_both_ways("from tests.algorithms.ma_ldp.test_graphs import digest_of_all_kernels as d; print(d())")
