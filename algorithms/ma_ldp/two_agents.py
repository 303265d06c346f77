"""Version of `joint_actions` for two agents, the paper's number: one loop over states for each pair of actions.

Rows have few states, so starting a loop costs more than running it: fewer loops do more in each.
"""

from __future__ import annotations

import numpy as np

from dprl.algorithms.ma_ldp.forms import Forms
from dprl.algorithms.ma_ldp.joint_actions import Bounds, Features, Rows, Worst, higher, lower
from dprl.compiled import inlined, no_alloc_kernel


@no_alloc_kernel
def fill_worst_of_two(
    forms: Forms, features: Features, bounds: Bounds, rows: Rows, worst: Worst, agents: tuple[int, int]
) -> int:
    """Fill the worst cases like `fill_worst`, for two agents."""
    n_actions, (beta, cap, floor) = forms.linear.shape[1], bounds
    k0, c1, k1 = features.levels[0], features.slopes[1], features.levels[1]
    product, sums, square, total = rows.products[0, 1], rows.sums[1], rows.square[1], rows.total
    _begin(forms, features, rows)
    worst.least[agents[0] : agents[1]] = np.inf
    worst.most[:] = -np.inf
    cut = 0
    for a in range(n_actions):
        _add_first(forms, features, rows, a)
        for b in range(n_actions):
            linear, bend, both = forms.linear[1, b], forms.squares[1, 1, b, b], forms.squares[0, 1, a, b]
            mixed0, mixed1 = forms.mixed[1, b, 0], forms.mixed[1, b, 1]
            for s in range(total.shape[0]):
                own = c1[s] * (c1[s] * bend + k0[s] * mixed0 + k1[s] * mixed1)
                form = square[s] + own + product[s] * both
                value = sums[s] + c1[s] * linear + beta * np.sqrt(max(form, 0.0))
                cut += value >= cap
                total[s] = max(min(value, cap), floor)
            if agents[0] == 0:
                lower(worst.least[0, a], total)
            if agents[1] == 2:
                lower(worst.least[1, b], total)
            if worst.joint == 1:
                higher(worst.most, total)
    return cut


@inlined
def _begin(forms: Forms, features: Features, rows: Rows) -> None:
    """Fill the constant parts of both forms, and c_0 c_1."""
    c0, k0, c1, k1 = features.slopes[0], features.levels[0], features.slopes[1], features.levels[1]
    rewards, base, square, product = features.rewards, rows.sums[0], rows.square[0], rows.products[0, 1]
    constant0, constant1 = forms.constant[0], forms.constant[1]
    corner0, corner, corner1 = forms.last[0, 0], 2.0 * forms.last[0, 1], forms.last[1, 1]
    for s in range(base.shape[0]):
        base[s] = rewards[s] + k0[s] * constant0 + k1[s] * constant1
    for s in range(base.shape[0]):
        square[s] = k0[s] * (k0[s] * corner0 + k1[s] * corner) + k1[s] * k1[s] * corner1
    for s in range(base.shape[0]):
        product[s] = c0[s] * c1[s]


@inlined
def _add_first(forms: Forms, features: Features, rows: Rows, a: int) -> None:
    """Add the part of the first agent's action a to both forms."""
    c0, k0, k1 = features.slopes[0], features.levels[0], features.levels[1]
    base, before, sums, square = rows.sums[0], rows.square[0], rows.sums[1], rows.square[1]
    linear, bend = forms.linear[0, a], forms.squares[0, 0, a, a]
    mixed0, mixed1 = forms.mixed[0, a, 0], forms.mixed[0, a, 1]
    for s in range(base.shape[0]):
        sums[s] = base[s] + c0[s] * linear
    for s in range(base.shape[0]):
        square[s] = before[s] + c0[s] * (c0[s] * bend + k0[s] * mixed0 + k1[s] * mixed1)
