"""Settings of the tabular algorithms on finite MDPs: counts, users and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dprl.algorithms.tabular.greedy import greedy_tables
from dprl.algorithms.tabular.learner import TabularConfig
from dprl.algorithms.tabular.simulator import Simulator, count_families, simulator
from dprl.envs import Env, FiniteMDP
from dprl.privacy import CountFamilies, Streams


@dataclass(frozen=True)
class TabularMDPConfig(TabularConfig[FiniteMDP]):
    """The settings of every tabular algorithm on finite MDPs."""

    plays: ClassVar[type[Env]] = FiniteMDP
    bounds_optimum: ClassVar[bool] = True
    """Whether `tables.optimistic` bounds the optimal values from above; else those of the policy deployed last."""

    @property
    def counts_losses(self) -> bool:
        """Whether users count losses 1 - r in place of rewards."""
        return False

    def families(self, env: FiniteMDP) -> CountFamilies:
        """Return transitions, visits, and rewards or losses."""
        return count_families(env, self.counts_losses)

    def simulator(self, env: FiniteMDP, episodes: int, streams: Streams) -> Simulator:
        """Return the MDP and its users."""
        return simulator(env, episodes, streams, self.counts_losses)

    def tables(self, env: FiniteMDP, episodes: int) -> Any:  # noqa: ANN401, ARG002 - algorithms may have others
        """Return greedy tables of zeros."""
        return greedy_tables(env)
