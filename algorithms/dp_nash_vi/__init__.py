"""DP-Nash-VI: private self-play in two-player zero-sum Markov games ([QW24] Algorithm 1)."""

from __future__ import annotations

from dprl.algorithms.dp_nash_vi.algorithm import DPNashVIConfig, DPUCBVIConfig

__all__ = ["DPNashVIConfig", "DPUCBVIConfig"]
