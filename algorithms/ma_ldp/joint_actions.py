"""Q of all joint actions of any number of agents, at all states at once, and the worst case of each action.

Both forms are summed agent by agent, so joint actions with a common prefix share its sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.ma_ldp.forms import Forms
from dprl.compiled import inlined, no_alloc_kernel

_LANES = 16
"""States are padded to a multiple of it, because compilers do not vectorise a shorter rest."""


class Features(NamedTuple):
    """Of one stage: slopes, levels float64[n, W], c and k of phi_V; estimated rewards float64[W]."""

    slopes: Float64Array
    levels: Float64Array
    rewards: Float64Array


class Bounds(NamedTuple):
    """Of one stage: beta, beta_{k,h}; cap and floor of Q."""

    beta: float
    cap: float
    floor: float


class Worst(NamedTuple):
    """Results from Q: least float64[n, A, W], the least value of an action over others' actions.

    most float64[W]: the best joint action, if `joint` is 1. digits int64[n]: the joint action under way.
    """

    least: Float64Array
    most: Float64Array
    digits: Int64Array
    joint: int


class Rows(NamedTuple):
    """Scratch, rows of W states.

    own, own_square float64[n, A, W]: one agent's part of both forms. products float64[n, n, W]: c_p c_r, p < r. sums,
    square float64[n, W]: both forms over the first p agents; bends float64[A, W]: see `_fill_bends`; total float64[W]:
    Q of a joint action.
    """

    own: Float64Array
    own_square: Float64Array
    products: Float64Array
    sums: Float64Array
    square: Float64Array
    bends: Float64Array
    total: Float64Array


def padded(n_states: int) -> int:
    """Return W, the number of states rounded up to whole vectors."""
    return -(-n_states // _LANES) * _LANES


def workspace(n_agents: int, n_actions: int, width: int, joint: bool) -> tuple[Rows, Worst]:
    """Return the workspace; joint: whether the best joint action is needed."""
    rows = Rows(
        own=np.zeros((n_agents, n_actions, width)),
        own_square=np.zeros((n_agents, n_actions, width)),
        products=np.zeros((n_agents, n_agents, width)),
        sums=np.zeros((n_agents, width)),
        square=np.zeros((n_agents, width)),
        bends=np.zeros((n_actions, width)),
        total=np.zeros(width),
    )
    least = np.zeros((n_agents, n_actions, width))
    return rows, Worst(least, np.zeros(width), np.zeros(n_agents, dtype=np.int64), int(joint))


@no_alloc_kernel
def fill_worst(
    forms: Forms, features: Features, bounds: Bounds, rows: Rows, worst: Worst, agents: tuple[int, int]
) -> int:
    """Fill `worst` from Q of all joint actions; return the number of entries of Q cut at the cap.

    agents: the first one whose `least` is filled, and the one after the last.
    """
    n, n_actions = forms.linear.shape
    _fill_parts(forms, features, rows)
    cut, digits = 0, worst.digits
    worst.least[agents[0] : agents[1]] = np.inf
    worst.most[:] = -np.inf
    digits[:] = 0
    changed = 0
    while changed >= 0:
        for p in range(changed, n - 1):
            _add_agent(forms, rows, digits, p)
        if changed < max(n - 2, 1):
            _fill_bends(forms, rows, digits)
        for a in range(n_actions):
            digits[n - 1] = a
            cut += _fill_total(forms, bounds, rows, digits)
            for i in range(agents[0], agents[1]):
                lower(worst.least[i, digits[i]], rows.total)
            if worst.joint == 1:
                higher(worst.most, rows.total)
        # The next actions of all but the last agent; those of the last of them change fastest.
        changed = n - 2
        while changed >= 0 and digits[changed] == n_actions - 1:
            digits[changed] = 0
            changed -= 1
        if changed >= 0:
            digits[changed] += 1
    return cut


@inlined
def lower(least: Float64Array, total: Float64Array) -> None:
    """Replace least [W] by the smaller one of both."""
    for s in range(total.shape[0]):
        least[s] = min(least[s], total[s])


@inlined
def higher(most: Float64Array, total: Float64Array) -> None:
    """Replace most [W] by the larger one of both."""
    for s in range(total.shape[0]):
        most[s] = max(most[s], total[s])


@inlined
def _fill_parts(forms: Forms, features: Features, rows: Rows) -> None:
    """Fill each agent's own part of both forms, and the constant parts in sums[0] and square[0]."""
    slopes, levels, rewards = features
    n, n_actions = forms.linear.shape
    width, base, square = rewards.shape[0], rows.sums[0], rows.square[0]
    for s in range(width):
        base[s] = rewards[s]
        square[s] = 0.0
    for p in range(n):
        c, k, constant, corner = slopes[p], levels[p], forms.constant[p], forms.last[p, p]
        for s in range(width):
            base[s] += k[s] * constant
            square[s] += k[s] * k[s] * corner
        for r in range(p + 1, n):
            other_c, other_k, twice, product = slopes[r], levels[r], 2.0 * forms.last[p, r], rows.products[p, r]
            for s in range(width):
                square[s] += k[s] * other_k[s] * twice
                product[s] = c[s] * other_c[s]
        for a in range(n_actions):
            _fill_own(forms, c, levels, (p, a), rows.own[p, a], rows.own_square[p, a])


@inlined
def _fill_own(
    forms: Forms,
    c: Float64Array,
    levels: Float64Array,
    at: tuple[int, int],
    own: Float64Array,
    own_square: Float64Array,
) -> None:
    """Fill the own part of action a of agent p, `at`, in both forms."""
    p, a = at
    slope, bend = forms.linear[p, a], forms.squares[p, p, a, a]
    for s in range(c.shape[0]):
        own[s] = c[s] * slope
        own_square[s] = c[s] * c[s] * bend
    for r in range(levels.shape[0]):
        other, mixed = levels[r], forms.mixed[p, a, r]
        for s in range(c.shape[0]):
            own_square[s] += c[s] * other[s] * mixed


@inlined
def _add_agent(forms: Forms, rows: Rows, digits: Int64Array, p: int) -> None:
    """Fill both forms over agents 0..p from those over 0..p-1."""
    a = digits[p]
    before, after, own = rows.sums[p], rows.sums[p + 1], rows.own[p, a]
    square, summed, own_square = rows.square[p], rows.square[p + 1], rows.own_square[p, a]
    for s in range(before.shape[0]):
        after[s] = before[s] + own[s]
        summed[s] = square[s] + own_square[s]
    for r in range(p):
        _add_multiple(summed, rows.products[r, p], forms.squares[r, p, digits[r], a])


@inlined
def _fill_bends(forms: Forms, rows: Rows, digits: Int64Array) -> None:
    """Fill the quadratic form's terms of the last agent with itself and with agents 0..n-3, for all its actions."""
    last, n_actions = forms.linear.shape[0] - 1, forms.linear.shape[1]
    for a in range(n_actions):
        bend, own_square = rows.bends[a], rows.own_square[last, a]
        for s in range(bend.shape[0]):
            bend[s] = own_square[s]
        for r in range(last - 1):
            _add_multiple(bend, rows.products[r, last], forms.squares[r, last, digits[r], a])


@inlined
def _add_multiple(sums: Float64Array, product: Float64Array, factor: float) -> None:
    for s in range(sums.shape[0]):
        sums[s] += product[s] * factor


@inlined
def _fill_total(forms: Forms, bounds: Bounds, rows: Rows, digits: Int64Array) -> int:
    """Fill rows.total with Q, cut at cap and floor; return the number of states at the cap."""
    beta, cap, floor = bounds
    last = digits.shape[0] - 1
    near, a = max(last - 1, 0), digits[last]
    sums, own, square, bend = rows.sums[last], rows.own[last, a], rows.square[last], rows.bends[a]
    product, factor = rows.products[near, last], forms.squares[near, last, digits[near], a] if last > 0 else 0.0
    total, cut = rows.total, 0
    for s in range(total.shape[0]):
        form = square[s] + bend[s] + product[s] * factor
        value = sums[s] + own[s] + beta * np.sqrt(max(form, 0.0))
        cut += value >= cap
        total[s] = max(min(value, cap), floor)
    return cut
