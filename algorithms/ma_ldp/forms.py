"""Linear and quadratic forms of phi_V as tables over the actions of one or two agents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.compiled import inlined


class Forms(NamedTuple):
    """Tables of one estimate for the linear and quadratic forms of phi_V, for n agents and A actions.

    linear float64[n, A]: <theta_p, a>; constant float64[n]: theta_p's last. squares float64[n, n, A, A]: a^T W_pr b,
    twice it for p < r; mixed float64[n, A, n]: 2 a^T w_pr, the last column of W_pr; last float64[n, n]: its corner.
    """

    linear: Float64Array
    constant: Float64Array
    squares: Float64Array
    mixed: Float64Array
    last: Float64Array
    product: Float64Array


def empty_forms(n_agents: int, n_actions: int, length: int) -> Forms:
    """Return empty tables; length: d - 1."""
    return Forms(
        linear=np.zeros((n_agents, n_actions)),
        constant=np.zeros(n_agents),
        squares=np.zeros((n_agents, n_agents, n_actions, n_actions)),
        mixed=np.zeros((n_agents, n_actions, n_agents)),
        last=np.zeros((n_agents, n_agents)),
        product=np.zeros(length),
    )


@inlined
def fill_forms(actions: Float64Array, estimate: Float64Array, inverse: Float64Array, forms: Forms) -> None:
    """Fill `forms` from theta float64[D] and W = Sigma^-1 float64[D, D]."""
    n, (n_actions, length) = forms.constant.shape[0], actions.shape
    d, half = length + 1, (n_actions + 1) // 2
    for p in range(n):
        own = estimate[p * d : p * d + d]
        forms.constant[p] = own[length]
        # Actions come in opposite pairs, a and A - 1 - a, with entries of opposite sign.
        for a in range(half):
            forms.linear[p, a] = _form(actions[a], own)
            forms.linear[p, n_actions - 1 - a] = -forms.linear[p, a]
        for r in range(n):
            block = inverse[p * d : p * d + d, r * d : r * d + d]
            forms.last[p, r] = block[length, length]
            for a in range(half):
                forms.mixed[p, a, r] = 2.0 * _form(actions[a], block[:, length])
                forms.mixed[p, n_actions - 1 - a, r] = -forms.mixed[p, a, r]
            if r >= p:
                _fill_squares(actions, block, p == r, forms.squares[p, r], forms.product)


@inlined
def _fill_squares(
    actions: Float64Array, block: Float64Array, same: bool, squares: Float64Array, product: Float64Array
) -> None:
    """Fill squares [A, A] with a^T W b, of one agent with itself on the diagonal only, of two agents twice."""
    n_actions = actions.shape[0]
    last = n_actions - 1
    for b in range((n_actions + 1) // 2):
        _fill_product(block, actions[b], product)
        if same:
            squares[b, b] = _form(actions[b], product)
            squares[last - b, last - b] = squares[b, b]
        else:
            for a in range((n_actions + 1) // 2):
                square = 2.0 * _form(actions[a], product)
                squares[a, b], squares[last - a, last - b] = square, square
                squares[last - a, b], squares[a, last - b] = -square, -square


@inlined
def _form(action: Float64Array, vector: Float64Array) -> float:
    total = 0.0
    for e in range(action.shape[0]):
        total += action[e] * vector[e]
    return total


@inlined
def _fill_product(block: Float64Array, action: Float64Array, product: Float64Array) -> None:
    for e in range(product.shape[0]):
        total = 0.0
        for g in range(product.shape[0]):
            total += block[e, g] * action[g]
        product[e] = total
