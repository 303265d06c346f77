"""DPPG as an algorithm of RLlib: any environment, any torch module, any number of workers, central or local noise."""

from __future__ import annotations

from dprl.algorithms.dppg.on_rllib.algorithm import DPPG, DPPGConfig

__all__ = ["DPPG", "DPPGConfig"]
