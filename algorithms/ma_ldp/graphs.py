"""Communication graph of the agents, and the consensus matrix of their averages; both are public.

Paper: [TH23] sec. 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from dprl.algorithms.base import Float64Array, check_whole
from dprl.compiled import no_alloc_kernel

_MOST_AGENTS = 64

GRAPHS: dict[str, Callable[[int], list[tuple[int, int]]]] = {
    "complete": lambda n: list(combinations(range(n), 2)),
    # Two agents have one edge.
    "ring": lambda n: [(i, (i + 1) % n) for i in range(n if n > 1 else 0)],
    "star": lambda n: [(0, i) for i in range(1, n)],
    "line": lambda n: [(i, i + 1) for i in range(n - 1)],
}
"""Edges of the graphs on n agents, by their names in configs; every agent hears itself."""


# D23: sec. 2.1 has the graph of time t = kh, the same for stage 3 of user 2 and stage 2 of user 3; here it is constant.
def consensus_matrix(graph: str, n_agents: int) -> Float64Array:
    """Return the Metropolis-Hastings weights float64[n, n]: 1 / (1 + the larger degree) on edges, the rest for oneself.

    They are symmetric and doubly stochastic, and all weights are 0 or at least 1/n. Each average multiplies the
    expected squared distance from the mean by the spectral norm of L'(I - 11'/n)L at most, which is below 1 for
    connected graphs.

    Raises ValueError for an unsupported number of agents.
    Paper: [TH23] Assumption 2.
    """
    check_whole("n_agents", n_agents, 1, _MOST_AGENTS)
    adjacent = np.zeros((n_agents, n_agents), dtype=np.bool_)
    for i, j in GRAPHS[graph](n_agents):
        adjacent[i, j] = adjacent[j, i] = True
    degrees = adjacent.sum(axis=-1)
    weights = adjacent / (1.0 + np.maximum(degrees[:, None], degrees[None, :]))
    own = 1.0 - weights.sum(axis=-1)
    return np.ascontiguousarray(weights + own[:, None] * np.eye(n_agents))


@no_alloc_kernel
def consensus(weights: Float64Array, matrix: Float64Array, workspace: Float64Array) -> None:
    """Replace weights [n, p], one row for each agent, by matrix [n, n] @ weights; workspace [n, p] is overwritten.

    Paper: [TH23] Algorithm 1, line 43.
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
