"""Soccer on a grid: Littman's Markov game of two players and a ball."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.envs.base import Env, stationary
from dprl.envs.checks import require_integers, require_size
from dprl.envs.games.base import MarkovGame

_MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))  # (row, column) steps of north, south, east, west, stand.
_MAX_PLAYER, _MIN_PLAYER = 0, 1


class _Configuration(NamedTuple):
    """Both positions, (row, column) from the top left cell, and who has the ball: 0 max-player, 1 min-player."""

    max_player: tuple[int, int]
    min_player: tuple[int, int]
    ball: int


@dataclass(frozen=True)
class Soccer:
    """Soccer: carry the ball across a grid into the goal, past one opponent.

    Actions 0 to 4 of both players are north, south, east, west, stand. Both choose at once; the two moves are then
    made one after the other, in an order drawn with equal chances. A player who moves onto the other's cell stays in
    place, and the other gets or keeps the ball; a move off the grid does nothing. The max-player scores by moving west
    off the grid with the ball, the min-player by moving east, each from a goal row: the two middle rows, or the
    middle one of an odd number. A goal ends the step: a move still to be made is lost, and play restarts:
    both players go to their first cells, the max-player's in the east and the min-player's in the west, turned by 180
    degrees against each other, and either gets the ball with probability 1/2. Episodes start like that, too.

    The payoff is 1 for a goal of the max-player, -1 for one of the min-player, 0 for none; the reward is 0.5 + payoff /
    2, its mean over the order of moves where that matters. A game of h steps without a goal is therefore worth h / 2,
    also the Nash value at kick-off, by symmetry. Dynamics and rewards are the same at every step.

    A state is a configuration up to reflection in the middle row, as that changes no value if north and south are
    swapped: of each pair of mirror images the state is the one that is smaller as a tuple, and actions refer to it.
    `configurations` lists them; on the 4 x 5 grid there are 380 instead of 760, and the game is the same.

    n_rows: at least 1. n_columns: at least 2. horizon: steps of an episode, at least 1.
    Raises ValueError on other values.

    Grid, moves, goals and restarts are the source's, first cells as in OpenSpiel's markov_soccer, turned to the
    source's directions; other grid sizes and the finite horizon instead of the discount 0.9 are ours.
    Paper: Littman, 'Markov games as a framework for multi-agent reinforcement learning', ICML 1994.
    """

    name: ClassVar[str] = "soccer"
    builds: ClassVar[type[Env]] = MarkovGame
    stationary: ClassVar[bool] = True

    n_rows: int = 4
    n_columns: int = 5
    horizon: int = 8

    def __post_init__(self) -> None:
        require_integers(self, n_rows=1, n_columns=2, horizon=1)
        require_size(self.name, self.sizes, "horizon, n_rows or n_columns")

    def configurations(self) -> list[_Configuration]:
        """Return the configuration of each state, in order."""
        cells = list(product(range(self.n_rows), range(self.n_columns)))
        everything = (_Configuration(*fields) for fields in product(cells, cells, (_MAX_PLAYER, _MIN_PLAYER)))
        return [seen for seen in everything if seen.max_player != seen.min_player and seen == self._folded(seen)]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions or of pairs of them: known before anything is built."""
        return int(self.horizon), self._n_states(), len(_MOVES) ** 2

    def build(self) -> MarkovGame:
        """Build the game: transitions [H, S, 5, 5, S], rewards [H, S, 5, 5], start [S]."""
        configurations, n_states, n_moves = self.configurations(), self._n_states(), len(_MOVES)
        states = {configuration: s for s, configuration in enumerate(configurations)}
        west = (self.n_columns - 1) // 4
        west_cell, east_cell = (self.n_rows // 2, west), ((self.n_rows - 1) // 2, self.n_columns - 1 - west)
        start = np.zeros(n_states)
        for ball in (_MAX_PLAYER, _MIN_PLAYER):
            start[states[self._folded(_Configuration(east_cell, west_cell, ball))]] += 0.5
        transitions = np.zeros((n_states, n_moves, n_moves, n_states))
        rewards = np.full((n_states, n_moves, n_moves), 0.5)
        both, pairs = (_MAX_PLAYER, _MIN_PLAYER), product(range(n_moves), range(n_moves))
        for (s, before), actions, first in product(enumerate(configurations), pairs, both):
            after, payoff = self._play(before, actions, first)
            if payoff:
                transitions[s, *actions] += 0.5 * start
                rewards[s, *actions] += 0.25 * payoff
            else:
                transitions[s, *actions, states[self._folded(after)]] += 0.5
        return MarkovGame(self.name, *stationary(self.horizon, transitions, rewards, start))

    def _play(self, before: _Configuration, actions: tuple[int, int], first: int) -> tuple[_Configuration, int]:
        """Return the configuration after the actions, `first` moving first, and the payoff; at a goal it is unused."""
        cells, ball = [before.max_player, before.min_player], before.ball
        for player in (first, 1 - first):
            (row, column), (down, right) = cells[player], _MOVES[actions[player]]
            there = (row + down, column + right)
            beyond = (-1, self.n_columns)[player]
            if ball == player and there[1] == beyond and there[0] in ((self.n_rows - 1) // 2, self.n_rows // 2):
                return before, 1 if player == _MAX_PLAYER else -1
            if there == cells[1 - player]:
                ball = 1 - player
            elif there[0] in range(self.n_rows) and there[1] in range(self.n_columns):
                cells[player] = there
        return _Configuration(cells[_MAX_PLAYER], cells[_MIN_PLAYER], ball), 0

    def _folded(self, seen: _Configuration) -> _Configuration:
        """Return the smaller one of a configuration and its mirror image."""
        last = self.n_rows - 1
        (row, column), (other_row, other_column), ball = seen
        return min(seen, _Configuration((last - row, column), (last - other_row, other_column), ball))

    def _n_states(self) -> int:
        rows, columns = int(self.n_rows), int(self.n_columns)
        # With both players in the middle row of an odd number, a configuration is its own mirror image.
        fixed = rows % 2 * 2 * columns * (columns - 1)
        everything = 2 * rows * columns * (rows * columns - 1)
        return (everything + fixed) // 2
