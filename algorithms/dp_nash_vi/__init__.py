"""DP-Nash-VI: private self-play in two-player zero-sum Markov games ([QW24] Algorithm 1)."""

from __future__ import annotations
