"""Shared cases: the paper's formulas in dense form, and random linear mixture MDPs."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.envs.network_mdp import NetworkMDP, SignMixture
from dprl.envs.network_mdp.dynamics import SuccessorLists

Floats = NDArray[np.float64]

# (fields of the spec): small and large, one agent, all settings different.
SPECS: dict[str, dict[str, Any]] = {
    "papers": {},
    "one_agent": {"n_agents": 1, "gap": 0.2},
    "three_agents": {"n_agents": 3, "gap": 0.05},
    "more_nodes": {"n_intermediate": 2, "gap": 0.1},
    "three_dimensions": {"dimension": 3, "signs": "random", "sign_seed": 5},
    "uneven": {"gap": 0.07, "start_forward": 0.2, "node_leave": 0.6, "node_forward": 0.3, "horizon": 4},
    "all_larger": {"n_agents": 3, "dimension": 3, "gap": 0.04, "signs": "random", "start_forward": 0.4},
}


class Printed(NamedTuple):
    """Features [S, A^n, S', n d] of eq. (62), theta* [n d], alpha [S] and probabilities [S, A^n, S']."""

    features: Floats
    theta: Floats
    alpha: Floats
    transitions: Floats


def local_feature(spec: NetworkMDP, before: int, after: int, action: Floats) -> Floats:
    """phi(s'^i | s^i, a^i), with s_in -> 1 in the second row."""
    n, goal = spec.n_agents, spec.n_intermediate + 1
    if before == goal:
        return np.append(0 * action, 1 / n)
    if before == 0:
        return (
            np.append(-action, (1 - spec.start_forward) / n)
            if after == 0
            else np.append(action, spec.start_forward / n)
        )
    if after == before:
        return np.append(-action, (1 - spec.node_leave) / n)
    if after == before + 1:
        return np.append(action, spec.node_forward / n)
    return np.append(0 * action, (spec.node_leave - spec.node_forward) / n)


def printed(spec: NetworkMDP, theta: Floats) -> Printed:
    """The formulas of [TH23] sec. 8 for theta [n, d-1], 1 / alpha(s) taken into the features."""
    n, d, goal = spec.n_agents, spec.dimension, spec.n_intermediate + 1
    states = list(itertools.product(range(goal + 1), repeat=n))
    vectors = [np.array(vector) for vector in itertools.product([-1.0, 1.0], repeat=d - 1)]
    joint = list(itertools.product(vectors, repeat=n))
    features, alpha = np.zeros((len(states), len(joint), len(states), n * d)), np.zeros(len(states))
    for s, before in enumerate(states):
        ends = [[x] if x == goal else [0, 1] if x == 0 else [x - 1, x, x + 1] for x in before]
        feasible = list(itertools.product(*ends))
        x = [before.count(node) for node in range(goal + 1)]
        alpha[s] = len(feasible) / n * (x[0] / 2 + x[goal] + sum(x[1:goal]) / 3)
        for a, actions in enumerate(joint):
            for after in feasible:
                phi = np.concatenate([local_feature(spec, before[i], after[i], actions[i]) for i in range(n)])
                if before == (goal,) * n:
                    phi = np.zeros(n * d)
                    phi[-1] = alpha[s]
                phi[d - 1 :: d] /= alpha[s]
                features[s, a, states.index(after)] = phi
    theta_star = np.concatenate([np.append(row, 1.0) for row in theta])
    return Printed(features, theta_star, alpha, features @ theta_star)


def theta_star(mdp: SignMixture) -> np.ndarray:
    """theta* [n d] = (theta_1, 1, ..., theta_n, 1)."""
    return np.column_stack([mdp.theta, np.ones(mdp.n_agents)]).ravel()


def random_mixture(
    seed: int, n_agents: int = 2, dimension: int = 2, n_states: int = 3, horizon: int = 2
) -> SignMixture:
    """A mixture in which nothing is 0: lists of random states, random signs, parameters almost at their limit."""
    rng = np.random.default_rng(seed)
    first, states, signs, constants = [0], [], [], []
    for _ in range(n_states):
        size = int(rng.integers(2, n_states + 1))
        states.append(np.sort(rng.choice(n_states, size, replace=False)))
        half = np.repeat([1.0, -1.0, 0.0], [size // 2, size // 2, size % 2])
        signs.append(np.stack([rng.permutation(half) for _ in range(n_agents)], axis=1))
        constants.append(rng.dirichlet(np.ones(size * n_agents)).reshape(size, n_agents))
        first.append(first[-1] + size)
    sign, constant = np.concatenate(signs), np.concatenate(constants)
    theta = rng.normal(size=(n_agents, dimension - 1))
    heights = np.abs(sign) @ np.abs(theta).sum(axis=1)
    theta *= 0.99 * (constant.sum(axis=1)[heights > 0] / heights[heights > 0]).min()
    lists = SuccessorLists(np.array(first), np.concatenate(states), sign, constant)
    return SignMixture("random", horizon, lists, theta, rng.random((n_agents, n_states)), start=n_states - 1)
