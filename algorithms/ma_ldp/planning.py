"""Backward induction of MA-LDP: optimistic values, then each agent's maxmin action.

With features as a table, phi_V of all states and joint actions is a product of the table and V. With sign features the
tensor is never built. An agent's part of phi_V(s, a) is (c[s, i] a_i, k[s, i]), linear in its action: <theta, phi_V> is
a sum over agents, and phi_V^T Sigma^-1 phi_V one over agents and pairs of agents, tables over one or two agents'
actions, times factors of the state. Loops run over states, padded to whole vectors.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import LinearMixture, LinearMixtureMDP, SignMixture
from dprl.envs.network_mdp.dynamics import NO_LISTS, SuccessorLists, weigh
from dprl.envs.network_mdp.sparse import action_vectors

_LANES = 16  # states are padded to a multiple of this, because compilers do not vectorise a shorter remainder


class _Scratch(NamedTuple):
    """Tables of one estimate for the forms of phi_V, and rows of W states.

    Tables: linear float64[n, A]: <theta_p, a>; constant float64[n]: theta_p's last entry. squares float64[n, n, A, A]:
    a^T W_pr b, doubled for p < r; mixed float64[n, A, n]: 2 a^T w_pr, w_pr = W_pr's last column; last float64[n, n]:
    its corner; product float64[d - 1].

    Rows: own, own_square float64[n, A, W]: one agent's part of both forms. products float64[n, n, W]: c_p c_r, p < r.
    sums, square float64[n, W]: both forms over the first p agents; bends float64[A, W]: see `_fill_bends`; total
    float64[W]: Q of a joint action, the actions of agents being digits int64[n].

    shifted, stage float64[W]: V and the rewards, without and with the centre. q, form float64[S A^n]: of a table, Q and
    phi_V^T Sigma^-1 phi_V.

    Results: least float64[n, A, W]: an action's least value over others' actions; most float64[W]: the best joint one.
    """

    linear: Float64Array
    constant: Float64Array
    squares: Float64Array
    mixed: Float64Array
    last: Float64Array
    product: Float64Array
    own: Float64Array
    own_square: Float64Array
    products: Float64Array
    sums: Float64Array
    square: Float64Array
    bends: Float64Array
    total: Float64Array
    digits: Int64Array
    least: Float64Array
    most: Float64Array
    shifted: Float64Array
    stage: Float64Array
    q: Float64Array
    form: Float64Array

    @classmethod
    def empty(cls, n: int, n_actions: int, length: int, width: int, n_pairs: int) -> _Scratch:
        """Return scratch of n agents; length: d - 1; width: W; n_pairs: S A^n of a table."""
        return cls(
            linear=np.zeros((n, n_actions)),
            constant=np.zeros(n),
            squares=np.zeros((n, n, n_actions, n_actions)),
            mixed=np.zeros((n, n_actions, n)),
            last=np.zeros((n, n)),
            product=np.zeros(length),
            own=np.zeros((n, n_actions, width)),
            own_square=np.zeros((n, n_actions, width)),
            products=np.zeros((n, n, width)),
            sums=np.zeros((n, width)),
            square=np.zeros((n, width)),
            bends=np.zeros((n_actions, width)),
            total=np.zeros(width),
            digits=np.zeros(n, dtype=np.int64),
            least=np.zeros((n, n_actions, width)),
            most=np.zeros(width),
            shifted=np.zeros(width),
            stage=np.zeros(width),
            q=np.zeros(n_pairs),
            form=np.zeros(n_pairs),
        )


@shows_numbers
class Planning(NamedTuple):
    """Public constants of a run, the deployed plan, and scratch; M is 1 if all agents share one value function, else n.

    features float64[S', D, S A^n]: of an environment with a table, and moves int64[A^n, n]: each agent's action in a
    joint one; else empty. lists: the successors of each state with sign features; actions float64[A, d-1]: vectors of
    one agent's actions. n_agents: n. spans float64[H]: the largest absolute value that is sent, if values are sent
    about the centre of their range and stretched to this span; else 0. floor: the least optimistic value, 0, or -inf as
    in the paper. joint: whether V is the best joint action's Q instead of the maxmin of line 17.

    The plan, with W = S, padded with sign features: values float64[M, H+1, W]: V_{k,h}. slopes, levels float64[M, H, n,
    W]: c and k of phi_V; or phis float64[M, H, D, S A^n]: phi_V. chances float64[H, S, n, A]: probability of each
    agent's action; ties are broken at random. centres, stretches float64[M, H]: stretch (V - centre) is sent, and phi_V
    is of V - centre.
    """

    features: Float64Array
    moves: Int64Array
    lists: SuccessorLists
    actions: Float64Array
    n_agents: int
    spans: Float64Array
    floor: float
    joint: bool
    values: Float64Array
    slopes: Float64Array
    levels: Float64Array
    phis: Float64Array
    chances: Float64Array
    centres: Float64Array
    stretches: Float64Array
    scratch: _Scratch


def padded(n_states: int) -> int:
    """Return W, the number of states rounded up to whole vectors."""
    return -(-n_states // _LANES) * _LANES


def planning(mdp: LinearMixtureMDP, spans: Float64Array, floor: float, joint: bool, n_messages: int) -> Planning:
    """Return the constants for `mdp`, and the first plan: uniform actions. n_messages: M; the others: see Planning."""
    n, horizon, n_states, n_actions = mdp.n_agents, mdp.horizon, mdp.n_states, mdp.n_actions
    none, width, length = np.zeros((0, 0), dtype=np.int64), n_states, 0
    features, moves, lists, actions = np.zeros((0, 0, 0)), none, NO_LISTS, np.zeros((0, 0))
    if isinstance(mdp, LinearMixture):
        features = np.ascontiguousarray(mdp.features.transpose(2, 3, 0, 1)).reshape(n_states, mdp.dimension, -1)
        moves = mdp.joint_actions()
    else:
        signs = cast("SignMixture", mdp)
        width, length, lists, actions = padded(n_states), signs.length, signs.lists, action_vectors(signs.length + 1)
    n_pairs, n_signs = features.shape[2], n if length else 0
    return Planning(
        features=features,
        moves=moves,
        lists=lists,
        actions=actions,
        n_agents=n,
        spans=spans,
        floor=floor,
        joint=joint,
        values=np.zeros((n_messages, horizon + 1, width)),
        slopes=np.zeros((n_messages, horizon, n_signs, width)),
        levels=np.zeros((n_messages, horizon, n_signs, width)),
        phis=np.zeros((n_messages, horizon, features.shape[1], n_pairs)),
        chances=np.full((horizon, n_states, n, n_actions), 1.0 / n_actions),
        centres=np.zeros((n_messages, horizon)),
        stretches=np.ones((n_messages, horizon)),
        scratch=_Scratch.empty(n, n_actions, length, width, n_pairs),
    )


@no_alloc_kernel
def make_plan(
    planning: Planning, estimates: Float64Array, inverses: Float64Array, rewards: Float64Array, betas: Float64Array
) -> tuple[bool, int]:
    """Plan from estimates float64[M, H, D] and inverses of Sigma float64[M, H, D, D]; fill its plan.

    rewards float64[M, H, W]: the estimated mean reward, or [M, H, R] with a table. betas float64[H]: beta_{k,h}.
    Returns whether chances have changed, and the number of entries of Q with a bonus that are cut at H + 1 - h.

    Paper: [TH23] Algorithm 1, lines 8 to 17.
    """
    n_messages, horizon = estimates.shape[0], estimates.shape[1]
    scratch, lists, floor, joint = planning.scratch, planning.lists, planning.floor, planning.joint
    changed, cut = False, 0
    for m in range(n_messages):
        # An agent's own estimate decides its actions, a shared one those of all agents.
        begin, end = (0, planning.n_agents) if n_messages == 1 else (m, m + 1)
        for h in range(horizon - 1, -1, -1):
            values = planning.values[m, h]
            if planning.spans[h] > 0.0:
                _centre(planning, m, h)
            if planning.features.shape[0] > 0:
                cut += _fill_from_table(
                    planning, m, h, estimates[m, h], inverses[m, h], rewards[m, h], betas[h], begin, end
                )
            elif h == horizon - 1:
                for s in range(values.shape[0]):  # no action changes V_H: rewards depend on the state
                    values[s] = max(min(rewards[m, h, s], 1.0), floor)
                continue
            else:  # c and k of phi_V from the lists of successors
                after, centre = planning.values[m, h + 1], planning.centres[m, h]
                stage, cap = scratch.stage, float(horizon - h)
                for s in range(stage.shape[0]):
                    scratch.shifted[s], stage[s] = after[s] - centre, rewards[m, h, s] + centre
                slopes, levels = planning.slopes[m, h], planning.levels[m, h]
                for s in range(lists.first.shape[0] - 1):
                    weigh(lists, scratch.shifted, s, slopes[:, s], levels[:, s])
                fill_forms(planning.actions, estimates[m, h], inverses[m, h], scratch)
                if planning.n_agents == 2:
                    cut += fill_worst_of_two(scratch, slopes, levels, stage, betas[h], cap, floor, begin, end, joint)
                else:
                    cut += fill_worst(scratch, slopes, levels, stage, betas[h], cap, floor, begin, end, joint)
            for i in range(begin, end):
                changed |= _decide(scratch.least[i], i, planning.chances[h])
            _fill_values(scratch, joint, begin, values)
    return changed, cut


@no_alloc_kernel
def _centre(planning: Planning, m: int, h: int) -> None:
    """Fill the centre of the next stage's values and the stretch of their range to the span."""
    values, low, high = planning.values[m, h + 1], math.inf, -math.inf
    for s in range(planning.chances.shape[1]):
        low, high = min(low, values[s]), max(high, values[s])
    half = 0.5 * (high - low)
    planning.centres[m, h] = low + half
    # Equal values say nothing, and are not stretched.
    planning.stretches[m, h] = planning.spans[h] / half if half > 1e-9 * planning.spans[h] else 1.0


@no_alloc_kernel
def _fill_from_table(
    planning: Planning,
    m: int,
    h: int,
    theta: Float64Array,
    inverse: Float64Array,
    rewards: Float64Array,
    beta: float,
    begin: int,
    end: int,
) -> int:
    """Fill phi_V, and the worst cases like `fill_worst`, from the table of features; return the entries of Q cut.

    theta float64[D], inverse float64[D, D]: of Sigma; rewards float64[R].
    """
    phi, values, q, form = planning.phis[m, h], planning.values[m, h + 1], planning.scratch.q, planning.scratch.form
    centre, cap, n_joint = planning.centres[m, h], float(planning.chances.shape[0] - h), planning.moves.shape[0]
    pairs, dimension = q.shape[0], phi.shape[0]
    flat = phi.reshape(dimension * pairs)
    flat[:] = 0.0
    last = h == planning.chances.shape[0] - 1
    for after in range(0 if last else values.shape[0]):  # no value follows the last stage
        value, row = values[after] - centre, planning.features[after].reshape(dimension * pairs)
        for x in range(flat.shape[0]):
            flat[x] += value * row[x]
    per_pair = rewards.shape[0] == pairs
    for x in range(pairs):
        q[x] = centre + rewards[x if per_pair else x // n_joint]
        form[x] = 0.0
    for i in range(dimension):
        own, weight = phi[i], theta[i]
        for x in range(pairs):
            q[x] += weight * own[x]
        for j in range(i, dimension):
            other, entry = phi[j], inverse[i, j] if i == j else 2.0 * inverse[i, j]
            for x in range(pairs):
                form[x] += entry * own[x] * other[x]
    cut = 0
    for x in range(pairs):
        value = q[x] + beta * np.sqrt(max(form[x], 0.0))
        cut += not last and value >= cap
        q[x] = max(min(value, cap), planning.floor)
    least, most = planning.scratch.least, planning.scratch.most
    least[begin:end] = np.inf
    most[:] = -np.inf
    for s in range(most.shape[0]):
        for a in range(n_joint):
            value = q[s * n_joint + a]
            most[s] = max(most[s], value)
            for i in range(begin, end):
                action = planning.moves[a, i]
                least[i, action, s] = min(least[i, action, s], value)
    return cut


@no_alloc_kernel
def fill_forms(actions: Float64Array, estimate: Float64Array, inverse: Float64Array, forms: _Scratch) -> None:
    """Fill the tables from theta float64[D] and W = Sigma^-1 float64[D, D]."""
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
        for e in range(product.shape[0]):
            product[e] = _form(actions[b], block[e])
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
def fill_worst(
    scratch: _Scratch,
    slopes: Float64Array,
    levels: Float64Array,
    rewards: Float64Array,
    beta: float,
    cap: float,
    floor: float,
    begin: int,
    end: int,
    joint: bool,
) -> int:
    """Fill least and most of `scratch` from Q of all joint actions; return the number of entries of Q cut at the cap.

    slopes, levels float64[n, W]: c and k of phi_V; rewards float64[W]: estimated; beta: beta_{k,h}; cap and floor of Q.
    begin: the first agent with `least` to fill; end: the one after the last. joint: whether to fill `most`.
    """
    n, n_actions = scratch.linear.shape
    _fill_parts(scratch, slopes, levels, rewards)
    cut, digits = 0, scratch.digits
    scratch.least[begin:end] = np.inf
    scratch.most[:] = -np.inf
    digits[:] = 0
    changed = 0
    while changed >= 0:
        for p in range(changed, n - 1):  # both forms over agents 0..p from those over 0..p-1
            a = digits[p]
            before, after, own = scratch.sums[p], scratch.sums[p + 1], scratch.own[p, a]
            square, summed, own_square = scratch.square[p], scratch.square[p + 1], scratch.own_square[p, a]
            for s in range(before.shape[0]):
                after[s] = before[s] + own[s]
                summed[s] = square[s] + own_square[s]
            for r in range(p):
                _add_multiple(summed, scratch.products[r, p], scratch.squares[r, p, digits[r], a])
        if changed < max(n - 2, 1):
            _fill_bends(scratch)
        for a in range(n_actions):
            digits[n - 1] = a
            cut += _fill_total(scratch, beta, cap, floor)
            for i in range(begin, end):
                lower(scratch.least[i, digits[i]], scratch.total)
            if joint:
                higher(scratch.most, scratch.total)
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
def _fill_parts(scratch: _Scratch, slopes: Float64Array, levels: Float64Array, rewards: Float64Array) -> None:
    """Fill each agent's own part of both forms, and the constant parts in sums[0] and square[0]."""
    n, n_actions = scratch.linear.shape
    width, base, square = rewards.shape[0], scratch.sums[0], scratch.square[0]
    for s in range(width):
        base[s] = rewards[s]
        square[s] = 0.0
    for p in range(n):
        c, k, constant, corner = slopes[p], levels[p], scratch.constant[p], scratch.last[p, p]
        for s in range(width):
            base[s] += k[s] * constant
            square[s] += k[s] * k[s] * corner
        for r in range(p + 1, n):
            other_c, other_k, twice, product = slopes[r], levels[r], 2.0 * scratch.last[p, r], scratch.products[p, r]
            for s in range(width):
                square[s] += k[s] * other_k[s] * twice
                product[s] = c[s] * other_c[s]
        for a in range(n_actions):
            slope, bend, own = scratch.linear[p, a], scratch.squares[p, p, a, a], scratch.own[p, a]
            own_square = scratch.own_square[p, a]
            for s in range(width):
                own[s] = c[s] * slope
                own_square[s] = c[s] * c[s] * bend
            for r in range(n):
                other, mixed = levels[r], scratch.mixed[p, a, r]
                for s in range(width):
                    own_square[s] += c[s] * other[s] * mixed


@no_alloc_kernel
def _fill_bends(scratch: _Scratch) -> None:
    """Fill the quadratic form's terms of the last agent with itself and with agents 0..n-3, for all its actions."""
    last, n_actions = scratch.linear.shape[0] - 1, scratch.linear.shape[1]
    for a in range(n_actions):
        bend, own_square = scratch.bends[a], scratch.own_square[last, a]
        for s in range(bend.shape[0]):
            bend[s] = own_square[s]
        for r in range(last - 1):
            _add_multiple(bend, scratch.products[r, last], scratch.squares[r, last, scratch.digits[r], a])


@no_alloc_kernel
def _add_multiple(sums: Float64Array, product: Float64Array, factor: float) -> None:
    for s in range(sums.shape[0]):
        sums[s] += product[s] * factor


@no_alloc_kernel
def _fill_total(scratch: _Scratch, beta: float, cap: float, floor: float) -> int:
    """Fill the total with Q, cut at cap and floor; return the number of states at the cap."""
    digits, last = scratch.digits, scratch.digits.shape[0] - 1
    near, a = max(last - 1, 0), digits[last]
    sums, own, square, bend = scratch.sums[last], scratch.own[last, a], scratch.square[last], scratch.bends[a]
    product, factor = scratch.products[near, last], scratch.squares[near, last, digits[near], a] if last > 0 else 0.0
    total, cut = scratch.total, 0
    for s in range(total.shape[0]):
        form = square[s] + bend[s] + product[s] * factor
        value = sums[s] + own[s] + beta * np.sqrt(max(form, 0.0))
        cut += value >= cap
        total[s] = max(min(value, cap), floor)
    return cut


@no_alloc_kernel
def fill_worst_of_two(
    scratch: _Scratch,
    slopes: Float64Array,
    levels: Float64Array,
    rewards: Float64Array,
    beta: float,
    cap: float,
    floor: float,
    begin: int,
    end: int,
    joint: bool,
) -> int:
    """Fill the worst cases like `fill_worst`, for the paper's two agents, by one loop over states per pair of actions.

    Rows have few states, so starting a loop costs more than running it.
    """
    linear, squares, mixed, last = scratch.linear, scratch.squares, scratch.mixed, scratch.last
    n_actions = linear.shape[1]
    c0, k0, c1, k1, product, total = slopes[0], levels[0], slopes[1], levels[1], scratch.products[0, 1], scratch.total
    base, constants, sums, square = scratch.sums[0], scratch.square[0], scratch.sums[1], scratch.square[1]
    # The constant parts of both forms, and c_0 c_1.
    constant0, constant1 = scratch.constant[0], scratch.constant[1]
    for s in range(base.shape[0]):
        base[s] = rewards[s] + k0[s] * constant0 + k1[s] * constant1
    corner0, corner, corner1 = last[0, 0], 2.0 * last[0, 1], last[1, 1]
    for s in range(base.shape[0]):
        constants[s] = k0[s] * (k0[s] * corner0 + k1[s] * corner) + k1[s] * k1[s] * corner1
    for s in range(base.shape[0]):
        product[s] = c0[s] * c1[s]
    scratch.least[begin:end] = np.inf
    scratch.most[:] = -np.inf
    cut = 0
    for a in range(n_actions):  # of agent 0
        slope0, bend0, mixed00, mixed01 = linear[0, a], squares[0, 0, a, a], mixed[0, a, 0], mixed[0, a, 1]
        for s in range(base.shape[0]):
            sums[s] = base[s] + c0[s] * slope0
        for s in range(base.shape[0]):
            square[s] = constants[s] + c0[s] * (c0[s] * bend0 + k0[s] * mixed00 + k1[s] * mixed01)
        for b in range(n_actions):  # of agent 1
            slope1, bend1, both = linear[1, b], squares[1, 1, b, b], squares[0, 1, a, b]
            mixed10, mixed11 = mixed[1, b, 0], mixed[1, b, 1]
            for s in range(total.shape[0]):
                own = c1[s] * (c1[s] * bend1 + k0[s] * mixed10 + k1[s] * mixed11)
                form = square[s] + own + product[s] * both
                value = sums[s] + c1[s] * slope1 + beta * np.sqrt(max(form, 0.0))
                cut += value >= cap
                total[s] = max(min(value, cap), floor)
            if begin == 0:
                lower(scratch.least[0, a], total)
            if end == 2:
                lower(scratch.least[1, b], total)
            if joint:
                higher(scratch.most, total)
    return cut


@no_alloc_kernel
def _decide(least: Float64Array, agent: int, chances: Float64Array) -> bool:
    """Fill an agent's chances [S, n, A] from least float64[A, W], uniform over maxmin actions; return if they changed.

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
def _fill_values(scratch: _Scratch, joint: bool, agent: int, values: Float64Array) -> None:
    """Fill V float64[W]: Q of the best joint action, or the agent's maxmin value.

    Paper: [TH23] Algorithm 1, line 11.
    """
    if joint:
        for s in range(values.shape[0]):
            values[s] = scratch.most[s]
        return
    values[:] = -np.inf
    for a in range(scratch.least.shape[1]):
        higher(values, scratch.least[agent, a])
