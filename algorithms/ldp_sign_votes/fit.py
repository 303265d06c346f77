"""Least squares of the server: the effect of public actions on the state, from randomised votes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.cholesky import inverted
from dprl.compiled import inlined, no_alloc_kernel

RIDGE = 1.0
"""Ridge of the Gram matrices, worth one vote: it limits the weight of the first votes."""
_LOGISTIC_DEVIATION = math.pi / math.sqrt(3.0)


class Votes(NamedTuple):
    """Sums over the votes on each agent: sums float64[n, d-1] of vote times action, gram float64[n, d-1, d-1]."""

    sums: Float64Array
    gram: Float64Array


class Fit(NamedTuple):
    """Of each agent: slopes float64[n, d-1], by least squares; spread float64[n, d-1], their standard deviations.

    inverse, factor float64[d-1, d-1]: scratch.
    """

    slopes: Float64Array
    spread: Float64Array
    inverse: Float64Array
    factor: Float64Array


def no_votes(n_agents: int, length: int) -> tuple[Votes, Fit]:
    """Return the state before any vote."""
    square = (length, length)
    votes = Votes(np.zeros((n_agents, length)), np.zeros((n_agents, *square)))
    return votes, Fit(np.zeros((n_agents, length)), np.ones((n_agents, length)), np.zeros(square), np.zeros(square))


@no_alloc_kernel
def add_vote(votes: Votes, agent: int, action: Float64Array, vote: float) -> None:
    """Add a randomised vote, 1 or -1, on an agent's action float64[d-1]."""
    for e in range(action.shape[0]):
        votes.sums[agent, e] += vote * action[e]
        for g in range(action.shape[0]):
            votes.gram[agent, e, g] += action[e] * action[g]


@no_alloc_kernel
def refit(votes: Votes, agent: int, fit: Fit) -> None:
    """Fit an agent's slopes again. A vote has variance 1 at most."""
    inverted(votes.gram[agent], RIDGE, fit.factor, fit.inverse)
    for e in range(fit.slopes.shape[1]):
        total = 0.0
        for g in range(fit.slopes.shape[1]):
            total += fit.inverse[e, g] * votes.sums[agent, g]
        fit.slopes[agent, e] = total
        fit.spread[agent, e] = math.sqrt(fit.inverse[e, e])


@no_alloc_kernel
def act(fit: Fit, exploration: float, uniforms: Float64Array, actions: Float64Array) -> bool:
    """Fill actions float64[n, d-1] with the signs of slopes, perturbed by `exploration` deviations; did they change?

    uniforms float64[n, d-1] in [0, 1): logistic perturbations; of a slope that is 0 they decide the sign alone.
    """
    changed = False
    for i in range(actions.shape[0]):
        for e in range(actions.shape[1]):
            uniform = min(max(uniforms[i, e], 1e-16), 1.0 - 1e-16)
            shift = math.log(uniform / (1.0 - uniform)) / _LOGISTIC_DEVIATION * fit.spread[i, e]
            slope = fit.slopes[i, e]
            sign = _sign(slope + exploration * shift if slope != 0.0 else shift)
            changed |= sign != actions[i, e]
            actions[i, e] = sign
    return changed


@inlined
def _sign(number: float) -> float:
    return 1.0 if number > 0.0 else -1.0
