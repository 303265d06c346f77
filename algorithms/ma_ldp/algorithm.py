"""MA-LDP: its settings and its learner.

Paper: [TH23] Algorithm 1.
"""

# [TH23] Algorithm 1, each line -> the function that does it, of this file or of the named file (in this folder if its
# name has no folder). Lines 7, 12, 13, 19, 27, 28, 31, 40, 41 and 44 end loops.
#  1     epsilon, delta, alpha, eta, w = 0             -> MALDPConfig, _MALDPLearner
#  2     sigma or b                                    -> privacy/designs/linear_statistics.py::StatisticsPrivacy (D8)
#  3     for user k = 1, ..., K                        -> run
#  4-6   for i: receive Sigma, theta^ of the server    -> _plan
#  8, 9  for i = 1, ..., n; for h = H, ..., 1          -> planning.py::make_plan
# 10     Q = min(H+1-h, r- + <theta^, phi_V> + beta |Sigma^(-1/2) phi_V|) -> planning.py::fill_worst, _fill_total
# 11     V = max_{a^i} Q(., a^i, a^-i)                 -> planning.py::_fill_values
# 14-16 receive s_1; for h = 1, ..., H; for i          -> play
# 17     a^i = argmax_a min_{a^-i} Q(s, a, a^-i)       -> planning.py::_decide, drawn by play
# 18     w~ = w + gamma (r^i - r-) grad r-             -> play, released, then update
# 20, 21 a = (a^1, ..., a^n); observe s_{h+1}          -> envs/network_mdp/dynamics.py::next_state
# 22-24 for i: dLambda~ = phi_V phi_V^T, du~ = phi_V V -> _look, privacy/mechanisms/gram.py::finish_gram
# 25, 26 dLambda = dLambda~ + W, du = du~ + xi         -> privacy/queries/linear_statistics.py::send_statistics
# 29-32 for i: D_k^i; send D_k to the server           -> privacy/queries/linear_statistics.py::send_statistics
# 33-37 server: Lambda, u += dLambda, du               -> privacy/queries/linear_statistics.py::add_statistics
# 38     Sigma = Lambda + eta I                        -> estimate, shift_rates (D24)
# 39     theta^ = Sigma^(-1) u                         -> estimate
# 42     send Sigma, theta^ to user k+1                -> _plan
# 43     w^i = sum_j l(i, j) w~^j                      -> update, consensus

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array, Metric, Releases
from dprl.algorithms.learner import Learner
from dprl.algorithms.ma_ldp.planning import Planning, make_plan, padded, planning
from dprl.algorithms.numerics import inverted
from dprl.algorithms.tabular.learner import OF_PRESET, Preset
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import Env, LinearMixture, LinearMixtureMDP, SignMixture
from dprl.envs.checks import require_integer, require_number
from dprl.envs.network_mdp.dynamics import next_state, team_value
from dprl.privacy import StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.base import check_fields
from dprl.privacy.queries.linear_statistics import (
    StatisticsChannel,
    add_statistics,
    aggregate_statistics,
    send_statistics,
)
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.schedule import ReleaseSchedule, next_plan

INDEFINITE = Metric("indefinite", "mean", covered=True)
"""Share of noisy matrices Sigma that were not positive definite with their shift and needed more."""
REWARD_ERROR = Metric(
    name="reward_error",
    over="last",
    unit="reward",
    definition="how wrong agents are about the mean reward, on average over agents and what each stage can reach",
    covered=True,
)
"""Mean of |<psi(s), w> - r(s)|; 0 where rewards are public."""


# Users: the environment for compiled loops, and the data of one episode on a device.


@shows_numbers
class _EpisodeBuffer(NamedTuple):
    """User's side: the current episode. Only `play` writes it, only `send_statistics` may read it.

    features float64[M, H, D]: phi_V of the visited states and actions. targets float64[M, H]: V of the next states.
    corrections float64[n, H, p]: (r_i - estimated r) psi. uniforms float64[H], choices float64[H, n]; actions int64[n].
    """

    features: Float64Array
    targets: Float64Array
    corrections: Float64Array
    uniforms: Float64Array
    choices: Float64Array
    actions: Int64Array


@shows_numbers
class _Users(NamedTuple):
    """Environment and users for compiled loops; planning never reads them.

    kernels, cdf float64[H, S, A^n, S']: the true transitions and their sums of an environment with a table, drifts
    float64[n, A]: the true <a, theta_i> of one with sign features; the other is empty. rewards float64[n, R], common
    float64[R]: each agent's and their mean; psi float64[R, p]. start: the first state; optimal: V* there. episodes: K.
    env_key, action_key uint64[5]: of the streams for transitions and ties. bounds float64[H]: m_h, bounds on features
    and values, infinite without clipping. reached bool[H, S]: the reachable states. values float64[H + 1, S]: scratch;
    device: a user's episode buffer.
    """

    cdf: Float64Array
    kernels: Float64Array
    drifts: Float64Array
    rewards: Float64Array
    common: Float64Array
    psi: Float64Array
    start: int
    optimal: float
    episodes: int
    env_key: np.ndarray
    action_key: np.ndarray
    bounds: Float64Array
    reached: np.ndarray
    values: Float64Array
    device: _EpisodeBuffer


@no_alloc_kernel
def play(users: _Users, planning: Planning, estimated: Float64Array, user: int) -> None:
    """User side: play episode `user`; write the message without noise to users.device.

    estimated float64[M, H, W]: each agent's estimate of the mean reward.

    Paper: [TH23] Algorithm 1, lines 14 to 24.
    """
    own, chances, moves = users.device, planning.chances, planning.moves
    horizon, _, n, n_actions = chances.shape
    choices = own.choices.reshape(horizon * n)
    fill_uniform(own.uniforms, users.env_key, np.uint64(user) * np.uint64(horizon))
    fill_uniform(choices, users.action_key, np.uint64(user) * np.uint64(horizon * n))
    state = users.start
    for h in range(horizon):
        pair = 0
        for i in range(n):
            # The first action with a draw below the cumulative probability, else the last possible one.
            reached = 0.0
            for a in range(n_actions):
                if chances[h, state, i, a] > 0.0:
                    own.actions[i] = a
                    reached += chances[h, state, i, a]
                    if own.choices[h, i] < reached:
                        break
            pair = pair * n_actions + own.actions[i]
        pair += state * moves.shape[0]
        place = state if users.rewards.shape[1] == chances.shape[1] else pair
        for i in range(n):
            # Agents of a shared plan have the same estimates.
            error = users.rewards[i, place] - estimated[min(i, estimated.shape[0] - 1), h, place]
            for j in range(users.psi.shape[1]):
                own.corrections[i, h, j] = error * users.psi[place, j]
        if h < horizon - 1:
            if moves.shape[0] > 0:
                after, chances_so_far = 0, users.cdf[h, state, pair - state * moves.shape[0]]
                while own.uniforms[h] >= chances_so_far[after]:
                    after += 1
            else:
                after = next_state(planning.lists, users.drifts, state, own.actions, own.uniforms[h])
            _look(users, planning, h, state, pair, after)
            state = after


@no_alloc_kernel
def _look(users: _Users, planning: Planning, h: int, state: int, pair: int, after: int) -> None:
    """Write phi_V and V of one step for every message. pair: the state and joint action in a table.

    Both are stretched to the span of values; then long features are shrunk to their bound, the value in proportion: its
    mean is still <theta*, phi>, without bias.
    """
    own, length = users.device, planning.actions.shape[1]
    for m in range(own.targets.shape[0]):
        phi, squared = own.features[m, h], 0.0
        if planning.moves.shape[0] > 0:
            for j in range(phi.shape[0]):
                phi[j] = planning.phis[m, h, j, pair]
                squared += phi[j] * phi[j]
        else:
            for i in range(planning.n_agents):
                slope, level = planning.slopes[m, h, i, state], planning.levels[m, h, i, state]
                squared += slope * slope * length + level * level
                first = i * (length + 1)
                for e in range(length):
                    phi[first + e] = slope * planning.actions[own.actions[i], e]
                phi[first + length] = level
        bound, share = users.bounds[h], planning.stretches[m, h]
        if share * share * squared > bound * bound:
            share = bound / math.sqrt(squared)
        if share != 1.0:
            for j in range(phi.shape[0]):
                phi[j] *= share
        own.targets[m, h] = share * (planning.values[m, h + 1, after] - planning.centres[m, h])


@no_alloc_kernel
def regret(users: _Users, planning: Planning) -> float:
    """Return V* - V^pi at the start, exact, for agents that break ties at random: the mean over agents' rewards.

    Paper: [TH23] sec. 2.1.
    """
    chances, moves, values = planning.chances, planning.moves, users.values
    if moves.shape[0] == 0:
        team_value(planning.lists, users.common, users.drifts, chances, users.reached, values)
        found: float = users.optimal - values[0, users.start]
        return found

    horizon, n_states, n, _ = chances.shape
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            if users.reached[h, s]:
                total = 0.0
                for a in range(moves.shape[0]):
                    chance = 1.0
                    for i in range(n):
                        chance *= chances[h, s, i, moves[a, i]]
                    if chance > 0.0:
                        value = users.common[s if users.common.shape[0] == n_states else s * moves.shape[0] + a]
                        for after in range(n_states):
                            value += users.kernels[h, s, a, after] * values[h + 1, after]
                        total += chance * value
                values[h, s] = total
    loss: float = users.optimal - values[0, users.start]
    return loss


# Mean reward: known, or learned by decreasing steps on released corrections and consensus on a public graph (sec. 2.1).

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


# D23: sec. 2.1 has the graph of time t = kh, the same for stage 3 of user 2 and stage 2 of user 3; here it is constant.
def consensus_matrix(graph: str, n_agents: int) -> Float64Array:
    """Return the Metropolis-Hastings weights float64[n, n]: 1 / (1 + the larger degree) on edges, the rest for oneself.

    They are symmetric, doubly stochastic, and 0 or at least 1/n. Each average multiplies the expected squared distance
    from the mean by at most the spectral norm of L'(I - 11'/n)L, below 1 for connected graphs.

    Raises ValueError for an unsupported number of agents.
    Paper: [TH23] Assumption 2.
    """
    require_integer("n_agents", n_agents, 1, _MOST_AGENTS)
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


@shows_numbers
class _RewardEstimates(NamedTuple):
    """Agents' reward weights and the rules of their updates.

    learned: 1, or 0 where rewards are public. weights float64[H, n, p]; values float64[M, H, W]: <psi(s), w>, cut to
    [0, 1] if `cut` is 1. corrections float64[n, H, p]: as released, (r_i - <psi(s), w_i>) psi(s) and noise, summed over
    users since the last step. psi float64[S, p]. step, decay: of gamma_k.
    matrix float64[n, n]: of consensus. workspace float64[n, p], received float64[n, H, p]: scratch.
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
    received: Float64Array


@no_alloc_kernel
def update(estimates: _RewardEstimates, number: int, users: int) -> None:
    """Make step `number` = 1, 2, ... along the mean of the collected corrections of `users` users, and clear them.

    The step is gamma_k = step k^(-decay), k = `number` (the user, if each has a step). Then neighbours average.

    Paper: [TH23] Algorithm 1, lines 18 and 43.
    """
    n_stages, n, p = estimates.weights.shape
    gamma = estimates.step * float(number) ** -estimates.decay
    for h in range(n_stages):
        for i in range(n):
            for j in range(p):
                estimates.weights[h, i, j] += gamma * (estimates.corrections[i, h, j] / users)
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


# Ridge regression on noisy sums, the inverse of Sigma, and the radius beta_{k,h} as printed in [TH23].

EXPONENT = 0.25
"""beta grows like k^(1/4)."""


_POWERS = {
    "raw": (0.0, 0.0),
    "gram_gaussian": (0.5, 0.25),
    "gram_laplace": (0.5, 0.0),
    "gram_bounded_laplace": (0.5, 0.0),
    "gram_uniform": (0.0, 0.25),
}
"""Factor of beta by mechanism: the powers of 1/epsilon and of ln((H-h+1)/delta)."""


def shift_rates(deviations: Float64Array, dimension: int, alpha: float, scale: float) -> Float64Array:
    """Return the shift of each stage's matrix per square root of messages, float64[H]: scale * 2 Gamma_k / sqrt(k-1).

    deviations float64[H]: of one number's noise. With probability 1 - alpha/6 the noise of a matrix with independent
    entries has no eigenvalue below -Gamma_k; 2 Gamma_k makes Sigma positive definite. Post-processing.

    Paper: [TH23] appendix C, eqs. (6) and (8).
    """
    # D24: line 38 adds eta = 1 only; Sigma then has negative eigenvalues from the first messages on.
    factor = math.sqrt(4.0 * dimension) + 2.0 * math.log(6.0 * deviations.shape[0] / alpha)
    return scale * 2.0 * deviations * factor


@no_alloc_kernel
def estimate(
    matrices: Float64Array,
    vectors: Float64Array,
    rates: Float64Array,
    n_messages: int,
    ridge: float,
    weights: Float64Array,
    theta: Float64Array,
    inverses: Float64Array,
    factor: Float64Array,
) -> int:
    """Fill theta and Sigma^-1 from the sums of `n_messages` messages; return the number of extra shifts.

    matrices float64[M, H, D, D]: the sums of Gram matrices, the upper triangle; vectors float64[M, H, D]: u; rates
    float64[H]: see `shift_rates`. ridge: lambda + eta. theta float64[M, H, D]; inverses float64[M, H, D, D]; factor
    float64[D, D]: scratch. The last stage, with known values, has no estimate of its own.

    weights float64[H]: 1 / (H - h)^2 if theta is known to be the same at every stage, for one weighted regression on
    the sums of all stages, kept at the last one; else empty. Post-processing, like all of this.

    Paper: [TH23] Algorithm 1, lines 38 and 39.
    """
    root, indefinite, last = math.sqrt(float(n_messages)), 0, vectors.shape[1] - 1
    for m in range(vectors.shape[0]):
        if weights.shape[0] == 0:
            for h in range(last):
                shift = ridge + rates[h] * root
                indefinite += _solve(matrices[m, h], vectors[m, h], shift, theta[m, h], inverses[m, h], factor)
            continue
        matrix, vector, pooled = matrices[m, last], vectors[m, last], 0.0
        matrix[:] = 0.0
        vector[:] = 0.0
        for h in range(last):
            pooled += (weights[h] * rates[h]) ** 2
            for i in range(vector.shape[0]):
                vector[i] += weights[h] * vectors[m, h, i]
                for j in range(i, vector.shape[0]):
                    matrix[i, j] += weights[h] * matrices[m, h, i, j]
        shift = weights[0] * ridge + math.sqrt(pooled) * root
        indefinite += _solve(matrix, vector, shift, theta[m, last], inverses[m, last], factor)
        for h in range(last):
            for i in range(vector.shape[0]):
                theta[m, h, i] = theta[m, last, i]
                for j in range(vector.shape[0]):
                    inverses[m, h, i, j] = weights[h] * inverses[m, last, i, j]
    return indefinite


@no_alloc_kernel
def _solve(
    matrix: Float64Array,
    vector: Float64Array,
    shift: float,
    theta: Float64Array,
    inverse: Float64Array,
    factor: Float64Array,
) -> int:
    """Fill theta float64[D] and the inverse of matrix + shift I; return 1 if the shift had to be doubled for it."""
    doubled = 0
    while not inverted(matrix, shift, factor, inverse):
        doubled = 1
        shift *= 2.0
    for i in range(theta.shape[0]):
        total = 0.0
        for j in range(theta.shape[0]):
            total += inverse[i, j] * vector[j]
        theta[i] = total
    return doubled


def beta_rates(
    mechanism: str, budget: tuple[float, float] | None, sizes: tuple[int, int, int], alpha: float
) -> Float64Array:
    """Return beta_{k,h} / (c k^(1/4)), float64[H]: (nd)^(3/4) (H-h+1)^(3/2) ln(ndT/alpha) times the mechanism's factor.

    budget: the requested epsilon and delta, None without noise. sizes: D = n d, H and K; T = K H.

    Paper: [TH23] Theorems 2, 4, 6 and 8.
    """
    dimension, horizon, episodes = sizes
    of_epsilon, of_delta = _POWERS[mechanism]
    ahead = np.arange(horizon, 0, -1)
    rates = dimension**0.75 * math.log(dimension * episodes * horizon / alpha) * ahead**1.5
    if budget is None:
        return np.asarray(rates)
    epsilon, delta = budget
    logarithms = np.log(ahead / delta) ** of_delta if of_delta else 1.0
    return np.asarray(rates * logarithms / epsilon**of_epsilon)


_LAST, _NEXT, _PLANS = range(3)
_CUT, _INDEFINITE = range(2)


@shows_numbers
class _Server(NamedTuple):
    """Server state, computed from messages only.

    matrices float64[M, H, D, D], vectors float64[M, H, D]: the sums Lambda (upper triangle) and u of all messages.
    theta float64[M, H, D], inverses float64[M, H, D, D]: theta^ and Sigma^-1; factor float64[D, D]: scratch. rewards:
    estimates of the mean reward. growing: whether noise adds up over messages, as in the local model; a counter's noise
    does not. beta_rates float64[H]: beta_{k,h} / k^(1/4), or beta_{k,h} if it does not grow; shift_rates float64[H]:
    see `shift_rates`. ridge, weights: see `estimate`. betas float64[H]: scratch, beta_{k,h}. growth, block: see
    `next_plan`. plans int64[3]: the episodes of the last and the next plan, and how many were made. counted int64[2]:
    of the last plan, the entries of Q cut at H - h + 1 and the matrices with an extra shift.
    """

    matrices: Float64Array
    vectors: Float64Array
    theta: Float64Array
    inverses: Float64Array
    factor: Float64Array
    rewards: _RewardEstimates
    growing: bool
    beta_rates: Float64Array
    shift_rates: Float64Array
    betas: Float64Array
    ridge: float
    weights: Float64Array
    growth: float
    block: int
    plans: Int64Array
    counted: Int64Array


@no_alloc_kernel
def run(
    users: _Users, planning: Planning, channel: StatisticsChannel, server: _Server, first: int, last: int
) -> tuple[float, int, int]:
    """Run episodes first..last (from 1 on, inclusive) of K.

    Returns the total regret and the numbers of entries of Q cut at H - h + 1 and of matrices with an extra shift.
    Between two plans the policy, the values and the estimated rewards are constant. The user of episode K sends
    nothing: no later policy could use it. Users first..last must be charged.
    """
    rewards = server.rewards
    summed, cut, indefinite, current = 0.0, 0, 0, regret(users, planning)
    for k in range(first, last + 1):
        if k == server.plans[_NEXT] and _plan(planning, server, k):
            current = regret(users, planning)
        summed += current
        cut += server.counted[_CUT]
        indefinite += server.counted[_INDEFINITE]
        # User side, lines 14 to 22.
        play(users, planning, rewards.values, k)
        if k < users.episodes:
            # User side, lines 23 to 32: the only output.
            send_statistics(channel, users.device.features, users.device.targets, users.device.corrections, k)
            # Server side, lines 33 to 37.
            read = k + 1 == server.plans[_NEXT]
            if read:
                add_statistics(channel, server.matrices, server.vectors, rewards.received)
            else:
                aggregate_statistics(channel, server.matrices, server.vectors, rewards.received)
            if rewards.learned == 1:  # lines 18 and 43
                total, received = rewards.corrections.reshape(-1), rewards.received.reshape(-1)
                for i in range(total.shape[0]):
                    total[i] += received[i]
                if read:
                    update(rewards, server.plans[_PLANS], k + 1 - server.plans[_LAST])
    return summed, cut, indefinite


@no_alloc_kernel
def _plan(planning: Planning, server: _Server, k: int) -> bool:
    """Plan before episode k from the released sums; return whether the policy changed."""
    plans, theta, inverses, n = server.plans, server.theta, server.inverses, k - 1 if server.growing else 1
    # Lines 6, 38 and 39.
    matrices, vectors, ridge, weights = server.matrices, server.vectors, server.ridge, server.weights
    shifted = estimate(matrices, vectors, server.shift_rates, n, ridge, weights, theta, inverses, server.factor)
    growth = float(k) ** EXPONENT if server.growing else 1.0
    for h in range(server.betas.shape[0]):
        server.betas[h] = server.beta_rates[h] * growth
    # Lines 8 to 13 and 17.
    changed, entries = make_plan(planning, theta, inverses, server.rewards.values, server.betas)
    server.counted[_CUT], server.counted[_INDEFINITE] = entries, shifted
    plans[_LAST], plans[_NEXT], plans[_PLANS] = k, next_plan(server.growth, server.block, k), plans[_PLANS] + 1
    return changed


@dataclass(frozen=True)
class MALDPConfig:
    """MA-LDP, agents who learn a linear mixture MDP from private statistics ([TH23] Algorithm 1).

    With one agent it is UCRL-VTR: LDP-UCRL-VTR under ldp, a private UCRL-VTR under jdp. With features of your own,
    phi(s' | s, a) as an array [S, A, S', D]; its product with an unknown theta is the probability of s':

        env = dprl.from_arrays("own.npz", features=phi, theta=theta, rewards=rewards, horizon=10)
        dprl.run(algorithm="ma_ldp", env=env, privacy={"model": "jdp", "epsilon": 1.0, "delta": 1e-6}, episodes=10_000)

    Args:
        bonus_scale: c >= 0, multiplies beta; the paper's is 1, and leaves the constants c_g, c_l, c_u and c_bl open.
        shift_scale: multiplies the shift that makes the noisy matrices positive definite; 1 is that of the proofs.
        preset: both scales if they are not set: 'proved': 1; 'tuned': 0.1, the largest within 10% of the least regret
            on three random mixtures, S = 15 and 20. They act after the noise, and no theorem covers 'tuned'.
        alpha: failure probability of the confidence bounds, in [1e-20, 1).
        value: reading of V in line 11, which does not define others' actions: 'maxmin' over them, as in line 17, or
            the best 'joint' action, as in the Bellman equation of sec. 2.1.
        ridge, eta: lambda of Lambda_1, left open by the paper, and eta of line 38; Sigma has their sum on its
            diagonal, from the first user on.
        stationary: theta is known to be the same at every stage, and one estimate pools all stages. Refused on an
            environment where it is not.
        share: whether the n agents use one estimate, and send one message instead of n. They then have one value
            function, so this requires value: joint and privacy.rewards: public.
        reward_step, reward_decay: steps gamma_k = step * k^(-decay) for learning rewards, step in (0, 2], decay in
            (1/2, 1]: the squares of an episode's steps have a finite sum, the steps an infinite one ([TH23] sec. 2.1).
        replan_growth: plan again when the number of episodes has grown by this share, a schedule that is fixed in
            advance; 0 plans before every episode, as printed. Above 0 rewards are learned in one step per plan, along
            the mean of the corrections since the last one.
        graph: communication graph after each stage.

    Paper: [TH23] Algorithm 1.
    """

    bonus_scale: float = OF_PRESET
    shift_scale: float = OF_PRESET
    alpha: float = 0.1
    ridge: float = 0.0
    eta: float = 1.0
    stationary: bool = False
    value: Literal["maxmin", "joint"] = "maxmin"
    share: bool = False
    reward_step: float = 1.0
    reward_decay: float = 0.75
    replan_growth: float = 0.0
    graph: Literal["complete", "ring", "star", "line"] = "complete"
    preset: Preset = "proved"
    name: ClassVar[str] = "ma_ldp"
    plays: ClassVar[type[Env]] = LinearMixtureMDP
    releases: ClassVar[Releases] = "statistics"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    covered_by: ClassVar[str | None] = None
    """The assumptions of the theorems on regret do not hold, see docs/ma_ldp.md."""
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED, INDEFINITE, REWARD_ERROR)

    def __post_init__(self) -> None:
        for key in ("bonus_scale", "shift_scale"):
            if getattr(self, key) is OF_PRESET:
                object.__setattr__(self, key, 0.1 if self.preset == "tuned" else 1.0)
            require_number(key, getattr(self, key), 0.0)
        check_fields(self)
        require_number("alpha", self.alpha, 1e-20, below=1.0)
        require_number("ridge", self.ridge, 0.0)
        require_number("eta", self.eta, 0.0 if self.ridge > 0.0 else 1e-12)
        require_number("replan_growth", self.replan_growth, 0.0, below=1e6)
        if self.share and self.value != "joint":
            raise ValueError(
                f"value must be joint with share: true, got {self.value!r}; agents who take the worst of each other "
                "have value functions of their own: write value: joint and privacy.rewards: public"
            )
        require_number("reward_step", self.reward_step, 1e-12, LARGEST_STEP)
        require_number("reward_decay", self.reward_decay, 0.0)
        if not 0.5 < self.reward_decay <= 1.0:
            wrong = f"reward_decay must be above 1/2 and at most 1, got {self.reward_decay:g}"
            reason = "otherwise weights never settle, or stop on the way"
            raise ValueError(f"{wrong}: {reason}; set it to 0.75, for instance")

    def layout(self, env: LinearMixtureMDP) -> StatisticsLayout:
        """Return the layout of users' messages."""
        n, p = env.n_agents, env.reward_features.shape[1]
        return StatisticsLayout(env.horizon, env.dimension, 1 if self.share else n, n, p)

    def privatizer(
        self, env: LinearMixtureMDP, privacy: StatisticsPrivacy, episodes: int, streams: Streams
    ) -> StatisticsPrivatizer:
        """Return the privatizer of users 1..K-1; the last user's message could serve no later policy.

        Raises ValueError if the settings do not fit together.
        """
        if self.stationary and isinstance(env, LinearMixture) and len(env.theta) > 1:
            rule = "stationary must be false on an environment with a theta for each step"
            raise ValueError(f"{rule}, got true; leave it out")
        found = privacy.build(self.layout(env), episodes - 1, streams, growth=self.replan_growth)
        if self.share and found.query.rewards != "public":
            wrong = f"share must be false with privacy.rewards: {found.query.rewards}, got True"
            raise ValueError(f"{wrong}; agents who learn rewards believe different ones: write privacy.rewards: public")
        return found

    def build(
        self, env: LinearMixtureMDP, privatizer: StatisticsPrivatizer, episodes: int, streams: Streams
    ) -> _MALDPLearner:
        """Return a fresh learner."""
        return _MALDPLearner(self, env, privatizer, episodes, streams)


class _MALDPLearner(Learner):
    """MA-LDP on one linear mixture MDP, for a fixed number of episodes.

    *Formal guarantee.* That of the privatizer: all plans are functions of charged messages.
    """

    config: MALDPConfig
    privatizer: StatisticsPrivatizer

    def __init__(
        self,
        config: MALDPConfig,
        env: LinearMixtureMDP,
        privatizer: StatisticsPrivatizer,
        episodes: int,
        streams: Streams,
    ) -> None:
        if privatizer.query.layout != config.layout(env):
            rule = "the privatizer must be built for this environment"
            raise ValueError(f"{rule}, got one for {privatizer.query.layout}; use config.privatizer")
        schedule = privatizer.query.schedule
        if schedule is not None and schedule.growth != config.replan_growth:
            rule = f"the privatizer must be built for replan_growth {config.replan_growth}"
            raise ValueError(f"{rule}, got one for {schedule.growth}; use config.privatizer")
        if config.share and privatizer.query.rewards != "public":
            raise ValueError(f"share needs public rewards, got {privatizer.query.rewards} ones; use config.privatizer")
        super().__init__(config, privatizer, episodes, streams, env.identity())
        n_messages, clipped = privatizer.query.layout.n_messages, privatizer.query.clipped
        self._env = env
        horizon, n, psi = env.horizon, env.n_agents, env.reward_features
        # Per-step copies of one kernel share its memory.
        dense = env.joint() if isinstance(env, LinearMixture) else None
        none = np.zeros((0, 0, 0, 0))
        self._users = _Users(
            cdf=none if dense is None else dense.cdf,
            kernels=none if dense is None else dense.transitions,
            drifts=env.drifts if isinstance(env, SignMixture) else np.zeros((0, 0)),
            rewards=np.ascontiguousarray(env.rewards.reshape(n, -1)),
            common=env.common_rewards,
            psi=psi,
            start=env.start,
            optimal=env.optimal_start_value(),
            episodes=episodes,
            env_key=streams.key("env"),
            action_key=streams.key("exploration", "ties"),
            bounds=privatizer.query.bounds,
            reached=env.reachable(),
            values=np.zeros((horizon + 1, env.n_states)),
            device=_EpisodeBuffer(
                features=np.zeros((n_messages, horizon, env.dimension)),
                targets=np.zeros((n_messages, horizon)),
                corrections=np.zeros((n, horizon, psi.shape[1])),
                uniforms=np.zeros(horizon),
                choices=np.zeros((horizon, n)),
                actions=np.zeros(n, dtype=np.int64),
            ),
        )
        floor = 0.0 if clipped else -math.inf
        spans = privatizer.query.bounds if privatizer.query.centered else np.zeros(horizon)
        self._planning = planning(env, spans, floor, config.value == "joint", n_messages)
        self._server = self._new_server()

    def _new_server(self) -> _Server:
        config, query, env, request = self.config, self.privatizer.query, self._env, self.privatizer.design.requested
        n_messages, horizon, dimension = query.layout.n_messages, env.horizon, query.layout.dimension
        budget = None if request is None else (request.epsilon, request.delta)
        printed = beta_rates(query.mechanism, budget, (dimension, horizon, self.episodes), config.alpha)
        # beta grows like the square root of the noise, so noise other than the printed one rescales it.
        noise = math.sqrt(query.noise_ratio) if request is not None else 1.0
        n, (places, p) = env.n_agents, env.reward_features.shape
        values = np.zeros((n_messages, horizon, places if isinstance(env, LinearMixture) else padded(places)))
        if query.rewards == "public":
            values[..., :places] = env.common_rewards
        ahead = np.arange(horizon - 1.0, -1.0, -1.0)
        weights = np.divide(1.0, ahead**2, out=np.zeros(horizon), where=ahead > 0.0)
        return _Server(
            matrices=np.zeros((n_messages, horizon, dimension, dimension)),
            vectors=np.zeros((n_messages, horizon, dimension)),
            theta=np.zeros((n_messages, horizon, dimension)),
            inverses=np.tile(np.eye(dimension), (n_messages, horizon, 1, 1)),
            factor=np.zeros((dimension, dimension)),
            rewards=_RewardEstimates(
                learned=int(query.rewards != "public"),
                weights=np.zeros((horizon, n, p)),
                values=values,
                cut=int(query.clipped),
                corrections=np.zeros((n, horizon, p)),
                psi=env.reward_features,
                step=config.reward_step,
                decay=config.reward_decay,
                matrix=consensus_matrix(config.graph, n),
                workspace=np.zeros((n, p)),
                received=np.zeros((n, horizon, p)),
            ),
            growing=not self.privatizer.server_noise,
            beta_rates=config.bonus_scale * noise * printed,
            shift_rates=shift_rates(query.deviations, dimension, config.alpha, config.shift_scale),
            ridge=float(config.ridge + config.eta),
            weights=weights if config.stationary else np.zeros(0),
            betas=np.zeros(horizon),
            growth=config.replan_growth,
            block=1 if query.schedule is None else query.schedule.block,
            plans=np.array([1, 1, 0], dtype=np.int64),
            counted=np.zeros(2, dtype=np.int64),
        )

    @property
    def beta_rates(self) -> Float64Array:
        return self._server.beta_rates.copy()

    @property
    def shift_rates(self) -> Float64Array:
        return self._server.shift_rates.copy()

    @property
    def policy(self) -> Float64Array:
        return self._planning.chances.copy()

    @property
    def derived(self) -> dict[str, float]:
        """The radius beta and the shift in the last plan, both of stage 1, and one number's noise in one message."""
        server, rates = self._server, self._server.shift_rates
        shift = math.hypot(*(server.weights * rates)[:-1]) / server.weights[0] if self.config.stationary else rates[0]
        messages = self.episodes - 1
        if server.growth > 0.0 or server.block > 1:
            messages = int(ReleaseSchedule(server.growth, messages, server.block).times[-1])
        return {
            "last_beta": float(server.beta_rates[0] * ((messages + 1) ** EXPONENT if server.growing else 1.0)),
            "last_shift": float(shift * (math.sqrt(messages) if server.growing else 1.0)),
            "noise_deviation": float(self.privatizer.query.deviations[0]),
        }

    def _run(self, first: int, last: int) -> dict[str, float]:
        server = self._server
        regret, cut, indefinite = run(self._users, self._planning, self.privatizer.channel, server, first, last)
        stages = server.vectors.shape[0] * (self._env.horizon - 1)
        estimates = server.vectors.shape[0] if self.config.stationary else stages
        entries = stages * self._env.n_states * self._env.n_joint_actions
        n = last - first + 1
        errors = np.abs(server.rewards.values[..., : self._env.common_rewards.size] - self._env.common_rewards)
        reached = np.repeat(self._users.reached, errors.shape[2] // self._env.n_states, axis=1)
        return {
            REGRET.name: regret,
            SATURATED.name: cut / (n * entries),
            INDEFINITE.name: indefinite / (n * estimates),
            REWARD_ERROR.name: float(errors[:, reached].mean()),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        server, plan = self._server, self._planning
        return {
            "matrices": server.matrices,
            "vectors": server.vectors,
            "weights": server.rewards.weights,
            "rewards": server.rewards.values,
            "corrections": server.rewards.corrections,
            "chances": plan.chances,
            "values": plan.values,
            "slopes": plan.slopes,
            "levels": plan.levels,
            "phis": plan.phis,
            "centres": plan.centres,
            "stretches": plan.stretches,
            "plans": server.plans,
            "counted": server.counted,
        }
