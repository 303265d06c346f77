"""Consensus matrices are those of Assumption 2, which is checked in all of its parts, and agents agree by them."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.algorithms.ma_ldp.graphs import (
    GRAPHS,
    LEAST_WEIGHT,
    SAMPLED_GRAPHS,
    ConsensusMatrices,
    CustomGraph,
    FixedGraph,
    Gossip,
    Graph,
    RandomEdges,
    check_assumption_2,
    consensus,
    matrix_number,
    metropolis,
)
from dprl.algorithms.ma_ldp.rewards import RewardStep, correct, first_estimates, reward_step, update
from dprl.compiled import kernel
from dprl.envs import NetworkMDP
from tests.without_compiler import printed_both_ways

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ALL: dict[str, Graph] = {
    **{name: graph() for name, graph in GRAPHS.items()},
    "few_edges": RandomEdges(0.1),
    "all_edges": RandomEdges(1.0),
    **{f"gossip_{over}": Gossip(over) for over in ("ring", "star", "line")},
}
every_graph = pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
every_size = pytest.mark.parametrize("n_agents", [1, 2, 3, 4, 5, 6, 8])

TRIANGLE = np.ones((1, 3, 3), np.bool_) & ~np.eye(3, dtype=np.bool_)
ONE = np.ones(1)
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
    mixing = check_assumption_2(graph.adjacencies(n_agents)[0], matrices, probabilities)
    assert mixing.norm == pytest.approx(np.linalg.norm(expected, 2), abs=1e-12)
    assert mixing.norm < 1.0
    assert mixing.kappa == matrices[matrices > 0.0].min()


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
    assert len(Gossip("ring").matrices(5).matrices) == len(Gossip("star").matrices(6).matrices) == 5
    assert len(Gossip().matrices(5).matrices) == 10
    assert Gossip().matrices(1).matrices.tolist() == [[[1.0]]]


@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_random_edges_of_few_agents_have_their_exact_law(chance: float) -> None:
    """Each edge has its probability, and two of them are independent."""
    graphs, probabilities = RandomEdges(chance).adjacencies(4)
    assert len(np.unique(graphs, axis=0)) == len(graphs) == 2**6
    present = graphs[:, *np.triu_indices(4, 1)].astype(np.float64)
    np.testing.assert_allclose(probabilities @ present, chance, atol=1e-14)
    both = np.einsum("m,mi,mj->ij", probabilities, present, present)
    np.testing.assert_allclose(both[~np.eye(6, dtype=np.bool_)], chance**2, atol=1e-14)
    assert len(RandomEdges(1.0).matrices(5).matrices) == 1


def test_random_edges_of_many_agents_are_a_fixed_list() -> None:
    """Of 15 edges and 256 graphs the share is within five standard errors of its probability."""
    one, two = RandomEdges(0.3).adjacencies(6), RandomEdges(0.3).adjacencies(6)
    assert one[0].tobytes() == two[0].tobytes()
    assert one[0].shape == (SAMPLED_GRAPHS, 6, 6)
    assert np.unique(one[1]).tolist() == [1 / SAMPLED_GRAPHS]
    share = one[0][:, *np.triu_indices(6, 1)].mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / (SAMPLED_GRAPHS * 15))
    assert (one[0] <= RandomEdges(0.6).adjacencies(6)[0]).all()


def test_graphs_of_ones_own_come_in_order_and_may_be_in_parts_one_by_one() -> None:
    rounds = np.zeros((3, 4, 4))
    for turn, (i, j) in enumerate([(0, 1), (1, 2), (2, 3)]):
        rounds[turn, i, j] = rounds[turn, j, i] = 1
    graph = CustomGraph(rounds)
    matrices, probabilities = graph.matrices(4)
    assert graph.cycled
    assert probabilities.tolist() == [1 / 3] * 3
    np.testing.assert_array_equal(matrices, metropolis(rounds == 1))
    values, room = np.arange(8.0).reshape(4, 2), np.empty((4, 2))
    for turn in range(150):
        consensus(values, matrices[matrix_number(np.cumsum(probabilities), True, turn, 0.0)], room)
    np.testing.assert_allclose(values, [[3.0, 4.0]] * 4, atol=1e-9)


def mixes(graphs: NDArray[Any]) -> bool:
    """Return whether graphs in turn meet the assumption; if not, they must fall into parts."""
    graph = CustomGraph(graphs)
    try:
        graph.matrices(graphs.shape[1])
    except ValueError as error:
        return re.search(r"got 1 for a graph of \d parts; add an edge$", str(error)) is None
    return True


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_of_a_round_mixes_exactly_if_a_round_brings_agents_closer(seed: int) -> None:
    """What CustomGraph's docstring proves, on random rounds of few edges."""
    rng = np.random.default_rng(seed)
    graphs = np.triu(rng.random((3, 4, 4)) < 0.2, 1)
    graphs |= graphs.transpose(0, 2, 1)
    away, matrices = np.eye(4) - 0.25, metropolis(graphs)
    whole = away @ matrices[2] @ matrices[1] @ matrices[0]
    closer = np.linalg.norm(whole @ away, 2) < 1.0 - 1e-9
    assert mixes(graphs) == closer


@every_graph
def test_agents_agree_on_the_mean_at_the_rate_of_the_norm(graph: Graph) -> None:
    """The mean squared distance over 2000 runs of 3 stages is below norm^3 of the first one, and 5 % for chance."""
    matrices, probabilities = graph.matrices(4)
    norm = check_assumption_2(graph.adjacencies(4)[0], matrices, probabilities).norm
    rng, room = np.random.default_rng(1), np.empty((4, 1))
    reached, first, left = np.cumsum(probabilities), np.array([[1.0], [-1.0], [3.0], [-3.0]]), 0.0
    for _ in range(2000):
        values = first.copy()
        for turn, uniform in enumerate(rng.random(3)):
            consensus(values, matrices[matrix_number(reached, graph.cycled, turn, uniform)], room)
        assert values.mean() == pytest.approx(0.0, abs=1e-12)
        left += float((values**2).sum()) / 2000
    assert left <= 1.05 * norm**3 * 20.0 + 1e-12


def test_numbers_of_matrices_follow_the_probabilities() -> None:
    reached = np.cumsum([0.2, 0.5, 0.3])
    uniforms = [0.0, 0.19, 0.2, 0.69, 0.71, 0.999]
    assert [matrix_number(reached, False, 5, uniform) for uniform in uniforms] == [0, 0, 1, 1, 2, 2]
    assert [matrix_number(reached, True, turn, 0.9) for turn in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    # Rounding may leave the last sum below a draw.
    assert matrix_number(np.array([0.5, 1.0 - 1e-15]), False, 0, 1.0 - 1e-16) == 1
    many = np.cumsum(np.full(37, 1 / 37))
    for uniform in np.random.default_rng(0).random(500):
        assert matrix_number(many, False, 0, float(uniform)) == np.searchsorted(many, uniform, side="right")


def test_a_cycle_begins_with_its_first_matrix_and_goes_on_over_episodes() -> None:
    """Stage h of user k has matrix (k - 1) H + h, from 0 on."""
    (matrices, probabilities), horizon = Gossip("ring").matrices(3), 2
    assert matrices.shape[0] == 3
    mdp = NetworkMDP(n_agents=3, horizon=horizon, gap=0.05).build()
    talks = ConsensusMatrices(matrices, probabilities), True, np.zeros(5, dtype=np.uint64)
    found = first_estimates(mdp, True, False, RewardStep(1.0, 1.0), talks, 1)
    rng = np.random.default_rng(0)
    expected = found.weights.copy()
    for user in (1, 2, 3):
        found.corrections[...] = rng.normal(size=found.corrections.shape)
        for h in range(horizon):
            turn = (user - 1) * horizon + h
            expected[h] = matrices[turn % 3] @ (expected[h] + found.corrections[:, h] / user)
        update(found, user, 1)
        np.testing.assert_allclose(found.weights, expected, rtol=1e-12)


def test_consensus_is_a_product_in_place() -> None:
    rng = np.random.default_rng(2)
    matrix, values = rng.random((5, 5)), rng.normal(size=(5, 3))
    expected = matrix @ values
    consensus(values, matrix, np.empty((5, 3)))
    np.testing.assert_allclose(values, expected, rtol=1e-13)


def table(rows: list[list[float]]) -> Floats:
    return np.array([rows])


PARTS = np.zeros((1, 4, 4), np.bool_)
PARTS[0, [0, 1, 2, 3], [1, 0, 3, 2]] = True
LINE = np.array([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]) == 1
TINY = LEAST_WEIGHT / 10

VIOLATIONS: dict[str, tuple[Bools, Floats, Floats, str]] = {
    "rows": (
        TRIANGLE,
        table([[0.5, 0.5, 0], [0, 0.5, 0.4], [0.5, 0, 0.5]]),
        ONE,
        r"^graph must have consensus matrices with rows that sum to 1 \(Assumption 2, i\), got 0\.9; normalise",
    ),
    "negative": (
        TRIANGLE,
        table([[1.5, -0.5, 0], [-0.5, 1.5, 0], [0, 0, 1]]),
        ONE,
        r"^graph must have consensus matrices of numbers of at least 0 \(Assumption 2, i\), got -0\.5; ",
    ),
    "not_a_number": (TRIANGLE, np.full((1, 3, 3), np.nan), ONE, r"^graph must have consensus matrices of numbers "),
    "columns": (
        TRIANGLE,
        table([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]]),
        ONE,
        r"^graph must have a mean consensus matrix with columns that sum to 1 \(Assumption 2, i\), got 2; make",
    ),
    "kappa": (
        TRIANGLE,
        table([[1 - TINY, TINY, 0], [TINY, 0.5 - TINY, 0.5], [0, 0.5, 0.5]]),
        ONE,
        r"^graph must have no positive weight below kappa = 1e-06 \(Assumption 2, i\), got 1e-07; leave",
    ),
    "respect": (
        LINE,
        np.full((1, 3, 3), 1 / 3),
        ONE,
        r"^graph must have an edge for every weight \(Assumption 2, ii\), got 0\.333333 from agent 2 to 0 without",
    ),
    "parts": (
        PARTS,
        metropolis(PARTS),
        ONE,
        r"^graph must mix .* spectral norm of E\[L'\(I - 11'/n\)L\] must be below 1, got 1 for a graph of 2 parts; add",
    ),
    "no_talk": (
        np.zeros((1, 3, 3), np.bool_),
        np.eye(3)[None],
        ONE,
        r"^graph must mix .*, got 1 for a graph of 3 parts; add an edge$",
    ),
    "swaps": (
        TRIANGLE,
        table([[0, 1, 0], [0, 0, 1], [1, 0, 0]]),
        ONE,
        r"^graph must mix .*, got 1; give agents weights of their own$",
    ),
    "probabilities": (TRIANGLE, metropolis(TRIANGLE), 0.5 * ONE, r"^graph must have probabilities that sum to 1, got"),
}


@pytest.mark.parametrize(("graphs", "matrices", "probabilities", "message"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_each_part_of_the_assumption_is_checked(
    graphs: Bools, matrices: Floats, probabilities: Floats, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        check_assumption_2(graphs, matrices, probabilities)
    assert "\n" not in str(caught.value)


def test_only_the_mean_needs_columns_that_sum_to_one() -> None:
    """A broadcast: one agent at a time is heard by all others, each of them equally likely."""
    n_agents = 3
    matrices = np.stack([0.5 * np.eye(n_agents) + 0.5 * np.eye(n_agents)[[i] * n_agents] for i in range(n_agents)])
    mixing = check_assumption_2(np.repeat(TRIANGLE, 3, axis=0), matrices, np.full(3, 1 / 3))
    # Distances from the mean halve, and the square with them.
    assert mixing == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize(
    ("graph", "n_agents", "message"),
    [
        (CustomGraph(PARTS), 4, r"^graph must mix .* got 1 for a graph of 2 parts; add an edge$"),
        (CustomGraph(PARTS), 3, r"^graph must be one of 3 agents, got one of 4; match n_agents$"),
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
        (CustomGraph, np.eye(3), r"^graph must be an array \[m, n, n\], got shape \(3, 3\); "),
        (CustomGraph, np.zeros((0, 3, 3)), r"^graph must be an array"),
        (CustomGraph, np.full((1, 2, 2), 0.5), r"^graph must hold 0 and 1, got 0\.5; "),
        (CustomGraph, [[[0, 1], [0, 0]]], r"^graph must be undirected, got an edge from agent 0 to 1 in graph 0 and"),
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
        graph = np.zeros((1, 4, 4))
        for (i, j), bit in zip(pairs, bits, strict=True):
            graph[0, i, j] = graph[0, j, i] = bit
        connected += mixes(graph)
    # Of 64 labelled graphs on four vertices 38 are connected.
    assert connected == 38


@kernel
def reward_steps(gammas: NDArray[np.float64]) -> None:
    for k in range(gammas.shape[0]):
        gammas[k] = reward_step(1.5, 0.7, k + 1)


def digest_of_all_kernels() -> str:
    """A digest of what agents agree on who mix and correct for 200 turns."""
    digest, rng = hashlib.sha256(), np.random.default_rng(0)
    found = RandomEdges(0.4).matrices(5)
    weights, room, gammas = rng.random((5, 3)), np.empty((5, 3)), np.empty(200)
    reward_steps(gammas)
    for turn in range(200):
        correct(weights, rng.normal(size=(5, 3)), gammas[turn])
        number = matrix_number(found.reached, turn % 7 == 0, turn, rng.random())
        consensus(weights, found.matrices[number], room)
        digest.update(weights.tobytes() + bytes([number % 256]))
    return digest.hexdigest()


def test_plain_python_gives_the_same_bits_as_compiled_code() -> None:
    printed_both_ways("from tests.algorithms.ma_ldp.test_graphs import digest_of_all_kernels as d; print(d())")
