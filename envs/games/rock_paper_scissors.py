"""Rock-paper-scissors, repeated for a fixed number of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dprl.envs.base import Env, stationary
from dprl.envs.checks import require_choice, require_integers, require_size
from dprl.envs.games.base import MarkovGame

# Payoffs of the max-player (rows) against the min-player (columns): rock, paper, scissors.
_PAYOFFS = {
    "standard": ((0.0, -0.5, 0.5), (0.5, 0.0, -0.5), (-0.5, 0.5, 0.0)),
    "biased": ((0.0, -0.25, 0.5), (0.25, 0.0, -0.05), (-0.5, 0.05, 0.0)),
}
_MEMORIES = {"outcome": 3, "none": 1}


@dataclass(frozen=True)
class RockPaperScissors:
    """Rock-paper-scissors: the same matrix game in every round; the state is the last result.

    Actions 0 to 2 are rock, paper, scissors; the reward is 0.5 + the max-player's payoff. Payoffs and dynamics are
    the same in every round. The state affects no payoff; at a Nash equilibrium every round is therefore worth 0.5:
    the Nash value is 0.5 x (rounds left), in every state and with either memory, and backward induction has both
    players play the one equilibrium of the matrix game in every round and state.

    horizon: rounds of an episode, at least 1.
    payoffs:
      standard: 0.5 for a win, here reward 1; equilibrium (1/3, 1/3, 1/3).
      biased: paper beats rock by 0.25, rock beats scissors by 0.5, scissors beat paper by 0.05; equilibrium
        (1/16, 10/16, 5/16). The game matrix_brps of the library OpenSpiel, divided by 100.
    memory:
      outcome: three states, 0 after a draw and before the first round, 1 after the max-player won, 2 after it lost.
        A learner must learn these transitions, and the states reveal the winner of each round.
      none: a single state.
    Raises ValueError on other values.

    >>> game = RockPaperScissors(horizon=5, payoffs="biased").build()
    >>> values, max_player, min_player = game.nash()
    >>> values[0].round(6).tolist()
    [2.5, 2.5, 2.5]
    >>> (16 * max_player[0, 0]).round(6).tolist()
    [1.0, 10.0, 5.0]
    >>> game.exploitability(max_player, min_player) < 1e-9
    True
    """

    name: ClassVar[str] = "rock_paper_scissors"
    builds: ClassVar[type[Env]] = MarkovGame
    stationary: ClassVar[bool] = True

    horizon: int = 5
    payoffs: Literal["standard", "biased"] = "standard"
    memory: Literal["outcome", "none"] = "outcome"

    def __post_init__(self) -> None:
        require_integers(self, horizon=1)
        require_choice("payoffs", self.payoffs, _PAYOFFS)
        require_choice("memory", self.memory, _MEMORIES)
        require_size(self.name, self.sizes, "horizon")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions or of pairs of them: known before anything is built."""
        return int(self.horizon), _MEMORIES[self.memory], 9

    def build(self) -> MarkovGame:
        """Build the game: transitions [H, S, 3, 3, S], rewards [H, S, 3, 3], start [S]."""
        payoffs, n_states = np.array(_PAYOFFS[self.payoffs]), _MEMORIES[self.memory]
        # -1 for the min-player's win is the last of three states, or the only one.
        outcomes = np.sign(payoffs).astype(np.int64) % n_states
        laws = np.eye(n_states)[outcomes]
        transitions = np.broadcast_to(laws, (n_states, *laws.shape))
        rewards = np.broadcast_to(0.5 + payoffs, (n_states, *payoffs.shape))
        return MarkovGame(self.name, *stationary(self.horizon, transitions, rewards, start=0))
