"""The pairs of players whom DP-Nash-VI meets: the game as compiled loops see it, and one episode in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.tabular.counts import visit_families, write_visits
from dprl.algorithms.tabular.simulator import Device, device
from dprl.compiled import inlined
from dprl.envs.dynamics import roll_out_stochastic
from dprl.envs.games import MarkovGame
from dprl.envs.games.dynamics import GapScratch, GapTables, duality_gap, gap_scratch
from dprl.privacy import CountFamilies, Streams
from dprl.privacy.randomness.bits import fill_uniform


class GameSimulator(NamedTuple):
    """The game and its users as compiled loops see them; a user is one episode of both players.

    cdf float64[H, S, A*B, S'], start, start_cdf: of the game's joint MDP; model: its arrays along (s, a, b); episodes:
    K; key uint64[5]: of the stream that moves the game; gap: scratch; device: a user's.
    """

    cdf: Float64Array
    start: Float64Array
    start_cdf: Float64Array
    model: GapTables
    episodes: int
    key: np.ndarray
    gap: GapScratch
    device: Device

    def identity(self) -> tuple[np.ndarray, ...]:
        """Return what makes it this one: another game or stream differs in these arrays."""
        return *self.model, self.start, self.key

    def __repr__(self) -> str:
        return f"GameSimulator({self.episodes} episodes)"


def game_simulator(game: MarkovGame, episodes: int, streams: Streams) -> GameSimulator:
    """Return the simulator of K = `episodes` users of `game`."""
    return GameSimulator(
        cdf=game.joint.cdf,
        start=game.start,
        start_cdf=game.joint.start_cdf,
        model=game.gap_tables(),
        episodes=episodes,
        key=streams.key("env"),
        gap=gap_scratch(game.n_states, game.n_max_actions, game.n_min_actions),
        device=device(game.horizon, n_families=2),
    )


def count_families(game: MarkovGame) -> CountFamilies:
    """Return N(h,s,a,b,s') and N(h,s,a,b); rewards are known. A user is the pair of players of an episode.

    Paper: [QW24] sec. 2.2 and sec. 3.
    """
    pairs = game.n_max_actions * game.n_min_actions
    players = 1 if game.n_min_actions == 1 else 2  # a player with nothing to choose has no data
    return CountFamilies(game.horizon, visit_families(game.n_states, pairs), paper="[QW24]", players=players)


@inlined
def play(simulator: GameSimulator, policy: Float64Array, user: int) -> None:
    """User side: episode `user` under the joint `policy` float64[H, S, A, B]; the contribution is left in `device`.

    Paper: [QW24] Algorithm 1, line 18.
    """
    own = simulator.device
    horizon, n_states, n_max, n_min = policy.shape
    joint = policy.reshape((horizon, n_states, n_max * n_min))
    fill_uniform(own.uniforms, simulator.key, np.uint64(user) * np.uint64(own.uniforms.shape[0]))
    roll_out_stochastic(simulator.cdf, simulator.start_cdf, joint, own.uniforms, own.states, own.actions)
    write_visits(own.states, own.actions, (n_states, n_max * n_min), own.cells, own.amounts)


@inlined
def regret(simulator: GameSimulator, policy: Float64Array) -> float:
    """Return V^{dagger,nu} - V^{mu,dagger} for the marginals mu, nu of the joint `policy` float64[H, S, A, B].

    Both players' best responses are exact, the values weighted by the distribution of the first state.

    Paper: [QW24] sec. 2.1.
    """
    horizon, n_states, n_max, n_min = policy.shape
    duality_gap(simulator.model, policy.reshape((horizon, n_states, n_max * n_min)), simulator.gap)
    total = 0.0
    for s in range(n_states):
        total += simulator.start[s] * (simulator.gap.upper[s] - simulator.gap.lower[s])
    return total
