"""Backward induction of MA-LDP without the feature tensor: optimistic values, then each agent's maxmin action.

An agent's part of phi_V(s, a) is (c[s, i] a_i, k[s, i]), linear in its action. So <theta, phi_V> is a sum with one term
per agent, and phi_V^T Sigma^-1 phi_V one with a term per agent and per pair of agents: tables over the actions of one
or two agents (`forms`), times factors of the state. Loops run over states, padded to whole vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import LinearMixtureMDP
from dprl.envs.network_mdp.base import action_vectors
from dprl.envs.network_mdp.dynamics import SuccessorLists

_LANES = 16
"""States are padded to a multiple of this, because compilers do not vectorise a shorter remainder."""


class _QuadraticForms(NamedTuple):
    """Tables of one estimate for the linear and quadratic forms of phi_V, for n agents and A actions.

    linear float64[n, A]: <theta_p, a>; constant float64[n]: theta_p's last entry. squares float64[n, n, A, A]:
    a^T W_pr b, doubled for p < r; mixed float64[n, A, n]: 2 a^T w_pr, w_pr = W_pr's last column; last: its corner.
    """

    linear: Float64Array
    constant: Float64Array
    squares: Float64Array
    mixed: Float64Array
    last: Float64Array
    product: Float64Array


def empty_forms(n_agents: int, n_actions: int, length: int) -> _QuadraticForms:
    """Return empty tables; length: d - 1."""
    return _QuadraticForms(
        linear=np.zeros((n_agents, n_actions)),
        constant=np.zeros(n_agents),
        squares=np.zeros((n_agents, n_agents, n_actions, n_actions)),
        mixed=np.zeros((n_agents, n_actions, n_agents)),
        last=np.zeros((n_agents, n_agents)),
        product=np.zeros(length),
    )


@no_alloc_kernel
def fill_forms(actions: Float64Array, estimate: Float64Array, inverse: Float64Array, forms: _QuadraticForms) -> None:
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


@no_alloc_kernel
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


@no_alloc_kernel
def _form(action: Float64Array, vector: Float64Array) -> float:
    total = 0.0
    for e in range(action.shape[0]):
        total += action[e] * vector[e]
    return total


@no_alloc_kernel
def _fill_product(block: Float64Array, action: Float64Array, product: Float64Array) -> None:
    for e in range(product.shape[0]):
        total = 0.0
        for g in range(product.shape[0]):
            total += block[e, g] * action[g]
        product[e] = total


class _Features(NamedTuple):
    """Features of one stage: slopes, levels float64[n, W], c and k of phi_V; estimated rewards float64[W]."""

    slopes: Float64Array
    levels: Float64Array
    rewards: Float64Array


class Bounds(NamedTuple):
    """Bounds of one stage: beta, beta_{k,h}; cap and floor of Q."""

    beta: float
    cap: float
    floor: float


class _Worst(NamedTuple):
    """Results from Q: least float64[n, A, W], the least value of an action over others' actions.

    most float64[W]: value of the best joint action, if `joint` is 1. digits int64[n]: the current joint action.
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


def workspace(n_agents: int, n_actions: int, width: int, joint: bool) -> tuple[Rows, _Worst]:
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
    return rows, _Worst(least, np.zeros(width), np.zeros(n_agents, dtype=np.int64), int(joint))


@no_alloc_kernel
def fill_worst(
    forms: _QuadraticForms, features: _Features, bounds: Bounds, rows: Rows, worst: _Worst, agents: tuple[int, int]
) -> int:
    """Fill `worst` from Q of all joint actions; return the number of entries of Q cut at the cap.

    agents: the first one with `least` to fill, and the one after the last.
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
        # Next joint action of all agents but the last; the last of these agents changes fastest.
        changed = n - 2
        while changed >= 0 and digits[changed] == n_actions - 1:
            digits[changed] = 0
            changed -= 1
        if changed >= 0:
            digits[changed] += 1
    return cut


@no_alloc_kernel
def lower(least: Float64Array, total: Float64Array) -> None:
    """Replace least [W] by the smaller one of both."""
    for s in range(total.shape[0]):
        least[s] = min(least[s], total[s])


@no_alloc_kernel
def higher(most: Float64Array, total: Float64Array) -> None:
    """Replace most [W] by the larger one of both."""
    for s in range(total.shape[0]):
        most[s] = max(most[s], total[s])


@no_alloc_kernel
def _fill_parts(forms: _QuadraticForms, features: _Features, rows: Rows) -> None:
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


@no_alloc_kernel
def _fill_own(
    forms: _QuadraticForms,
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


@no_alloc_kernel
def _add_agent(forms: _QuadraticForms, rows: Rows, digits: Int64Array, p: int) -> None:
    """Fill both forms over agents 0..p from those over 0..p-1."""
    a = digits[p]
    before, after, own = rows.sums[p], rows.sums[p + 1], rows.own[p, a]
    square, summed, own_square = rows.square[p], rows.square[p + 1], rows.own_square[p, a]
    for s in range(before.shape[0]):
        after[s] = before[s] + own[s]
        summed[s] = square[s] + own_square[s]
    for r in range(p):
        _add_multiple(summed, rows.products[r, p], forms.squares[r, p, digits[r], a])


@no_alloc_kernel
def _fill_bends(forms: _QuadraticForms, rows: Rows, digits: Int64Array) -> None:
    """Fill the quadratic form's terms of the last agent with itself and with agents 0..n-3, for all its actions."""
    last, n_actions = forms.linear.shape[0] - 1, forms.linear.shape[1]
    for a in range(n_actions):
        bend, own_square = rows.bends[a], rows.own_square[last, a]
        for s in range(bend.shape[0]):
            bend[s] = own_square[s]
        for r in range(last - 1):
            _add_multiple(bend, rows.products[r, last], forms.squares[r, last, digits[r], a])


@no_alloc_kernel
def _add_multiple(sums: Float64Array, product: Float64Array, factor: float) -> None:
    for s in range(sums.shape[0]):
        sums[s] += product[s] * factor


@no_alloc_kernel
def _fill_total(forms: _QuadraticForms, bounds: Bounds, rows: Rows, digits: Int64Array) -> int:
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


@no_alloc_kernel
def fill_worst_of_two(
    forms: _QuadraticForms, features: _Features, bounds: Bounds, rows: Rows, worst: _Worst, agents: tuple[int, int]
) -> int:
    """Fill the worst cases like `fill_worst`, for the paper's two agents, by one loop over states per pair of actions.

    Rows have few states, so starting a loop costs more than running it.
    """
    n_actions, (beta, cap, floor) = forms.linear.shape[1], bounds
    k0, c1, k1 = features.levels[0], features.slopes[1], features.levels[1]
    product, sums, square, total = rows.products[0, 1], rows.sums[1], rows.square[1], rows.total
    _begin_two(forms, features, rows)
    worst.least[agents[0] : agents[1]] = np.inf
    worst.most[:] = -np.inf
    cut = 0
    for a in range(n_actions):
        _add_first_of_two(forms, features, rows, a)
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


@no_alloc_kernel
def _begin_two(forms: _QuadraticForms, features: _Features, rows: Rows) -> None:
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


@no_alloc_kernel
def _add_first_of_two(forms: _QuadraticForms, features: _Features, rows: Rows, a: int) -> None:
    """Add the part of the first agent's action a to both forms."""
    c0, k0, k1 = features.slopes[0], features.levels[0], features.levels[1]
    base, before, sums, square = rows.sums[0], rows.square[0], rows.sums[1], rows.square[1]
    linear, bend = forms.linear[0, a], forms.squares[0, 0, a, a]
    mixed0, mixed1 = forms.mixed[0, a, 0], forms.mixed[0, a, 1]
    for s in range(base.shape[0]):
        sums[s] = base[s] + c0[s] * linear
    for s in range(base.shape[0]):
        square[s] = before[s] + c0[s] * (c0[s] * bend + k0[s] * mixed0 + k1[s] * mixed1)


@shows_numbers
class Rules(NamedTuple):
    """Public constants of a run.

    lists: the successors of each state. actions float64[A, d-1]: the vectors of one agent's actions; n_agents: n.
    floor: the least optimistic value, 0, or -inf as in the paper.
    """

    lists: SuccessorLists
    actions: Float64Array
    n_agents: int
    floor: float


@shows_numbers
class Plan(NamedTuple):
    """Result of one plan; M is 1 if all agents share one value function, else n; W is S, padded.

    values float64[M, H+1, W]: V_{k,h}. slopes, levels float64[M, H, n, W]: c and k of phi_V. chances float64[H, S, n,
    A]: probability of each agent's action; ties are broken at random.
    """

    values: Float64Array
    slopes: Float64Array
    levels: Float64Array
    chances: Float64Array


@shows_numbers
class Planning(NamedTuple):
    """Rules of planning, the deployed plan, and scratch."""

    rules: Rules
    plan: Plan
    forms: _QuadraticForms
    rows: Rows
    worst: _Worst


def planning(mdp: LinearMixtureMDP, floor: float, joint: bool, n_messages: int) -> Planning:
    """Return the rules for `mdp`, and the first plan: uniform actions.

    floor: see Rules. joint: whether V is the best joint action's Q instead of the maxmin of line 17. n_messages: M.
    """
    n, horizon, n_states, n_actions = mdp.n_agents, mdp.horizon, mdp.n_states, mdp.n_actions
    width = padded(n_states)
    plan = Plan(
        values=np.zeros((n_messages, horizon + 1, width)),
        slopes=np.zeros((n_messages, horizon, n, width)),
        levels=np.zeros((n_messages, horizon, n, width)),
        chances=np.full((horizon, n_states, n, n_actions), 1.0 / n_actions),
    )
    rules = Rules(mdp.lists, action_vectors(mdp.dimension), n, floor)
    return Planning(rules, plan, empty_forms(n, n_actions, mdp.dimension - 1), *workspace(n, n_actions, width, joint))


@no_alloc_kernel
def make_plan(
    planning: Planning, estimates: Float64Array, inverses: Float64Array, rewards: Float64Array, betas: Float64Array
) -> tuple[bool, int]:
    """Plan from estimates float64[M, H, D] and inverses of Sigma float64[M, H, D, D]; fill planning.plan.

    rewards float64[M, H, W]: the estimated mean reward. betas float64[H]: beta_{k,h}. Returns whether chances have
    changed, and the number of entries of Q with a bonus that are cut at H + 1 - h.

    Paper: [TH23] Algorithm 1, lines 8 to 17.
    """
    rules, plan, forms, rows, worst = planning
    n_messages, horizon = estimates.shape[0], estimates.shape[1]
    changed, cut = False, 0
    for m in range(n_messages):
        # An agent's own estimate decides its actions, a shared one those of all agents.
        agents = (0, rules.n_agents) if n_messages == 1 else (m, m + 1)
        _fill_last_stage(rewards[m, horizon - 1], rules.floor, plan.values[m, horizon - 1])
        for h in range(horizon - 2, -1, -1):
            features = _Features(plan.slopes[m, h], plan.levels[m, h], rewards[m, h])
            bounds = Bounds(betas[h], float(horizon - h), rules.floor)
            _weigh(rules.lists, plan.values[m, h + 1], features.slopes, features.levels)
            fill_forms(rules.actions, estimates[m, h], inverses[m, h], forms)
            if rules.n_agents == 2:
                cut += fill_worst_of_two(forms, features, bounds, rows, worst, agents)
            else:
                cut += fill_worst(forms, features, bounds, rows, worst, agents)
            for i in range(agents[0], agents[1]):
                changed |= _decide(worst.least[i], i, plan.chances[h])
            _fill_values(worst, agents[0], plan.values[m, h])
    return changed, cut


@no_alloc_kernel
def _fill_last_stage(rewards: Float64Array, floor: float, values: Float64Array) -> None:
    """Fill V_H, which no action changes, because no value follows and rewards depend on the state only."""
    for s in range(values.shape[0]):
        values[s] = max(min(rewards[s], 1.0), floor)


@no_alloc_kernel
def _weigh(lists: SuccessorLists, after: Float64Array, slopes: Float64Array, levels: Float64Array) -> None:
    """Fill slopes and levels float64[n, W] with c and k of the values `after` float64[W], as `value_features` does."""
    n = slopes.shape[0]
    for s in range(lists.first.shape[0] - 1):
        # Two agents at a time, so that four independent sums can run in parallel.
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


@no_alloc_kernel
def _decide(least: Float64Array, agent: int, chances: Float64Array) -> bool:
    """Fill an agent's chances [S, n, A] from least float64[A, W]: uniform over maxmin actions; return whether they
    changed.

    Paper: [TH23] Algorithm 1, line 17.
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


@no_alloc_kernel
def _fill_values(worst: _Worst, agent: int, values: Float64Array) -> None:
    """Fill V float64[W]: Q of the best joint action, or the agent's maxmin value.

    Paper: [TH23] Algorithm 1, line 11.
    """
    if worst.joint == 1:
        for s in range(values.shape[0]):
            values[s] = worst.most[s]
        return
    values[:] = -np.inf
    for a in range(worst.least.shape[1]):
        higher(values, worst.least[agent, a])
