"""Base config and learner of the tabular algorithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array, Metric, Releases
from dprl.algorithms.learner import Learner
from dprl.algorithms.tabular.greedy import greedy_tables
from dprl.algorithms.tabular.loop import PlanSchedule, Run, run_in_blocks
from dprl.algorithms.tabular.simulator import ALL_STATES, count_families, narrowed, simulator
from dprl.envs import Env, FiniteMDP
from dprl.envs.checks import require_number
from dprl.privacy import CountFamilies, CountPrivacy, CountPrivatizer, PooledFamilies, Streams
from dprl.privacy.base import check_fields
from dprl.privacy.queries.counts import Released

E = TypeVar("E", bound=Env)

Simulation = Literal["auto", "users", "blocks"]
Preset = Literal["proved", "tuned"]
OF_PRESET = cast("float", None)
"""Default of a scale that takes the preset's value when its config is made."""

_TABLES, _SCHEDULE = "tables.", "schedule."
_MOST_COUNTS = 1_000_000


@dataclass(frozen=True)
class TabularConfig(ABC, Generic[E]):
    """Settings of every tabular algorithm, on environments of class E.

    Args:
        bonus_scale: c >= 0, multiplies the whole exploration bonus; left out, the preset's.
        precision_scale: c_E >= 0, multiplies the error bounds E wherever planning uses them; left out, the preset's.
            Both act after the noise and do not change the privacy guarantee.
        beta: failure probability of the confidence bounds ([CZ22] writes delta), in [1e-20, 1).
        replan_growth: plan again when the number of episodes has grown by this share, on a schedule fixed in advance;
            0 plans before every episode, as printed. No theorem of a paper covers values above 0.
        simulation: 'users' plays users one by one; 'blocks' draws users between two plans at once, with the same law,
            at a cost that does not depend on their number; 'auto' uses blocks wherever possible.
        preset: scales that are not set: 'proved': 1, as in the theorem or the paper; 'tuned': those chosen on the
            training environments of tune_configs/tuning.yaml, which no theorem covers.
    """

    bonus_scale: float = OF_PRESET
    precision_scale: float = OF_PRESET
    beta: float = 0.1
    replan_growth: float = 0.0
    simulation: Simulation = "auto"
    preset: Preset = "proved"
    name: ClassVar[str]
    plays: ClassVar[type[Env]]
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED)
    releases: ClassVar[Releases] = "counts"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    plan: ClassVar[Callable[..., tuple[bool, float]]]
    """The kernel plan(counts: Released, bonus, tables) -> (did the policy change, share of saturated cells)."""
    run: ClassVar[Run]
    """The loop around it, see `learning_loop`."""
    tuned: ClassVar[tuple[float, float] | None] = None
    """bonus_scale and precision_scale of `preset: tuned`; None where they were not tuned."""
    theorem: ClassVar[str | None] = None
    """Theorem that covers the algorithm as printed, if any; in brackets its subject, unless it is the regret."""
    online: ClassVar[bool] = True
    """Whether earlier users' data change later users' policies; if not, there is one release, before the last user."""

    def __post_init__(self) -> None:
        if self.preset == "tuned" and self.tuned is None:
            raise ValueError(f"preset must be proved with {self.name}, got 'tuned'; no scales were tuned: set both")
        scales = self.tuned if self.preset == "tuned" and self.tuned else (1.0, 1.0)
        for key, scale in zip(("bonus_scale", "precision_scale"), scales, strict=True):
            if getattr(self, key) is OF_PRESET:
                object.__setattr__(self, key, scale)
            require_number(key, getattr(self, key), 0.0)
        check_fields(self)
        require_number("beta", self.beta, 1e-20, below=1.0)
        require_number("replan_growth", self.replan_growth, 0.0, below=1e6)

    @abstractmethod
    def families(self, env: E) -> CountFamilies:
        """Return the counts of the algorithm."""

    def growth(self, episodes: int) -> float:
        """Return the growth of the planning schedule; offline it is K - 1: the only plan is before episode K."""
        return self.replan_growth if self.online else float(episodes - 1)

    @abstractmethod
    def simulator(self, env: E, episodes: int, streams: Streams) -> Any:  # noqa: ANN401 - each kind of env has its own
        """Return the environment and its K = `episodes` users, a NamedTuple for the loop's `play` and `regret`.

        Besides `device`, `episodes` and `key` it has identity(): the arrays that identify it.
        """

    @abstractmethod
    def bonus(self, env: E, privatizer: CountPrivatizer, episodes: int) -> Any:  # noqa: ANN401 - each has its own
        """Return the numbers of the exploration bonus, a NamedTuple for `plan`."""

    def bonus_of_run(self, env: E, privatizer: CountPrivatizer, episodes: int, streams: Streams) -> Any:  # noqa: ANN401
        """Return `bonus` for one run; planners with random draws get their stream here."""
        del streams
        return self.bonus(env, privatizer, episodes)

    @abstractmethod
    def tables(self, env: E, episodes: int) -> Any:  # noqa: ANN401
        """Return the tables of planning: a NamedTuple of arrays; `plan` writes two of them for readers.

        policy: the one to deploy; optimistic float64[S]: the upper bounds of the first step's values.
        """

    def measure(self, simulator: Any, tables: Any) -> dict[str, float]:  # noqa: ANN401, ARG002
        """Return metrics of the current tables, computed on the known environment."""
        return {}

    def policy(self, tables: Any) -> Int64Array | Float64Array:  # noqa: ANN401
        """Return a copy of the policy deployed last."""
        policy: Int64Array | Float64Array = tables.policy.copy()
        return policy

    def policies(self, tables: Any) -> dict[str, np.ndarray]:  # noqa: ANN401
        """Return copies of the output of a finished run."""
        return {"policy": self.policy(tables)}

    @property
    def covered_by(self) -> str | None:
        """Theorem that covers all runs with these settings; None if no theorem does."""
        printed = self.bonus_scale == 1.0 and self.precision_scale == 1.0 and self.replan_growth == 0.0
        return self.theorem if printed else None

    def covered(self, env: E, privatizer: CountPrivatizer, episodes: int) -> str | None:  # noqa: ARG002
        """Return the theorem that covers a run; it may depend on the noise."""
        return self.covered_by

    def derived(self, env: E, privatizer: CountPrivatizer, episodes: int) -> dict[str, float]:  # noqa: ARG002
        """Return the numbers that follow from these settings, the noise and the sizes of a run."""
        return {}

    def privatizer(self, env: E, privacy: CountPrivacy, episodes: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer of the counts of users 1..K-1: no later policy could use the last user's counts."""
        growth = self.growth(episodes)
        privatizer = privacy.build(self.families(env), episodes - 1, streams, growth=growth)
        planned = growth > 0.0 or privatizer.query.shuffled
        possible = planned and privatizer.draws_blocks and self.run.add_block is not None
        if self.simulation == "blocks" and not possible:
            needed = "replan_growth above 0, entropy: seed, and messages with a known law of their sum"
            raise ValueError(f"simulation must be users here, got blocks; users are drawn at once with {needed}")
        if possible and self.simulation != "users":
            privatizer.simulate_in_blocks()
        return privatizer

    def build(self, env: E, privatizer: CountPrivatizer, episodes: int, streams: Streams) -> TabularLearner:
        """Return a fresh learner."""
        return TabularLearner(self, env, privatizer, episodes, streams)


class TabularLearner(Learner):
    """Tabular algorithm on one environment.

    *Formal guarantee.* The privatizer's: all plans are functions of the counts it released.
    """

    config: TabularConfig[Any]
    privatizer: CountPrivatizer

    def __init__(
        self, config: TabularConfig[E], env: E, privatizer: CountPrivatizer, episodes: int, streams: Streams
    ) -> None:
        if privatizer.query.families != config.families(env):
            rule = "the privatizer must be built for this environment"
            raise ValueError(f"{rule}, got {privatizer.query.families.n_cells} cells; use config.privatizer")
        self._simulator = config.simulator(env, episodes, streams)
        super().__init__(config, privatizer, episodes, streams, self._simulator.identity())
        self.theorem = config.covered(env, privatizer, episodes)
        self._derived = config.derived(env, privatizer, episodes)
        # A separate simulator for metrics: its device has never held a user's episode.
        self._unplayed = config.simulator(env, episodes, streams)
        self._bonus = config.bonus_of_run(env, privatizer, episodes, streams)
        self._tables = config.tables(env, episodes)
        releases = privatizer.query.schedule
        block = 1 if releases is None else releases.block
        self._schedule = PlanSchedule(config.growth(episodes), block, np.array([1, 1], dtype=np.int64), np.zeros(1))
        self._plan(privatizer.release(), self._tables)

    @property
    def policy(self) -> Int64Array | Float64Array:
        """The policy deployed last: actions int64[H, S], or probabilities float64, [H, S, A] or those of a game.

        Before the first episode it is the policy planned from zero counts.
        """
        return self.config.policy(self._tables)

    @property
    def policies(self) -> dict[str, np.ndarray]:
        return self.config.policies(self._tables)

    @property
    def derived(self) -> dict[str, float]:
        return self._derived

    def plan(self, counts: Released) -> Int64Array | Float64Array:
        """Return the next policy; private counts are the only input."""
        tables = type(self._tables)(*(table.copy() for table in self._tables))
        self._plan(counts, tables)
        return self.config.policy(tables)

    def _plan(self, counts: Released, tables: Any) -> None:  # noqa: ANN401
        new = counts.users + 1 - int(self._schedule.planned[0])
        self.config.plan(counts._replace(new=new), self._bonus, tables)

    def _run(self, first: int, last: int) -> dict[str, float]:
        run, state = self.config.run, (self._bonus, self._tables, self._schedule)
        if self.privatizer.in_blocks and run.add_block is not None:
            regret, saturated = run_in_blocks(run, self._simulator, self.privatizer, state, first, last)
        else:
            regret, saturated = run(self._simulator, self.privatizer.channel, *state, first, last)
        sums_and_means = {REGRET.name: regret} if REGRET in self.config.metrics else {}
        at_end = any(metric.name == SATURATED.name and metric.over == "last" for metric in self.config.metrics)
        mean = saturated / (last - first + 1)
        sums_and_means[SATURATED.name] = float(self._schedule.saturated[0]) if at_end else mean
        return sums_and_means | self.config.measure(self._unplayed, self._tables)

    def _arrays(self) -> dict[str, np.ndarray]:
        tables = {_TABLES + name: array for name, array in self._tables._asdict().items()}
        schedule = {_SCHEDULE + "planned": self._schedule.planned, _SCHEDULE + "saturated": self._schedule.saturated}
        return tables | schedule


@dataclass(frozen=True)
class TabularMDPConfig(TabularConfig[FiniteMDP]):
    """The settings of every tabular algorithm on finite MDPs."""

    plays: ClassVar[type[Env]] = FiniteMDP
    weighs_counts: ClassVar[bool] = False
    """Whether planning needs error bounds of weighted sums of counts, which no paper prints."""

    def privatizer(self, env: FiniteMDP, privacy: CountPrivacy, episodes: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer of the counts of users 1..K-1.

        Raises ValueError if there are too many counts, or if their error bounds must be exact and are not.
        """
        counts = self.families(env).block
        if counts > _MOST_COUNTS:
            raise ValueError(
                f"env must have at most {_MOST_COUNTS:,} counts a step with {self.name}, got {counts:,} of "
                f"{env.n_states} states; take bernstein_vi with known_transitions: true, or a smaller environment"
            )
        privatizer = super().privatizer(env, privacy, episodes, streams)
        if self.weighs_counts and privatizer.query.printed is not None:
            rule = f"precision must be exact with {self.name}"
            raise ValueError(f"{rule}, got 'printed'; no paper prints a bound for weighted sums")
        return privatizer

    @property
    def counts_losses(self) -> bool:
        """Whether users count losses 1 - r instead of rewards."""
        return False

    def families(self, env: FiniteMDP) -> CountFamilies:
        found, successors = count_families(env, self.counts_losses), self.successors(env)
        return narrowed(found, successors) if successors.shape[0] > 0 else found

    def simulator(self, env: FiniteMDP, episodes: int, streams: Streams) -> Any:  # noqa: ANN401 - as in the base class
        return simulator(env, episodes, streams, self.counts_losses, self.successors(env))

    def successors(self, env: FiniteMDP) -> Int64Array:  # noqa: ARG002
        """Return the counted next states, see `possible_successors`; all unless the possible ones are known."""
        return ALL_STATES

    def tables(self, env: FiniteMDP, episodes: int) -> Any:  # noqa: ANN401, ARG002 - algorithms may have others
        return greedy_tables(env)


@dataclass(frozen=True)
class StationaryMDPConfig(TabularMDPConfig):
    """Settings of algorithms that can pool the counts of all steps.

    Args:
        stationary: the environment is known to be the same at every step; counts are summed over steps. Refused on any
            other environment. The guarantee does not depend on it.
    """

    stationary: bool = False

    def families(self, env: FiniteMDP) -> CountFamilies:
        """Return transitions, visits, and rewards or losses. Raises ValueError if steps differ and are pooled."""
        found = super().families(env)
        if not self.stationary:
            return found
        if not env.stationary:
            reason = "its transitions or rewards differ between steps, or its log was written without stationary=True"
            raise ValueError(f"stationary must be false on {env.name}, got true; {reason}")
        return PooledFamilies(found.n_steps, found.families, ranked=found.ranked)

    def layers(self, env: FiniteMDP) -> int:
        """Return the number of steps with separate counts."""
        return 1 if self.stationary else env.horizon
