"""Pursuit: a pursuer and an evader who move at once on a small torus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env, stationary
from dprl.envs.checks import require_integers, require_number, require_size
from dprl.envs.games.base import MarkovGame

__all__ = ["Pursuit"]

# (row, column) steps of north, south, east, west, stand.
_MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))


@dataclass(frozen=True)
class Pursuit:
    """Pursuit: catch the other player on a torus, again and again.

    The max-player is the pursuer, the min-player the evader; both move at once, and both actions are 0 to 4: north,
    south, east, west, stand. Each player on its own slips with probability slip and then stays on its cell. Opposite
    edges of the grid are joined; only the evader's position relative to the pursuer therefore counts: state
    r * n_columns + c is an evader r rows south and c columns east. The reward is 1 for each step begun in state 0,
    where the pursuer has caught the evader, whatever the actions, and 0 elsewhere; play goes on after it. Both
    start on cells drawn uniformly. Dynamics and rewards are the same at every step.

    Without slips on 3 x 3 cells or more, an evader who is not caught stays free, and one who is caught is caught
    again with probability 1/5: the Nash value of h steps is (1 - 5^-h) / (1 - 1/5) in state 0 and 0 elsewhere.
    Slips give the pursuer a chance in other states, too.

    n_rows, n_columns: of the torus, at least 1. horizon: steps of an episode, at least 1. slip: probability in [0, 1].
    Raises ValueError on other values. The rules are ours.

    >>> values, pursuer, evader = Pursuit(horizon=5, slip=0.0).build().nash()
    >>> values[0, :2].round(4).tolist()  # caught, and not caught
    [1.2496, 0.0]
    """

    name: ClassVar[str] = "pursuit"
    builds: ClassVar[type[Env]] = MarkovGame
    stationary: ClassVar[bool] = True

    n_rows: int = 3
    n_columns: int = 3
    horizon: int = 5
    slip: float = 0.1

    def __post_init__(self) -> None:
        require_integers(self, n_rows=1, n_columns=1, horizon=1)
        require_number("slip", self.slip, 0.0, 1.0)
        require_size(self.name, self.sizes, "horizon, n_rows or n_columns")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions or of pairs of them: known before anything is built."""
        return int(self.horizon), int(self.n_rows) * int(self.n_columns), len(_MOVES) ** 2

    def build(self) -> MarkovGame:
        """Build the game: transitions [H, S, 5, 5, S], rewards [H, S, 5, 5], start [S]."""
        n_states, n_moves = self.n_rows * self.n_columns, len(_MOVES)
        transitions = np.zeros((n_states, n_moves, n_moves, n_states))
        for s in range(n_states):
            for a in range(n_moves):
                for b in range(n_moves):
                    self._move(transitions[s, a, b], s, a, b)
        rewards = np.zeros(transitions.shape[:-1])
        rewards[0] = 1.0
        return MarkovGame(self.name, *stationary(self.horizon, transitions, rewards, np.full(n_states, 1.0 / n_states)))

    def _move(self, law: NDArray[np.float64], state: int, pursuer: int, evader: int) -> None:
        """Fill law [S], all 0, with the next state's distribution after the two actions."""
        row, column = divmod(state, self.n_columns)
        for slips, (down, right) in ((self.slip, (0, 0)), (1.0 - self.slip, _MOVES[pursuer])):
            for also, (south, east) in ((self.slip, (0, 0)), (1.0 - self.slip, _MOVES[evader])):
                there = (row + south - down) % self.n_rows, (column + east - right) % self.n_columns
                law[there[0] * self.n_columns + there[1]] += slips * also
