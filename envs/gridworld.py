"""GridWorld: a slippery grid with the start in one corner and the reward in the opposite one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_choice, require_integers, require_number, require_size

_LAYOUTS = ("open", "four_rooms")
_MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column) steps of left, right, up, down.
_SMALLEST_ROOMS = 3


@dataclass(frozen=True)
class GridWorld:
    """GridWorld: find the way across a slippery grid, from one corner to a reward in the opposite one.

    States are the free cells, numbered row by row from the top left cell, where episodes start. Actions 0 to 3 move
    left, right, up, down. With probability 1 - slip the agent gets to the chosen cell, with probability slip to one of
    the other free neighbours of its own cell, each equally likely; if there is no other, it always gets to the chosen
    one. A move into a wall or off the grid leaves it where it is, with certainty. The reward is 1 for each step begun
    in the bottom right cell, whatever the action, else 0; this cell ends no episode, and at slip 0 the optimal value is
    horizon - (width + height - 2), or 0 if that is negative. Dynamics and rewards are the same at every step.

    width, height: of the grid in cells, at least 1; at least 3 with four rooms. horizon: steps of an episode, at
    least 1. slip: probability in [0, 1].
    layout:
      open: no walls.
      four_rooms: walls along the middle row and the middle column, each with a door in the middle of both its
        halves. The symmetric form, of any size, of the 11 x 11 cells in Sutton, Precup, Singh, 'Between MDPs and
        semi-MDPs', Artificial Intelligence 112, 1999; shortest paths are as long as without walls.
    Raises ValueError on other values.

    >>> GridWorld(width=5, height=5, horizon=20, slip=0.0).build().optimal_start_value()
    12.0

    Defaults 5, 5 and slip 0.1 are those of the class GridWorld of the library rlberry (it has walls in two
    cells), and horizon 20 is that of its UCBVI demonstration. The paper's experiment, in its public code, is
    width 5, height 10, horizon 100, slip 0.15. The rule for slips is that of rlberry, the base of that code; that
    reaching the goal ends no episode is the paper's description, where rlberry's default is to stop there.
    Paper: Menard, Domingues, Shang, Valko, 'UCB momentum Q-learning: correcting the bias without forgetting',
    ICML 2021, experiments.
    """

    name: ClassVar[str] = "gridworld"
    builds: ClassVar[type[Env]] = FiniteMDP
    stationary: ClassVar[bool] = True

    width: int = 5
    height: int = 5
    horizon: int = 20
    slip: float = 0.1
    layout: Literal["open", "four_rooms"] = "open"

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, _LAYOUTS)
        smallest = _SMALLEST_ROOMS if self.layout == "four_rooms" else 1
        require_integers(self, width=smallest, height=smallest, horizon=1)
        require_number("slip", self.slip, 0.0, 1.0)
        require_size(self.name, self.sizes, "horizon, width or height")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.width) * int(self.height), len(_MOVES)

    def build(self) -> FiniteMDP:
        """Build the grid as arrays: transitions [H, S, 4, S], rewards [H, S, 4], start [S]."""
        free = np.ones((self.height, self.width), dtype=np.bool_)
        if self.layout == "four_rooms":  # walls with four doors
            row, column = self.height // 2, self.width // 2
            free[row], free[:, column] = False, False
            free[row, [(column - 1) // 2, (column + self.width) // 2]] = True
            free[[(row - 1) // 2, (row + self.height) // 2], column] = True
        cells = [(int(row), int(column)) for row, column in np.argwhere(free)]
        states = {cell: s for s, cell in enumerate(cells)}
        n_states = len(cells)
        transitions = np.zeros((n_states, len(_MOVES), n_states))
        for s, (row, column) in enumerate(cells):
            neighbours = [states.get((row + down, column + right)) for down, right in _MOVES]
            for action, chosen in enumerate(neighbours):
                if chosen is None:  # blocked
                    transitions[s, action, s] = 1.0
                    continue
                others = [cell for cell in neighbours if cell is not None and cell != chosen]
                transitions[s, action, chosen] = 1.0 - self.slip if others else 1.0
                for cell in others:
                    transitions[s, action, cell] = self.slip / len(others)
        rewards = np.zeros((n_states, len(_MOVES)))
        rewards[-1] = 1.0
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start=0))
