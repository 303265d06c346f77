"""DPPG as RLlib's Algorithm."""

from __future__ import annotations

from typing import ClassVar

from dprl.algorithms.dppg.on_rllib.config import DPPGConfig
from dprl.algorithms.pgc.on_rllib.algorithm import GradientCollection


class DPPG(GradientCollection):
    """A private policy gradient in one pass over users, on RLlib: `DPPGConfig().privacy(...).build_algo().train()`.

    Under `model='jdp'` runners send the clipped update of each user, and this process adds noise to the sum of a round.
    Under `model='ldp'` each update has noise of its own before it leaves the runner.
    """

    own: ClassVar[str] = "dppg"

    @classmethod
    def get_default_config(cls) -> DPPGConfig:
        """Return the default settings; privacy has none and must be chosen."""
        return DPPGConfig()


DPPGConfig._algorithm_class = DPPG
