"""PGC-A3C as an algorithm of RLlib: any environment, any torch module, any number of workers."""

from __future__ import annotations

from dprl.algorithms.pgc_a3c.on_rllib.algorithm import PGC, PGCConfig
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule

__all__ = ["PGC", "ActorCriticModule", "PGCConfig"]
