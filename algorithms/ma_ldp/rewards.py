"""Mean reward: known, or learned by decreasing steps on released corrections and by consensus on a public graph.

Paper: [TH23] sec. 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprl.algorithms.base import Float64Array, check_number, check_whole
from dprl.algorithms.ma_ldp.planning import padded
from dprl.compiled import kernel, no_alloc_kernel, shows_numbers
from dprl.envs.network_mdp import LinearMixtureMDP

_MOST_AGENTS = 64

GRAPHS: dict[str, Callable[[int], list[tuple[int, int]]]] = {
    "complete": lambda n: list(combinations(range(n), 2)),
    # Two agents have one edge.
    "ring": lambda n: [(i, (i + 1) % n) for i in range(n if n > 1 else 0)],
    "star": lambda n: [(0, i) for i in range(1, n)],
    "line": lambda n: [(i, i + 1) for i in range(n - 1)],
}
"""Edges of the graphs on n agents, by their names in configs; every agent hears itself."""
LARGEST_STEP = 2.0
"""For steps up to this and features of norm at most 1, the error at a state does not grow (but may change sign)."""


def check_steps(step: float, decay: float) -> None:
    """Raise ValueError unless the steps gamma_k = step k^(-decay) of episodes k = 1, 2, ... settle.

    The step must be above 0 and at most 2. The decay must be above 1/2, so that the squares of the steps have a finite
    sum, and at most 1, so that the steps have an infinite sum; each stage has its own weights, so these sums are over
    episodes. The errors name the config's fields, `reward_step` and `reward_decay`.

    Paper: [TH23] sec. 2.1.
    """
    check_number("reward_step", step, 1e-12, LARGEST_STEP + 1e-9)
    check_number("reward_decay", decay, 0.0)
    if decay <= 0.5:
        raise ValueError(
            f"reward_decay must be above 1/2, got {decay:g}: the squares of the steps would have an infinite "
            "sum, and weights would never settle; set it to 0.75, for instance"
        )
    if decay > 1.0:
        raise ValueError(
            f"reward_decay must be at most 1, got {decay:g}: the steps would have a finite sum, and weights "
            "could stop on the way; set it to 0.75, for instance"
        )


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


@kernel
def reward_step(rule_step: float, rule_decay: float, k: int) -> float:
    """Return gamma_k of episode k = 1, 2, ..."""
    gamma: float = rule_step * float(k) ** -rule_decay
    return gamma


@no_alloc_kernel
def correct(weights: Float64Array, corrections: Float64Array, gamma: float) -> None:
    """Add gamma times corrections [n, p] to weights [n, p], one row for each agent.

    An agent's correction is (r^i - <psi(s), w^i>) psi(s), or its released version.
    Paper: [TH23] Algorithm 1, line 18.
    """
    for i in range(weights.shape[0]):
        for m in range(weights.shape[1]):
            weights[i, m] += gamma * corrections[i, m]


@shows_numbers
class RewardEstimates(NamedTuple):
    """Agents' reward weights and the rules of their updates.

    learned: 1, or 0 where rewards are public. weights float64[H, n, p]; values float64[M, H, W]: <psi(s), w>, cut to
    [0, 1] if `cut` is 1. corrections float64[n, H, p]: as released, summed over users since the last step. psi
    float64[S, p]. step, decay: of gamma_k.
    matrix float64[n, n]: of consensus. workspace float64[n, p], own float64[n, p], received float64[n, H, p]: scratch.
    """

    learned: int
    weights: Float64Array
    values: Float64Array
    cut: int
    corrections: Float64Array
    psi: Float64Array
    step: float
    decay: float
    matrix: Float64Array
    workspace: Float64Array
    own: Float64Array
    received: Float64Array


def first_estimates(
    mdp: LinearMixtureMDP, *, learned: bool, cut: bool, step: float, decay: float, graph: str, n_messages: int
) -> RewardEstimates:
    """Return the first estimates: the true ones if rewards are public, else zeros. graph: of consensus."""
    n, horizon, p = mdp.n_agents, mdp.horizon, mdp.reward_features.shape[1]
    values = np.zeros((n_messages, horizon, padded(mdp.n_states)))
    if not learned:
        values[..., : mdp.n_states] = mdp.common_rewards
    return RewardEstimates(
        learned=int(learned),
        weights=np.zeros((horizon, n, p)),
        values=values,
        cut=int(cut),
        corrections=np.zeros((n, horizon, p)),
        psi=mdp.reward_features,
        step=step,
        decay=decay,
        matrix=consensus_matrix(graph, n),
        workspace=np.zeros((n, p)),
        own=np.zeros((n, p)),
        received=np.zeros((n, horizon, p)),
    )


@no_alloc_kernel
def collect(estimates: RewardEstimates) -> None:
    """Add the corrections in estimates.received to those since the last step."""
    total, received = estimates.corrections, estimates.received
    for i in range(total.shape[0]):
        for h in range(total.shape[1]):
            for j in range(total.shape[2]):
                total[i, h, j] += received[i, h, j]


@no_alloc_kernel
def update(estimates: RewardEstimates, number: int, users: int) -> None:
    """Make step `number` = 1, 2, ... along the mean of the collected corrections of `users` users, and clear them.

    Agents average with neighbours, and the estimates follow. With one user per step, `number` is the user's k.

    Paper: [TH23] Algorithm 1, lines 18 and 43.
    """
    n_stages, n, p = estimates.weights.shape
    gamma = reward_step(estimates.step, estimates.decay, number)
    for h in range(n_stages):
        for i in range(n):
            for j in range(p):
                estimates.own[i, j] = estimates.corrections[i, h, j] / users
        correct(estimates.weights[h], estimates.own, gamma)
        consensus(estimates.weights[h], estimates.matrix, estimates.workspace)
    estimates.corrections[...] = 0.0
    for m in range(estimates.values.shape[0]):
        for h in range(estimates.values.shape[1]):
            for s in range(estimates.psi.shape[0]):
                total = 0.0
                for j in range(estimates.psi.shape[1]):
                    total += estimates.psi[s, j] * estimates.weights[h, m, j]
                # Rewards lie in [0, 1]; the paper does not use this.
                estimates.values[m, h, s] = min(max(total, 0.0), 1.0) if estimates.cut == 1 else total


def mean_error(estimates: RewardEstimates, rewards: Float64Array, reached: npt.NDArray[np.bool_]) -> float:
    """Return the mean of |estimated - true reward| over agents and reachable pairs (h, s).

    rewards float64[S]: the mean reward. reached bool[H, S]: the reachable states at each stage.
    """
    errors = np.abs(estimates.values[..., : rewards.shape[0]] - rewards)
    return float(errors[:, reached].mean())
