"""Two-player zero-sum Markov games as arrays, solved exactly."""

from __future__ import annotations

from dprl.envs.games.base import MarkovGame

__all__ = ["MarkovGame"]
