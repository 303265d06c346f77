"""DPPG: private policy gradients from rounds of users, for any environment and any trust model for gradients."""

from __future__ import annotations

from dprl.algorithms.dppg.algorithm import DPPGConfig

__all__ = ["DPPGConfig"]
