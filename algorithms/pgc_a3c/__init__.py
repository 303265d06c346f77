"""PGC-A3C: actor-critic learned from private gradients of many agents ([OT20] Algorithm 1)."""

from __future__ import annotations

from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig

__all__ = ["PGCA3CConfig"]
