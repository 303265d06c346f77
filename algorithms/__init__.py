"""One file per algorithm box of the papers; each plans from private counts only."""

from dprl.algorithms.base import Algorithm, AlgorithmSettings, Segment
from dprl.algorithms.private_ucb_vi import PrivateUCBVI, PrivateUCBVISettings

ALGORITHMS: dict[str, type[PrivateUCBVISettings]] = {PrivateUCBVISettings.name: PrivateUCBVISettings}

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmSettings", "PrivateUCBVI", "PrivateUCBVISettings", "Segment"]
