"""Users of MA-LDP: the environment for compiled loops, and the data of one episode on a device."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.ma_ldp.planning import Planning
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs.network_mdp import LinearMixtureMDP
from dprl.envs.network_mdp.dynamics import next_state, team_value
from dprl.privacy import Streams
from dprl.privacy.randomness.bits import fill_uniform


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
class Users(NamedTuple):
    """Environment and users for compiled loops; planning never reads them.

    drifts float64[n, A]: the true <a, theta_i>. rewards float64[n, S], common float64[S]: each agent's and their mean;
    psi float64[S, p]. start: the first state; optimal: V* there. episodes: K. env_key, action_key uint64[5]: of the
    streams for transitions and ties. bounds float64[H]: m_h, the device's bounds on features and values; infinite
    without clipping. reached bool[H, S]: the reachable states. values float64[H + 1, S]: scratch; device: a user's
    episode buffer.
    """

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


def users_of(mdp: LinearMixtureMDP, episodes: int, streams: Streams, n_messages: int, bounds: Float64Array) -> Users:
    """Return K = `episodes` users of `mdp` with `n_messages` messages each; bounds: see Users."""
    horizon, n, n_states, dimension = mdp.horizon, mdp.n_agents, mdp.n_states, mdp.n_agents * mdp.dimension
    device = _EpisodeBuffer(
        features=np.zeros((n_messages, horizon, dimension)),
        targets=np.zeros((n_messages, horizon)),
        corrections=np.zeros((n, horizon, mdp.reward_features.shape[1])),
        uniforms=np.zeros(horizon),
        choices=np.zeros((horizon, n)),
        actions=np.zeros(n, dtype=np.int64),
    )
    return Users(
        drifts=mdp.drifts,
        rewards=mdp.rewards,
        common=mdp.common_rewards,
        psi=mdp.reward_features,
        start=mdp.start,
        optimal=mdp.optimal_start_value(),
        episodes=episodes,
        env_key=streams.key("env"),
        action_key=streams.key("exploration", "ties"),
        bounds=bounds,
        reached=mdp.reachable(),
        values=np.zeros((horizon + 1, n_states)),
        device=device,
    )


@no_alloc_kernel
def play(users: Users, planning: Planning, estimated: Float64Array, user: int) -> None:
    """User side: play episode `user`; write the message without noise to users.device.

    estimated float64[M, H, W]: each agent's estimate of the mean reward.

    Paper: [TH23] Algorithm 1, lines 14 to 24.
    """
    own, chances = users.device, planning.plan.chances
    horizon, _, n, _ = chances.shape
    choices = own.choices.reshape(horizon * n)
    fill_uniform(own.uniforms, users.env_key, np.uint64(user) * np.uint64(horizon))
    fill_uniform(choices, users.action_key, np.uint64(user) * np.uint64(horizon * n))
    state = users.start
    for h in range(horizon):
        for i in range(n):
            own.actions[i] = _choose(chances[h, state, i], own.choices[h, i])
            # Agents of a shared plan have the same estimates.
            error = users.rewards[i, state] - estimated[min(i, estimated.shape[0] - 1), h, state]
            for j in range(users.psi.shape[1]):
                own.corrections[i, h, j] = error * users.psi[state, j]
        if h < horizon - 1:
            after = next_state(planning.lists, users.drifts, state, own.actions, own.uniforms[h])
            _look(users, planning, h, state, after)
            state = after


@no_alloc_kernel
def _choose(chances: Float64Array, uniform: float) -> int:
    """Return the first action with uniform < the cumulative probability, else the last possible one."""
    reached, chosen = 0.0, 0
    for a in range(chances.shape[0]):
        if chances[a] > 0.0:
            chosen = a
            reached += chances[a]
            if uniform < reached:
                break
    return chosen


@no_alloc_kernel
def _look(users: Users, planning: Planning, h: int, state: int, after: int) -> None:
    """Write phi_V and V of one step for every message.

    Long features are shrunk to norm H - h, and the value in proportion, so that its mean is still <theta*, phi>: the
    step has less weight, but no bias.
    """
    own, plan, length = users.device, planning.plan, planning.actions.shape[1]
    for m in range(own.targets.shape[0]):
        norm = 0.0
        for i in range(planning.n_agents):
            slope, level = plan.slopes[m, h, i, state], plan.levels[m, h, i, state]
            norm += slope * slope * length + level * level
        bound, share = users.bounds[h], 1.0
        if norm > bound * bound:
            share = bound / math.sqrt(norm)
        for i in range(planning.n_agents):
            first = i * (length + 1)
            for e in range(length):
                slope = share * plan.slopes[m, h, i, state]
                own.features[m, h, first + e] = slope * planning.actions[own.actions[i], e]
            own.features[m, h, first + length] = share * plan.levels[m, h, i, state]
        own.targets[m, h] = share * plan.values[m, h + 1, after]


@no_alloc_kernel
def regret(users: Users, planning: Planning) -> float:
    """Return V* - V^pi at the start, exact, for agents that break ties at random: the mean over agents' rewards.

    Paper: [TH23] sec. 2.1.
    """
    team_value(planning.lists, users.common, users.drifts, planning.plan.chances, users.reached, users.values)
    found: float = users.optimal - users.values[0, users.start]
    return found
