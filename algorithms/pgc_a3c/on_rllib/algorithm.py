"""PGC-A3C as RLlib's Algorithm."""

from __future__ import annotations

from typing import ClassVar

from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection
from dprl.algorithms.pgc_a3c.on_rllib.config import PGCConfig


class PGC(GradientCollection):
    """Private gradient collection with an actor-critic on RLlib: `PGCConfig().privacy(...).build_algo().train()`.

    Paper: [OT20] Algorithm 1.
    """

    own: ClassVar[str] = "pgc"

    @classmethod
    def get_default_config(cls) -> PGCConfig:
        """Return the default settings; privacy has none and must be chosen."""
        return PGCConfig()


PGCConfig._algorithm_class = PGC
