"""Tabular algorithms: counts, simulator, learning loop and learner."""

from __future__ import annotations

from dprl.algorithms.tabular.learner import Preset, StationaryMDPConfig, TabularConfig, TabularLearner, TabularMDPConfig
from dprl.algorithms.tabular.loop import learning_loop
from dprl.algorithms.tabular.simulator import count_families
from dprl.privacy.queries.counts import Released

__all__ = [
    "Preset",
    "Released",
    "StationaryMDPConfig",
    "TabularConfig",
    "TabularLearner",
    "TabularMDPConfig",
    "count_families",
    "learning_loop",
]
