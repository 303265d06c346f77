"""One file per algorithm box of the papers; each plans from private counts only."""

from __future__ import annotations

from dprl.algorithms.base import Algorithm, AlgorithmConfig, Segment
from dprl.algorithms.private_ucb_vi import PrivateUCBVI, PrivateUCBVIConfig

ALGORITHMS: dict[str, type[AlgorithmConfig]] = {PrivateUCBVIConfig.name: PrivateUCBVIConfig}

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmConfig", "PrivateUCBVI", "PrivateUCBVIConfig", "Segment"]
