"""Random Markov games with time-dependent dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs.base import Env
from dprl.envs.checks import require_integers, require_number, require_size
from dprl.envs.games.base import MarkovGame
from dprl.envs.random_mdp import dirichlet_rows

# Gamma variables of a smaller shape underflow nearly always, those of a larger one make all rows alike.
_CONCENTRATIONS = (0.01, 1.0)


@dataclass(frozen=True)
class RandomGame:
    """Random game: Dirichlet transitions and uniform rewards, drawn for each step, state and pair of actions.

    The transitions of every (h, s, a, b) are an independent draw of Dirichlet(concentration, ..., concentration), its
    reward is uniform on [0, 1]; both differ from step to step. Episodes start in a state drawn uniformly.

    n_states, n_max_actions, n_min_actions, horizon: at least 1. concentration: in [0.01, 1]; at 1 rows are uniform
    on the simplex, small ones lead to few states each. seed: at least 0; the same seed gives the same game, bit for
    bit. Raises ValueError on other values.

    Usual sizes are 3 (the default) and 6 for S, A, B and H alike, as in public code for Ding, Su, Liu, Jin, 'A deep
    reinforcement learning approach for finding non-exploitable strategies in two-player Atari games',
    arXiv:2207.08894, 2022. That code draws step-dependent dynamics and uniform starts, too; its rewards in [-1, 1]
    depend on the next state, and its transitions are uniform numbers divided by their sum.
    """

    name: ClassVar[str] = "random_game"
    builds: ClassVar[type[Env]] = MarkovGame

    n_states: int = 3
    n_max_actions: int = 3
    n_min_actions: int = 3
    horizon: int = 3
    concentration: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_integers(self, n_states=1, n_max_actions=1, n_min_actions=1, horizon=1, seed=0)
        require_number("concentration", self.concentration, *_CONCENTRATIONS)
        require_size(self.name, self.sizes, "horizon, n_states, n_max_actions or n_min_actions")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions or of pairs of them: known before anything is built."""
        return int(self.horizon), int(self.n_states), int(self.n_max_actions) * int(self.n_min_actions)

    def build(self) -> MarkovGame:
        """Draw the game: transitions [H, S, A, B, S], rewards [H, S, A, B], start [S]."""
        shape = (self.horizon, self.n_states, self.n_max_actions, self.n_min_actions)
        generator = np.random.default_rng(self.seed)
        transitions = dirichlet_rows(generator, self.concentration, (*shape, self.n_states))
        rewards = generator.random(shape)
        return MarkovGame(self.name, transitions, rewards, np.full(self.n_states, 1.0 / self.n_states))
