"""offline_vi: pessimistic value iteration on one private release of logged episodes.

All users but the last are logged under a fixed behaviour policy, and their counts are released once. The output is a
policy with a lower bound on its value. The bounds mirror those of bernstein_vi, for values that depend on the data;
docs/offline_vi.md derives every line.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named.
#  1  bounds of the noise and of sampling              -> algorithms/tabular/lower_bounds.py::limits_of
#  2  for users k = 1, ..., K-1                        -> algorithms/tabular/loop.py::learning_loop,
#                                                         algorithms/tabular/blocks.py::run_in_blocks
#  3    roll out the behaviour policy                  -> algorithms/tabular/simulator.py::play_stochastic
#  4  receive N~, R~, once                             -> privacy/queries/count_kernels.py::send_and_release
#  5  V~_{H+1} = V^cert_{H+1} = 0; for h = H, ..., 1   -> plan
#  6    Q~ = lower bound of r + P V~, constants scaled -> algorithms/tabular/lower_bounds.py::lower_value
#  7    pi(s) = argmax_a Q~(s, a), V~(s) = its value   -> plan
#  8    V^cert(s) = proved lower bound at pi(s)        -> algorithms/tabular/lower_bounds.py::lower_value
#  9  user K plays pi; return pi and V^cert_1          -> PessimisticVIConfig.measure

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import REGRET, Float64Array, Metric, check_number
from dprl.algorithms.tabular import Preset, Released, StationaryMDPConfig, learning_loop
from dprl.algorithms.tabular.lower_bounds import (
    LOWER_BOUND,
    UNINFORMED,
    VALUE,
    Limits,
    check_bounded,
    limits_of,
    lower_value,
)
from dprl.algorithms.tabular.simulator import Simulator, play_stochastic, stochastic_policy_value, stochastic_regret
from dprl.compiled import kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountFamilies, CountPrivatizer, PrivacyConfig, Streams

OPTIMUM_GAP = Metric(
    "optimum_gap",
    "last",
    "reward",
    of="output",
    short="gap",
    definition="the optimal value less the output policy's",
    covered=True,
)


class _Bonus(NamedTuple):
    """Bounds for planning, with bonus_scale and precision_scale multiplied in, and for the certificate, without."""

    planning: Limits
    proved: Limits


class OfflineTables(NamedTuple):
    """Arrays of planning.

    policy float64[H, S, A]: the behaviour policy until the release, then the output; optimistic float64[S]: certified
    lower bounds of the values of the first step; values float64[S]: lower bounds with scaled constants, used to choose
    actions; older float64[2, S]: `values` and `optimistic` of the next step.
    """

    policy: Float64Array
    optimistic: Float64Array
    values: Float64Array
    older: Float64Array

    @classmethod
    def zeros(cls, policy: Float64Array) -> OfflineTables:
        """Return tables before any planning: a behaviour policy float64[H, S, A], and values of zero."""
        n_states = policy.shape[1]
        return cls(policy, np.zeros(n_states), np.zeros(n_states), np.zeros((2, n_states)))


@kernel
def plan(counts: Released, bonus: _Bonus, tables: OfflineTables) -> tuple[bool, float]:
    """Pessimistic value iteration, and the certificate of the policy that it finds.

    Returns (did the policy change, share of (h, s, a) with bounds that the counts do not raise). Before the release it
    keeps the behaviour policy and returns a share of 0.
    """
    policy, proved, planned, older = tables
    horizon, n_states, n_actions = policy.shape
    proved[:], planned[:] = 0.0, 0.0
    if counts.users == 0:
        return False, 0.0
    values = counts.values.reshape((-1, n_states + 2, n_states * n_actions))
    changed, unknown = False, 0
    for h in range(horizon - 1, -1, -1):
        older[0], older[1] = planned, proved
        cap = float(horizon - h)
        step = values[h if values.shape[0] == horizon else 0]
        for s in range(n_states):
            best, action = -1.0, 0
            for a in range(n_actions):
                bound, told = lower_value(step, s * n_actions + a, older[0], cap, bonus.planning)
                unknown += not told
                if bound > best:
                    best, action = bound, a
            planned[s] = best
            proved[s], _ = lower_value(step, s * n_actions + action, older[1], cap, bonus.proved)
            changed |= policy[h, s, action] != 1.0
            policy[h, s] = 0.0
            policy[h, s, action] = 1.0
    return changed, unknown / (horizon * n_states * n_actions)


run = learning_loop(plan, play_stochastic, stochastic_regret)


@dataclass(frozen=True)
class PessimisticVIConfig(StationaryMDPConfig):
    """Settings of pessimistic value iteration on one private release of users 1..K-1, with a certified value (ours).

    The certified lower bound holds at any scale; the scales affect the choice of the policy only.
    """

    preset: Preset = "tuned"
    online: ClassVar[bool] = False
    tuned: ClassVar[tuple[float, float] | None] = (0.3, 0.3)
    bounds_optimum: ClassVar[bool | None] = None
    theorem: ClassVar[str | None] = "docs/offline_vi.md, Theorem 1 (lower bound)"
    plan = staticmethod(plan)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replan_growth != 0.0:
            raise ValueError(
                f"replan_growth must be 0 with {self.name}, got {self.replan_growth}; it plans once, from one release"
            )

    @property
    def covered_by(self) -> str | None:
        """The theorem that proves the lower bound, at any scale."""
        return self.theorem

    def families(self, env: FiniteMDP) -> CountFamilies:
        """Return transitions, visits, and rewards or losses, with one error bound for all cells of a family."""
        return replace(super().families(env), by_bound=True)

    def privatizer(self, env: FiniteMDP, privacy: PrivacyConfig, episodes: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer of the counts of users 1..K-1; raise ValueError unless its error bounds are exact."""
        privatizer = super().privatizer(env, privacy, episodes, streams)
        check_bounded(privatizer.query)
        return privatizer

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:  # noqa: ARG002
        """Return the numbers of the bounds; half of beta is for the noise, half for the users' episodes."""
        proved = limits_of(env, privatizer, self.beta)
        scaled = self.precision_scale * proved.e, self.precision_scale * proved.e_rewards
        planning = proved._replace(e=scaled[0], e_rewards=scaled[1], scale=self.bonus_scale)
        return _Bonus(planning, proved)

    def measure(self, simulator: Any, tables: Any) -> dict[str, float]:  # noqa: ANN401 - as in the base class
        """Return the certified lower bound of the policy's value."""
        return {LOWER_BOUND.name: float(simulator.start @ tables.optimistic)}


@dataclass(frozen=True)
class OfflineVIConfig(PessimisticVIConfig):
    """Pessimistic value iteration on one private release of logged episodes, with a certified value (ours).

    Users 1..K-1 are logged under the behaviour policy, and episode K plays the output policy. The certified lower bound
    holds at any scale; the scales affect the choice of the policy only.

    Args:
        exploration: probability of a uniformly random action of the behaviour policy, in [0, 1]; else it takes an
            optimal one, like an expert. The algorithm does not read it.
    """

    exploration: float = 1.0
    name: ClassVar[str] = "offline_vi"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, UNINFORMED, LOWER_BOUND, VALUE, OPTIMUM_GAP)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("exploration", self.exploration, 0.0)
        if self.exploration > 1.0:
            raise ValueError(f"exploration must be at most 1, got {self.exploration}; it is a share of actions")

    def tables(self, env: FiniteMDP, episodes: int) -> OfflineTables:  # noqa: ARG002
        """Return the behaviour policy, and values of zero."""
        expert = np.eye(env.n_actions)[env.optimum()[1]]
        return OfflineTables.zeros((1.0 - self.exploration) * expert + self.exploration / env.n_actions)

    def measure(self, simulator: Simulator, tables: Any) -> dict[str, float]:  # noqa: ANN401 - as in the base class
        """Return the certified lower bound of the policy's value, that value, and its distance from the optimum."""
        value = float(stochastic_policy_value(simulator, tables.policy))
        return super().measure(simulator, tables) | {
            VALUE.name: value,
            OPTIMUM_GAP.name: max(0.0, simulator.optimal_value - value),
        }
