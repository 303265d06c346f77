"""Simulated users of the tabular algorithms: environment, episode and counts in compiled loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import literal_unroll

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import FiniteMDP
from dprl.envs.dynamics import deterministic_value, roll_out, roll_out_stochastic, stochastic_value
from dprl.privacy import CountFamilies, CountFamily, Streams
from dprl.privacy.randomness.bits import fill_uniform

_TRANSITIONS, _VISITS, _REWARDS = range(3)
N_FAMILIES = 3
ALL_STATES = np.zeros((0, 0, 0), dtype=np.int64)
"""In place of possible next states where they are not known: any state may follow."""


def visit_families(n_states: int, n_actions: int) -> tuple[CountFamily, CountFamily]:
    """Return N(h,s,a,s') and N(h,s,a), in planning's order; a may be a pair of actions.

    Within a step, transitions come first, as [S', S, A]: planning then runs along (s, a) without gaps.
    """
    pairs = n_states * n_actions
    return (CountFamily("transitions", pairs * n_states), CountFamily("visits", pairs, marginal_of="transitions"))


def count_families(mdp: FiniteMDP, losses: bool = False) -> CountFamilies:
    """Return N(h,s,a,s'), N(h,s,a) and R(h,s,a), in planning's order; or losses instead of R.

    R is the sum of rewards where the paper has costs C; R = N - C, so sensitivity and noise are the same.
    Paper: [CZ22] sec. 3.
    """
    return families_of_size(mdp.horizon, mdp.n_states, mdp.n_actions, losses)


def families_of_size(horizon: int, n_states: int, n_actions: int, losses: bool = False) -> CountFamilies:
    """Return these families for an MDP of that size."""
    name = "losses" if losses else "rewards"
    third = CountFamily(name, n_states * n_actions, marginal_of="transitions", indicator=False)
    return CountFamilies(horizon, (*visit_families(n_states, n_actions), third), paper="[CZ22]")


def possible_successors(mdp: FiniteMDP, layers: int) -> Int64Array:
    """Return `mdp.successors()` for `layers` steps with separate counts, int64[layers, R, S*A]."""
    found = mdp.successors()[:layers]
    return np.repeat(found, layers // found.shape[0], axis=0)


def narrowed(families: CountFamilies, successors: Int64Array) -> CountFamilies:
    """Return families in which N(h,s,a,s') counts the possible next states only, as [R, S, A]."""
    transitions = replace(families.families[0], width=successors[0].size)
    return replace(families, families=(transitions, *families.families[1:]), paper="", ranked=True)


@no_alloc_kernel
def write_visits(
    states: Int64Array, actions: Int64Array, shape: tuple[int, int], cells: Int64Array, amounts: Float64Array
) -> None:
    """User side: turn a trajectory into one cell per step of `visit_families`, with an amount of 1 each.

    states int64[H+1], actions int64[H], shape: S, A; fills the first two columns of cells int64[H, F], amounts float64.
    """
    n_states, n_actions = shape
    for h in range(actions.shape[0]):
        pair = states[h] * n_actions + actions[h]
        cells[h, _TRANSITIONS] = states[h + 1] * (n_states * n_actions) + pair
        cells[h, _VISITS] = pair
        amounts[h, _TRANSITIONS] = 1.0
        amounts[h, _VISITS] = 1.0


@no_alloc_kernel
def write_contribution(
    states: Int64Array, actions: Int64Array, rewards: Float64Array, cells: Int64Array, amounts: Float64Array
) -> None:
    """User side: turn a trajectory into one cell per step and family.

    states int64[H+1], actions int64[H], rewards (or losses) float64[H, S, A]; fills cells and amounts [H, 3].
    """
    write_visits(states, actions, (rewards.shape[1], rewards.shape[2]), cells, amounts)
    for h in range(actions.shape[0]):
        cells[h, _REWARDS] = cells[h, _VISITS]
        amounts[h, _REWARDS] = rewards[h, states[h], actions[h]]


@no_alloc_kernel
def write_ranks(states: Int64Array, successors: Int64Array, cells: Int64Array) -> None:
    """User side: replace a next state by its rank among the possible ones, the last rank if it is not possible.

    states int64[H+1], successors int64[L, R, S*A], L = H or 1; corrects the first column of cells int64[H, F].
    """
    layers, width, pairs = successors.shape
    for h in range(cells.shape[0]):
        pair, rank = cells[h, _VISITS], 0
        while rank < width - 1 and successors[h if layers > 1 else 0, rank, pair] != states[h + 1]:
            rank += 1
        cells[h, _TRANSITIONS] = rank * pairs + pair


@shows_numbers
class EpisodeBuffer(NamedTuple):
    """User's side: the current episode. Only sending kernels may read it.

    uniforms float64[2H+1]; states int64[H+1]; actions int64[H]; cells int64[H, F], amounts float64[H, F]: by family.
    """

    uniforms: Float64Array
    states: Int64Array
    actions: Int64Array
    cells: Int64Array
    amounts: Float64Array


def episode_buffer(horizon: int, n_families: int) -> EpisodeBuffer:
    """Return the empty buffer of a user who takes H steps and contributes to F families."""
    return EpisodeBuffer(
        uniforms=np.zeros(2 * horizon + 1),
        states=np.zeros(horizon + 1, dtype=np.int64),
        actions=np.zeros(horizon, dtype=np.int64),
        cells=np.zeros((horizon, n_families), dtype=np.int64),
        amounts=np.zeros((horizon, n_families)),
    )


@shows_numbers
class _Simulator(NamedTuple):
    """Environment and users for compiled loops.

    transitions, rewards, cdf, start, start_cdf: of FiniteMDP, transitions and cdf as they are stored;
    successors int64[L, R, S*A]: see `possible_successors`, L = 0 if they are unknown; observed float64[H, S, A]: the
    rewards or losses that users count; optimal_value: V* of the first state's distribution; episodes: K; key uint64[5]:
    of the environment's random stream; values float64[H+1, S]: scratch; device: the user's episode.
    """

    transitions: Float64Array
    rewards: Float64Array
    successors: Int64Array
    observed: Float64Array
    cdf: Float64Array
    start: Float64Array
    start_cdf: Float64Array
    optimal_value: float
    episodes: int
    key: np.ndarray
    values: Float64Array
    device: EpisodeBuffer

    def identity(self) -> tuple[np.ndarray, ...]:
        """Return arrays that differ for another environment or stream."""
        return self.transitions, self.rewards, self.observed, self.start, self.key


def simulator(
    mdp: FiniteMDP, episodes: int, streams: Streams, losses: bool = False, successors: Int64Array = ALL_STATES
) -> _Simulator:
    """Return the simulator of K = `episodes` users of `mdp`; they count rewards or losses 1 - r.

    successors: those that the users' families count, see `narrowed`; `ALL_STATES` for all.
    """
    horizon, n_states, _ = mdp.rewards.shape
    return _Simulator(
        transitions=mdp.transitions[: mdp.layers],
        rewards=mdp.rewards,
        successors=successors,
        observed=1.0 - mdp.rewards if losses else mdp.rewards,
        cdf=mdp.cdf[: mdp.layers],
        start=mdp.start,
        start_cdf=mdp.start_cdf,
        optimal_value=mdp.optimal_start_value(),
        episodes=episodes,
        key=streams.key("env"),
        values=np.zeros((horizon + 1, n_states)),
        device=episode_buffer(horizon, N_FAMILIES),
    )


@no_alloc_kernel
def clear_device(simulator: Any) -> None:  # noqa: ANN401 - any with a device, a NamedTuple of arrays
    """User side: forget the user before, so that a step that `play` leaves out is not one of theirs."""
    for array in literal_unroll(simulator.device):
        array[:] = 0


@no_alloc_kernel
def play(simulator: _Simulator, policy: Int64Array, user: int) -> None:
    """User side: episode `user` under `policy` int64[H, S]; leaves the contribution in simulator.device."""
    device = simulator.device
    uniforms = device.uniforms[: device.states.shape[0]]
    fill_uniform(uniforms, simulator.key, np.uint64(user) * np.uint64(uniforms.shape[0]))
    roll_out(simulator.cdf, simulator.start_cdf, policy, uniforms, device.states, device.actions)
    write_contribution(device.states, device.actions, simulator.observed, device.cells, device.amounts)
    if simulator.successors.shape[0] > 0:
        write_ranks(device.states, simulator.successors, device.cells)


@no_alloc_kernel
def play_stochastic(simulator: _Simulator, policy: Float64Array, user: int) -> None:
    """User side: the same under a stochastic `policy` float64[H, S, A]."""
    device = simulator.device
    fill_uniform(device.uniforms, simulator.key, np.uint64(user) * np.uint64(device.uniforms.shape[0]))
    roll_out_stochastic(simulator.cdf, simulator.start_cdf, policy, device.uniforms, device.states, device.actions)
    write_contribution(device.states, device.actions, simulator.observed, device.cells, device.amounts)
    if simulator.successors.shape[0] > 0:
        write_ranks(device.states, simulator.successors, device.cells)


@no_alloc_kernel
def stochastic_policy_value(simulator: _Simulator, policy: Float64Array) -> float:
    """Return the exact value of a stochastic policy float64[H, S, A] from the first state's distribution."""
    stochastic_value(simulator.transitions, simulator.rewards, policy, simulator.values)
    return _from_the_start(simulator)


@no_alloc_kernel
def regret(simulator: _Simulator, policy: Int64Array) -> float:
    """Return V* - V^pi of a deterministic policy int64[H, S] from the first state's distribution."""
    deterministic_value(simulator.transitions, simulator.rewards, policy, simulator.values)
    return simulator.optimal_value - _from_the_start(simulator)


@no_alloc_kernel
def stochastic_regret(simulator: _Simulator, policy: Float64Array) -> float:
    """Return V* - V^pi of a stochastic policy float64[H, S, A] from the first state's distribution."""
    return simulator.optimal_value - stochastic_policy_value(simulator, policy)


@no_alloc_kernel
def _from_the_start(simulator: _Simulator) -> float:
    total = 0.0
    for s in range(simulator.start.shape[0]):
        total += simulator.start[s] * simulator.values[0, s]
    return total
