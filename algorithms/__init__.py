"""Algorithms, by registered name; each has one file or one folder."""

from __future__ import annotations

from dprl.algorithms.base import Metric
from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.algorithms.dp_nash_vi import DPNashVIConfig, DPUCBVIConfig
from dprl.algorithms.dppg import DPPGConfig
from dprl.algorithms.dppg.cloning import DPBCConfig
from dprl.algorithms.ldp_obi import LDPOBIConfig
from dprl.algorithms.learner import AlgorithmConfig, Learner
from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.offline_vi import LoggedVIConfig, OfflineVIConfig
from dprl.algorithms.pgc_a3c import PGCA3CConfig
from dprl.algorithms.private_ucb_po import PrivateUCBPOConfig
from dprl.algorithms.private_ucb_vi import PrivateUCBVIConfig
from dprl.algorithms.pucb import PUCBConfig
from dprl.algorithms.random_vi import RandomVIConfig
from dprl.algorithms.tabular import TabularConfig, TabularLearner, TabularMDPConfig

_CONFIGS: tuple[type[AlgorithmConfig], ...] = (
    PrivateUCBPOConfig,
    PrivateUCBVIConfig,
    PUCBConfig,
    LDPOBIConfig,
    BernsteinVIConfig,
    RandomVIConfig,
    OfflineVIConfig,
    LoggedVIConfig,
    DPUCBVIConfig,
    DPNashVIConfig,
    PGCA3CConfig,
    DPPGConfig,
    DPBCConfig,
    MALDPConfig,
)
ALGORITHMS: dict[str, type[AlgorithmConfig]] = {config.name: config for config in _CONFIGS}

__all__ = [
    "ALGORITHMS",
    "AlgorithmConfig",
    "BernsteinVIConfig",
    "DPBCConfig",
    "DPNashVIConfig",
    "DPPGConfig",
    "DPUCBVIConfig",
    "LDPOBIConfig",
    "Learner",
    "LoggedVIConfig",
    "MALDPConfig",
    "Metric",
    "OfflineVIConfig",
    "PGCA3CConfig",
    "PUCBConfig",
    "PrivateUCBPOConfig",
    "PrivateUCBVIConfig",
    "RandomVIConfig",
    "TabularConfig",
    "TabularLearner",
    "TabularMDPConfig",
]
