"""DPPG: policy gradients of any environment's users, in rounds; one pass, with any trust model for gradients."""

from __future__ import annotations

from dprl.algorithms.dppg.algorithm import DPPGConfig

__all__ = ["DPPGConfig"]
