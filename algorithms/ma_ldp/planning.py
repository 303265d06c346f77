"""Backward induction of MA-LDP without the feature tensor: optimistic values, then each agent's maxmin action.

An agent's part of phi_V(s, a) is (c[s, i] a_i, k[s, i]), linear in its action. So <theta, phi_V> is a sum of one number
for each agent, and phi_V^T Sigma^-1 phi_V one for each agent and each pair of agents: tables over one or two agents'
actions, times what depends on the state. Loops run over states, which are padded to whole vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.envs.network_mdp.base import action_vectors
from dprl.envs.network_mdp.dynamics import SuccessorLists
from dprl.privacy.compiled import borrowing, inlined

_LANES = 16
"""States are padded to a multiple of it; what a compiler makes of a shorter rest is not in vectors."""


class Rules(NamedTuple):
    """What is public and stays the same in a run.

    lists: what follows each state. actions float64[A, d-1]: the vectors of one agent's actions; n_agents: n.
    floor: the least optimistic value, 0, or -inf where the paper has none. joint: 1 if V is the maximum of Q over joint
    actions, 0 for the maxmin of line 16.
    """

    lists: SuccessorLists
    actions: Float64Array
    n_agents: int
    floor: float
    joint: int

    def __repr__(self) -> str:
        return f"Rules({self.n_agents} agents)"


class Plan(NamedTuple):
    """What one plan leaves; M is 1 if all agents share one value function, else n; W is S, padded.

    values float64[M, H+1, W]: V_{k,h}. slopes, levels float64[M, H, n, W]: c and k of phi_V. chances float64[H, S, n,
    A]: how likely an agent takes an action: ties are broken at random.
    """

    values: Float64Array
    slopes: Float64Array
    levels: Float64Array
    chances: Float64Array

    def __repr__(self) -> str:
        return f"Plan({self.chances.shape[0]} stages)"


class Forms(NamedTuple):
    """Of one estimate: what linear and quadratic forms of phi_V are made of; all of them for n agents and A actions.

    linear float64[n, A]: <theta_p, a>; constant float64[n]: theta_p's last. squares float64[n, n, A, A]: a^T W_pr b,
    twice it for p < r; mixed float64[n, A, n]: 2 a^T w_pr, the last column of W_pr; last float64[n, n]: its corner.
    """

    linear: Float64Array
    constant: Float64Array
    squares: Float64Array
    mixed: Float64Array
    last: Float64Array


class Room(NamedTuple):
    """Scratch, rows of W states.

    own, own_square float64[n, A, W]: one agent's part of both forms. products float64[n, n, W]: c_p c_r, p < r. sums,
    square float64[n, W]: both forms over the first p agents; bends float64[A, W]: see `_fill_bends`; total float64[W]:
    Q of a joint action. least float64[n, A, W]: the worst that others can do to an action; most float64[W]: the best
    joint action. digits int64[n]: the joint action.
    """

    own: Float64Array
    own_square: Float64Array
    products: Float64Array
    sums: Float64Array
    square: Float64Array
    bends: Float64Array
    total: Float64Array
    least: Float64Array
    most: Float64Array
    digits: Int64Array


def padded(n_states: int) -> int:
    """Return W."""
    return -(-n_states // _LANES) * _LANES


def rules(lists: SuccessorLists, dimension: int, n_agents: int, floor: float, joint: bool) -> Rules:
    """Return the rules for agents whose actions are the vectors of {-1, 1}^(d-1)."""
    return Rules(lists, action_vectors(dimension), n_agents, floor, int(joint))


def empty_plan(rules: Rules, horizon: int, n_states: int, n_messages: int) -> Plan:
    """Return room for a plan."""
    n, width, n_actions = rules.n_agents, padded(n_states), rules.actions.shape[0]
    return Plan(
        values=np.zeros((n_messages, horizon + 1, width)),
        slopes=np.zeros((n_messages, horizon, n, width)),
        levels=np.zeros((n_messages, horizon, n, width)),
        chances=np.full((horizon, n_states, n, n_actions), 1.0 / n_actions),
    )


def room(rules: Rules, n_states: int) -> tuple[Forms, Room]:
    """Return scratch for a plan."""
    n, width, n_actions = rules.n_agents, padded(n_states), rules.actions.shape[0]
    forms = Forms(
        linear=np.zeros((n, n_actions)),
        constant=np.zeros(n),
        squares=np.zeros((n, n, n_actions, n_actions)),
        mixed=np.zeros((n, n_actions, n)),
        last=np.zeros((n, n)),
    )
    rows = Room(
        own=np.zeros((n, n_actions, width)),
        own_square=np.zeros((n, n_actions, width)),
        products=np.zeros((n, n, width)),
        sums=np.zeros((n, width)),
        square=np.zeros((n, width)),
        bends=np.zeros((n_actions, width)),
        total=np.zeros(width),
        least=np.zeros((n, n_actions, width)),
        most=np.zeros(width),
        digits=np.zeros(n, dtype=np.int64),
    )
    return forms, rows


@borrowing
def plan(
    rules: Rules,
    estimates: Float64Array,
    inverses: Float64Array,
    rewards: Float64Array,
    widths: Float64Array,
    scratch: tuple[Forms, Room, Plan],
) -> tuple[bool, int]:
    """Plan from estimates float64[M, H, D] and inverses of Sigma float64[M, H, D, D]; fill the Plan.

    rewards float64[M, H, W]: the mean reward as believed. widths float64[H]: beta_{k,h}. Returns whether chances have
    changed, and how many entries of Q are cut at H + 1 - h, of those with a bonus.

    Paper: [TH23] Algorithm 1, lines 8 to 17.
    """
    forms, rows, plan = scratch
    n_messages, horizon = estimates.shape[0], estimates.shape[1]
    changed, cut = False, 0
    for m in range(n_messages):
        # One agent's estimates serve its own decisions, shared ones those of all agents.
        first, last = (0, rules.n_agents) if n_messages == 1 else (m, m + 1)
        _last_stage(rules, rewards[m, horizon - 1], plan.values[m, horizon - 1])
        for h in range(horizon - 2, -1, -1):
            slopes, levels = plan.slopes[m, h], plan.levels[m, h]
            weigh(rules.lists, plan.values[m, h + 1], slopes, levels)
            fill_forms(rules.actions, estimates[m, h], inverses[m, h], forms)
            fill_parts(slopes, levels, rewards[m, h], forms, rows)
            cut += fill_least(rules, forms, rows, widths[h], float(horizon - h), first, last)
            for i in range(first, last):
                changed |= decide(rows.least[i], i, plan.chances[h])
            fill_values(rules, rows, first, plan.values[m, h])
    return changed, cut


@inlined
def _last_stage(rules: Rules, rewards: Float64Array, values: Float64Array) -> None:
    """Fill V_H: no action matters after it, as no value follows and rewards are for being in a state."""
    for s in range(values.shape[0]):
        values[s] = max(min(rewards[s], 1.0), rules.floor)


@inlined
def weigh(lists: SuccessorLists, after: Float64Array, slopes: Float64Array, levels: Float64Array) -> None:
    """Fill slopes and levels float64[n, W] with c and k of the values `after` float64[W], as `value_features` does."""
    n = slopes.shape[0]
    for s in range(lists.first.shape[0] - 1):
        # Two agents at a time: sums wait for themselves, and two of them for each other no longer.
        for i in range(0, n, 2):
            j = min(i + 1, n - 1)
            slope, level, other_slope, other_level = 0.0, 0.0, 0.0, 0.0
            for entry in range(lists.first[s], lists.first[s + 1]):
                value = after[lists.state[entry]]
                slope += lists.sign[entry, i] * value
                level += lists.constant[entry, i] * value
                other_slope += lists.sign[entry, j] * value
                other_level += lists.constant[entry, j] * value
            slopes[i, s], slopes[j, s] = slope, other_slope
            levels[i, s], levels[j, s] = level, other_level


@inlined
def fill_forms(actions: Float64Array, estimate: Float64Array, inverse: Float64Array, forms: Forms) -> None:
    """Fill `forms` from theta float64[D] and W = Sigma^-1 float64[D, D]."""
    n, (n_actions, length) = forms.constant.shape[0], actions.shape
    d = length + 1
    for p in range(n):
        own = estimate[p * d : p * d + d]
        forms.constant[p] = own[length]
        for a in range(n_actions):
            total = 0.0
            for e in range(length):
                total += own[e] * actions[a, e]
            forms.linear[p, a] = total
        for r in range(n):
            block = inverse[p * d : p * d + d, r * d : r * d + d]
            forms.last[p, r] = block[length, length]
            _fill_pair(actions, block, 2.0 if p < r else 1.0, r >= p, forms.squares[p, r], forms.mixed[p, :, r])


@inlined
def _fill_pair(
    actions: Float64Array,
    block: Float64Array,
    times: float,
    with_squares: bool,
    squares: Float64Array,
    mixed: Float64Array,
) -> None:
    """Fill squares [A, A], times a^T W b, and mixed [A], twice a^T w, of a block [d, d] of W and its last column w."""
    n_actions, length = actions.shape
    for a in range(n_actions):
        total = 0.0
        for e in range(length):
            total += actions[a, e] * block[e, length]
        mixed[a] = 2.0 * total
        if with_squares:
            for b in range(n_actions):
                total = 0.0
                for e in range(length):
                    row = 0.0
                    for g in range(length):
                        row += block[e, g] * actions[b, g]
                    total += actions[a, e] * row
                squares[a, b] = times * total


@inlined
def fill_parts(slopes: Float64Array, levels: Float64Array, rewards: Float64Array, forms: Forms, rows: Room) -> None:
    """Fill what each agent alone adds to both forms at all states, and what no action changes."""
    n, n_actions = forms.linear.shape
    width = rewards.shape[0]
    base, square = rows.sums[0], rows.square[0]
    for s in range(width):
        base[s] = rewards[s]
        square[s] = 0.0
    for p in range(n):
        c, k, constant, corner = slopes[p], levels[p], forms.constant[p], forms.last[p, p]
        for s in range(width):
            base[s] += k[s] * constant
            square[s] += k[s] * k[s] * corner
        for r in range(p + 1, n):
            _add_pair(slopes[r], levels[r], c, k, 2.0 * forms.last[p, r], square, rows.products[p, r])
        for a in range(n_actions):
            own_square = rows.own_square[p, a]
            bend, mixed = forms.squares[p, p, a, a], forms.mixed[p, a, 0]
            _add_own(c, levels[0], forms.linear[p, a], bend, mixed, rows.own[p, a], own_square)
            for r in range(1, n):
                other, mixed = levels[r], forms.mixed[p, a, r]
                for s in range(width):
                    own_square[s] += c[s] * other[s] * mixed


@inlined
def _add_pair(
    c_r: Float64Array,
    k_r: Float64Array,
    c: Float64Array,
    k: Float64Array,
    corner: float,
    square: Float64Array,
    product: Float64Array,
) -> None:
    for s in range(square.shape[0]):
        square[s] += k[s] * k_r[s] * corner
        product[s] = c[s] * c_r[s]


@inlined
def _add_own(
    c: Float64Array,
    k: Float64Array,
    slope: float,
    bend: float,
    mixed: float,
    own: Float64Array,
    own_square: Float64Array,
) -> None:
    for s in range(own.shape[0]):
        own[s] = c[s] * slope
        own_square[s] = c[s] * (c[s] * bend + k[s] * mixed)


@borrowing
def fill_least(rules: Rules, forms: Forms, rows: Room, width: float, cap: float, first: int, last: int) -> int:
    """Fill rows.least of agents first..last-1 and rows.most; return how many entries of Q are cut at `cap`."""
    n, n_actions = forms.linear.shape
    cut, digits = 0, rows.digits
    rows.least[first:last] = np.inf
    rows.most[:] = -np.inf
    digits[:] = 0
    changed = 0
    while changed >= 0:
        for p in range(changed, n - 1):
            _add_agent(forms, rows, p)
        if changed < max(n - 2, 1):
            _fill_bends(forms, rows)
        for a in range(n_actions):
            digits[n - 1] = a
            cut += _fill_total(forms, rows, width, cap, rules.floor)
            for i in range(first, last):
                _lower(rows.least[i, digits[i]], rows.total)
            if rules.joint == 1:
                _raise(rows.most, rows.total)
        # The next actions of all but the last agent; those of the last of them change fastest.
        changed = n - 2
        while changed >= 0 and digits[changed] == n_actions - 1:
            digits[changed] = 0
            changed -= 1
        if changed >= 0:
            digits[changed] += 1
    return cut


@inlined
def _add_agent(forms: Forms, rows: Room, p: int) -> None:
    """Fill both forms over agents 0..p from those over 0..p-1."""
    digits, a = rows.digits, rows.digits[p]
    before, after, own = rows.sums[p], rows.sums[p + 1], rows.own[p, a]
    square, summed, own_square = rows.square[p], rows.square[p + 1], rows.own_square[p, a]
    for s in range(before.shape[0]):
        after[s] = before[s] + own[s]
        summed[s] = square[s] + own_square[s]
    for r in range(p):
        _add_multiple(summed, rows.products[r, p], forms.squares[r, p, digits[r], a])


@inlined
def _fill_bends(forms: Forms, rows: Room) -> None:
    """Fill what the quadratic form has of the last agent with itself and with agents 0..n-3, for all its actions."""
    last, n_actions = forms.linear.shape[0] - 1, forms.linear.shape[1]
    for a in range(n_actions):
        bend, own_square = rows.bends[a], rows.own_square[last, a]
        for s in range(bend.shape[0]):
            bend[s] = own_square[s]
        for r in range(last - 1):
            _add_multiple(bend, rows.products[r, last], forms.squares[r, last, rows.digits[r], a])


@inlined
def _add_multiple(sums: Float64Array, product: Float64Array, factor: float) -> None:
    for s in range(sums.shape[0]):
        sums[s] += product[s] * factor


@inlined
def _fill_total(forms: Forms, rows: Room, width: float, cap: float, floor: float) -> int:
    """Fill rows.total with Q, cut at cap and floor; return at how many states it is at the cap."""
    last, digits = forms.linear.shape[0] - 1, rows.digits
    near, a = max(last - 1, 0), digits[last]
    sums, own, square, bend = rows.sums[last], rows.own[last, a], rows.square[last], rows.bends[a]
    product, factor = rows.products[near, last], forms.squares[near, last, digits[near], a] if last > 0 else 0.0
    total, cut = rows.total, 0
    for s in range(total.shape[0]):
        form = square[s] + bend[s] + product[s] * factor
        value = sums[s] + own[s] + width * np.sqrt(max(form, 0.0))
        cut += value >= cap
        total[s] = max(min(value, cap), floor)
    return cut


@inlined
def _lower(least: Float64Array, total: Float64Array) -> None:
    for s in range(total.shape[0]):
        least[s] = min(least[s], total[s])


@inlined
def _raise(most: Float64Array, total: Float64Array) -> None:
    for s in range(total.shape[0]):
        most[s] = max(most[s], total[s])


@inlined
def decide(least: Float64Array, agent: int, chances: Float64Array) -> bool:
    """Fill an agent's chances [S, n, A] from least float64[A, W]: all maxmin actions alike; return if they changed.

    Paper: [TH23] Algorithm 1, line 16.
    """
    n_actions = least.shape[0]
    changed = False
    for s in range(chances.shape[0]):
        best, ties = least[0, s], 1
        for a in range(1, n_actions):
            if least[a, s] > best:
                best, ties = least[a, s], 1
            elif least[a, s] == best:
                ties += 1
        share, own = 1.0 / ties, chances[s, agent]
        for a in range(n_actions):
            chance = share if least[a, s] == best else 0.0
            changed |= chance != own[a]
            own[a] = chance
    return changed


@inlined
def fill_values(rules: Rules, rows: Room, agent: int, values: Float64Array) -> None:
    """Fill V float64[W]: the best joint action's Q, or what the agent can make sure of.

    Paper: [TH23] Algorithm 1, line 11.
    """
    values[:] = -np.inf
    if rules.joint == 1:
        _raise(values, rows.most)
    else:
        least = rows.least[agent]
        for a in range(least.shape[0]):
            _raise(values, least[a])
