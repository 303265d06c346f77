"""MA-LDP of [TH23]: agents who learn a linear mixture MDP from locally private messages, and rewards by consensus."""

from __future__ import annotations

from dprl.algorithms.ma_ldp.algorithm import MALDPConfig

__all__ = ["MALDPConfig"]
