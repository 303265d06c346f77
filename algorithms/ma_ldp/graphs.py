"""Communication graphs after each stage, and the consensus matrices of the agents' averages.

A graph is a finite list of undirected graphs on n agents with their probabilities; every agent hears itself. All of it
is public and independent of users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dprl.algorithms.base import Float64Array, check_number, check_whole
from dprl.compiled import no_alloc_kernel
from dprl.privacy.validation import check_choice

_Bools = NDArray[np.bool_]
_Edges = list[tuple[int, int]]

_MOST_AGENTS = 64
_MOST_ENUMERATED = 5
"""Up to this number of agents, `random_edges` lists all graphs (at most 2^10), else SAMPLED_GRAPHS of them."""
SAMPLED_GRAPHS, SAMPLING_SEED = 256, 2023
# Far above rounding errors of sums of a few dozen numbers and of eigenvalues.
_ROUNDING = 1e-9


class Graph(ABC):
    """Communication graph of a config's `graph`; those of different stages are drawn independently."""

    @abstractmethod
    def adjacencies(self, n_agents: int) -> tuple[_Bools, Float64Array]:
        """Return the graphs bool[m, n, n], symmetric with nothing on the diagonal, and their probabilities [m]."""

    def matrices(self, n_agents: int) -> tuple[Float64Array, Float64Array]:
        """Return the distribution of each stage's matrix: L float64[m, n, n] of n agents, and probabilities float64[m].

        Weights are those of Metropolis-Hastings.

        Raises ValueError for an unsupported number of agents, and unless Assumption 2 holds for this list.
        Paper: [TH23] sec. 2.1, Assumption 2.
        """
        check_whole("n_agents", n_agents, 1, _MOST_AGENTS)
        adjacencies, probabilities = self.adjacencies(n_agents)
        matrices = metropolis(adjacencies)
        check_assumption_2(adjacencies, matrices, probabilities)
        return matrices, probabilities


FIXED_GRAPHS: dict[str, Callable[[int], _Edges]] = {
    "complete": lambda n: list(combinations(range(n), 2)),
    # Two agents have one edge.
    "ring": lambda n: [(i, (i + 1) % n) for i in range(n if n > 1 else 0)],
    "star": lambda n: [(0, i) for i in range(1, n)],
    "line": lambda n: [(i, i + 1) for i in range(n - 1)],
}
"""Edges of the constant graphs on n agents, by name."""


@dataclass(frozen=True)
class FixedGraph(Graph):
    """Constant graph, one of FIXED_GRAPHS."""

    shape: str = "complete"

    def adjacencies(self, n_agents: int) -> tuple[_Bools, Float64Array]:
        """Return the one graph, of probability 1."""
        return _adjacency(n_agents, FIXED_GRAPHS[self.shape](n_agents))[None], np.ones(1)


@dataclass(frozen=True)
class RandomEdges(Graph):
    """After every stage each edge exists with probability `edge_probability`, independently of the others.

    For up to 5 agents the list contains all graphs. For more it contains 256 graphs, drawn once with the seed 2023 and
    equally likely; Assumption 2 is checked on them.
    """

    name: ClassVar[str] = "random_edges"

    edge_probability: float = 0.5

    def __post_init__(self) -> None:
        check_number("edge_probability", self.edge_probability, 1e-6, 1.0 + _ROUNDING)

    def adjacencies(self, n_agents: int) -> tuple[_Bools, Float64Array]:
        """Return all possible graphs, or 256 equally likely ones."""
        pairs = list(combinations(range(n_agents), 2))
        chance = min(self.edge_probability, 1.0)
        if n_agents <= _MOST_ENUMERATED:
            present = np.arange(2 ** len(pairs))[:, None] >> np.arange(len(pairs)) & 1 == 1
            probabilities = np.where(present, chance, 1.0 - chance).prod(axis=1)
        else:
            # The draws are the same for every probability, so a larger one only adds edges.
            present = np.random.default_rng(SAMPLING_SEED).random((SAMPLED_GRAPHS, len(pairs))) < chance
            probabilities = np.full(SAMPLED_GRAPHS, 1.0 / SAMPLED_GRAPHS)
        possible = probabilities > 0.0
        found = [[pairs[j] for j in np.flatnonzero(row)] for row in present[possible]]
        return np.stack([_adjacency(n_agents, edges) for edges in found]), probabilities[possible]


@dataclass(frozen=True)
class Gossip(Graph):
    """After every stage two agents talk: one edge of the graph `over`, all of them equally likely."""

    name: ClassVar[str] = "gossip"

    over: str = "complete"

    def __post_init__(self) -> None:
        check_choice("over", self.over, FIXED_GRAPHS)

    def adjacencies(self, n_agents: int) -> tuple[_Bools, Float64Array]:
        """Return one graph for each edge; one agent has the graph without edges."""
        adjacency = _adjacency(n_agents, FIXED_GRAPHS[self.over](n_agents))
        alone = [[(int(i), int(j))] for i, j in np.argwhere(np.triu(adjacency))] or [[]]
        return np.stack([_adjacency(n_agents, edges) for edges in alone]), np.full(len(alone), 1.0 / len(alone))


GRAPHS: dict[str, Callable[[], Graph]] = {
    **{shape: partial(FixedGraph, shape) for shape in FIXED_GRAPHS},
    RandomEdges.name: RandomEdges,
    Gossip.name: Gossip,
}
"""Graphs by their names in configs."""


def metropolis(adjacencies: _Bools) -> Float64Array:
    """Return the weights [m, n, n] of graphs: 1 / (1 + the larger degree) on edges, the rest on the diagonal.

    They are symmetric and doubly stochastic, and an agent's own weight is at least 1 / (1 + its degree).
    """
    n_agents = adjacencies.shape[-1]
    degrees = adjacencies.sum(axis=-1)
    weights = adjacencies / (1.0 + np.maximum(degrees[..., :, None], degrees[..., None, :]))
    own = 1.0 - weights.sum(axis=-1)
    return np.ascontiguousarray(weights + own[..., None] * np.eye(n_agents))


def check_assumption_2(adjacencies: _Bools, matrices: Float64Array, probabilities: Float64Array) -> float:
    """Return the spectral norm of E[L'(I - 11'/n)L]; raise ValueError unless it is below 1.

    Each stage multiplies the expected squared distance of the agents' numbers from their mean by at most this norm. The
    other parts of the assumption hold for every list of `metropolis`: rows and columns sum to 1, weights are on edges
    only, and kappa, the least positive weight, is at least 1/n.

    adjacencies bool[m, n, n]: the edges of each matrix. matrices float64[m, n, n]. probabilities float64[m]: of their
    finite distribution; expectations over it are exact.
    Paper: [TH23] Assumption 2.
    """
    # I - 11'/n is its own square, so each side gets one factor.
    apart = matrices - matrices.mean(axis=1, keepdims=True)
    spread = np.einsum("m,mki,mkj->ij", probabilities, apart, apart)
    norm = float(np.linalg.eigvalsh(spread)[-1])
    if norm > 1.0 - _ROUNDING:
        raise ValueError(
            "graph must mix (Assumption 2, iii): the spectral norm of E[L'(I - 11'/n)L] must be below 1, got "
            f"{norm:.9g} for a graph of {_parts(adjacencies[probabilities > 0.0])} parts; add an edge"
        )
    return norm


def _parts(adjacencies: _Bools) -> int:
    """Return the number of connected components of the union of all graphs [m, n, n]."""
    n_agents = adjacencies.shape[1]
    steps = adjacencies.sum(axis=0) + np.eye(n_agents) > 0.0
    reached = np.linalg.matrix_power(steps / n_agents, n_agents) > 0.0
    return len(np.unique(reached, axis=0))


def _adjacency(n_agents: int, edges: _Edges) -> _Bools:
    """Return the symmetric table [n, n] of edges."""
    table = np.zeros((n_agents, n_agents), dtype=np.bool_)
    for i, j in edges:
        table[i, j] = table[j, i] = True
    return table


# D23: sec. 2.1 has the graph of time t = kh, which would be the same for stage 3 of user 2 and stage 2 of user 3.
@no_alloc_kernel
def matrix_number(reached: Float64Array, uniform: float) -> int:
    """Return the index of a stage's matrix among m by a uniform draw in [0, 1); reached [m]: sums of probabilities."""
    low = 0
    last: int = reached.shape[0] - 1
    while low < last:
        middle = (low + last) // 2
        if uniform < reached[middle]:
            last = middle
        else:
            low = middle + 1
    return low


@no_alloc_kernel
def consensus(weights: Float64Array, matrix: Float64Array, workspace: Float64Array) -> None:
    """Replace weights [n, p], one row for each agent, by matrix [n, n] @ weights; workspace [n, p] is overwritten.

    Paper: [TH23] Algorithm 1, line 42.
    """
    for i in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            total = 0.0
            for j in range(weights.shape[0]):
                total += matrix[i, j] * weights[j, m]
            workspace[i, m] = total
    for i in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            weights[i, m] = workspace[i, m]
