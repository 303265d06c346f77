"""Two-player zero-sum Markov games as arrays, solved exactly."""

from __future__ import annotations

from dprl.envs.games.base import MarkovGame
from dprl.envs.games.random_game import RandomGame
from dprl.envs.games.rock_paper_scissors import RockPaperScissors
from dprl.envs.games.soccer import Soccer

__all__ = ["MarkovGame", "RandomGame", "RockPaperScissors", "Soccer"]
