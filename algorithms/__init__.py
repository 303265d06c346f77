"""One file per algorithm box of the papers; each plans from private counts only."""

from __future__ import annotations

from dprl.algorithms.base import Algorithm, AlgorithmConfig, Segment
from dprl.algorithms.ldp_obi import LDPOBIConfig
from dprl.algorithms.private_ucb_po import PrivateUCBPOConfig
from dprl.algorithms.private_ucb_vi import PrivateUCBVIConfig
from dprl.algorithms.pucb import PUCBConfig
from dprl.algorithms.tabular import TabularConfig, TabularLearner

ALGORITHMS: dict[str, type[AlgorithmConfig]] = {
    config.name: config for config in (PrivateUCBPOConfig, PrivateUCBVIConfig, PUCBConfig, LDPOBIConfig)
}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AlgorithmConfig",
    "LDPOBIConfig",
    "PUCBConfig",
    "PrivateUCBPOConfig",
    "PrivateUCBVIConfig",
    "Segment",
    "TabularConfig",
    "TabularLearner",
]
