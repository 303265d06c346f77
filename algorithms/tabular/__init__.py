"""Parts of all tabular algorithms: their counts, the simulator, the learning loop and the learner around it."""

from __future__ import annotations

from dprl.algorithms.tabular.counts import count_families
from dprl.algorithms.tabular.learner import TabularConfig, TabularLearner
from dprl.algorithms.tabular.loop import learning_loop
from dprl.algorithms.tabular.mdp import TabularMDPConfig
from dprl.privacy.queries.count_kernels import Released

__all__ = ["Released", "TabularConfig", "TabularLearner", "TabularMDPConfig", "count_families", "learning_loop"]
