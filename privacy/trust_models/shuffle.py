"""Trust model shuffle: users randomize their reports, and a trusted shuffler permutes the reports of each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

from dprl.privacy.accounting.composition import repeat
from dprl.privacy.accounting.root_finding import inside
from dprl.privacy.accounting.shuffling import local_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.gram_laws import GramLaplace
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder
from dprl.privacy.mechanisms.projected_random_sign import Scaling
from dprl.privacy.queries.count_calibration import calibrated_report, report_names
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradient_calibration import PURE_LAWS, GradientBudget, GradientLayout, vector_law
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.statistics_calibration import certified_statistics
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.trust_models.base import (
    Budgeted,
    D,
    NoisyGradientSettings,
    Placed,
    Q,
    StatisticsSettings,
    TrustModelSettings,
)
from dprl.privacy.trust_models.counts import CountSettings
from dprl.privacy.validation import check_choice


@dataclass(frozen=True)
class _InBlocks(Budgeted[D, Q]):
    """Settings of blocks of shuffled messages.

    Args:
        smallest_block: minimum of users shuffled together; the first plan waits for this many.
    """

    smallest_block: int = 10_000
    model: ClassVar[TrustModel] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, choices in self._choices().items():
            check_choice(key, getattr(self, key), choices)
        _check_delta(self.delta)
        block = self.smallest_block
        if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= 10**12:
            raise ValueError(f"smallest_block must be from 1 to 1e12, got {block}; take 10000")

    def _choices(self) -> dict[str, list[str]]:
        """Return the values that settings of other trust models may have here."""
        return {}

    def _schedule(self, growth: float, n_users: int) -> ReleaseSchedule:
        """Return the schedule of blocks; raise ValueError if none is full."""
        if n_users < self.smallest_block:
            raise ValueError(
                f"smallest_block must be at most {n_users}, the users who send a report, got {self.smallest_block}; "
                "run more episodes, or lower it"
            )
        return ReleaseSchedule(growth, n_users, self.smallest_block)


@dataclass(frozen=True)
class ShufflePrivacy(_InBlocks[CountFamilies, CountQuery], CountSettings):
    """Shuffle model: every report is epsilon_0-LDP, and the server sees a block's reports in random order only.

    Users between two plans are a block, and no plan is made before a block is full. All reports have the largest
    epsilon_0 for which a block of `smallest_block` users is (epsilon, delta)-DP; blocks with more users prove more.

    *Formal guarantee.* (epsilon, delta)-DP of everything that the server and everyone outside the block see, under
    replacement of one user's trajectory, by `ShuffledLoss`: a user is in one block, whose policy is a function of
    earlier blocks. Without the shuffler, epsilon_0-LDP. The last bits of a float64 sum reveal the order of its terms,
    so noise from the operating system, for real users, must be whole-number noise.

    Args:
        families: 'one_hot': a user sends one report.
        mechanism: the randomizer of a report, with a pure guarantee, or 'auto' for the one that detects visits best.

    Paper: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    families: str = "one_hot"

    def _choices(self) -> dict[str, list[str]]:
        one = {"calibration": ["certified"], "precision": ["exact"], "families": ["one_hot"]}
        return {**one, "mechanism": report_names(pure=True)}

    def place(self, data: CountFamilies, n_users: int, streams: Streams, growth: float) -> Placed[CountQuery]:
        """Return the query with reports for the schedule's blocks; raise ValueError if no block is full."""
        schedule = self._schedule(growth, n_users)
        placed = super().place(data, n_users, streams, growth)
        return placed._replace(query=replace(placed.query, schedule=schedule, shuffled=True))

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        each = local_epsilon(self.epsilon, self.delta, self.smallest_block)
        budget = replace(self._budget(encoding, n_users, streams), epsilon=each, delta=0.0)
        report, why = calibrated_report(self.mechanism, budget)
        whole = report.arithmetic == INTEGER and not isinstance(report, UnaryEncoder)
        if streams.noise.entropy == "os" and not whole:
            raise ValueError(
                f"mechanism must be discrete_laplace with model shuffle and entropy: os, got {self.mechanism!r}; write "
                "it, as the rounding of a sum in float64 reveals the order of the reports"
            )
        told = f"reports of epsilon {each:.4g} in blocks of {self.smallest_block} users or more"
        return NoiseSpec(report, ExactCounter(n_users)), "; ".join(filter(None, [told, why]))


@dataclass(frozen=True)
class ShuffleGradientPrivacy(NoisyGradientSettings):
    """Shuffle model: every message is epsilon_0-LDP, and the server sees an update's messages in random order only.

    The messages of one update are a block. All have the largest epsilon_0 for which an agent's T blocks are together
    (epsilon, delta)-DP.

    *Formal guarantee.* (epsilon, delta)-DP of everything that the server and everyone else see of one agent's
    `submissions` adaptive submissions, for any two environments and all their episodes, by `ShuffledLoss` composed T
    times. An agent is in at most T different updates. All agents of an update use the same randomizer. Their gradients
    may differ arbitrarily, and so may their starting parameters, which are functions of earlier updates. The server
    reads only sums of full updates. Without the shuffler, T epsilon_0-LDP.

    Args:
        mechanism: the randomizer of a gradient, with a pure guarantee.
        scaling: of the estimate of projected_random_sign: 'paper' or 'unbiased'.
        release_scores: 'simulator': raw scores are read outside the guarantee; 'none': they are not read.

    Paper: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    scaling: Scaling = "paper"
    release_scores: Literal["simulator", "none"] = "simulator"
    laws: ClassVar[Sequence[str]] = PURE_LAWS
    model: ClassVar[TrustModel] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_delta(self.delta)

    def place(self, data: GradientLayout, n_users: int, streams: Streams, growth: float) -> Placed[GradientQuery]:
        """Return the query with noise on every message, for updates of `window` messages."""
        del growth
        if data.window < 2:
            raise ValueError(
                f"messages of an update must be at least 2 with model shuffle, got {data.window}; they are shuffled: "
                "take 1000"
            )
        if data.window > n_users:
            raise ValueError(
                f"messages of an update must be at most the number of agents with model shuffle, {n_users}, got "
                f"{data.window}; no agent is twice in an update: lower them, or submissions"
            )

        law = self.law_for(data)

        def query(each: float) -> GradientQuery:
            budget = GradientBudget(each, 0.0, 1, data.dimension, streams.noise.arithmetic == "exact")
            return GradientQuery(
                vector_law(law, budget, data.clip(law, self.clip), self.scaling),
                release_scores=self.release_scores,
                left_open=data.left_open,
                window=data.window,
                shuffled=True,
            )

        return _least_noise(query, self, data.window, f"updates of {data.window}")


@dataclass(frozen=True)
class ShuffleStatisticsPrivacy(_InBlocks[StatisticsLayout, StatisticsQuery], StatisticsSettings):
    """Shuffle model: every message is epsilon_0-LDP, and the server sees a block's messages in random order only.

    Users between two plans are a block, and no plan is made before a block is full. A user's Gram matrices and
    corrections are one message. For seeded simulations only, because the last bits of a float64 sum reveal the order of
    its terms.

    *Formal guarantee.* (epsilon, delta)-DP of everything that the server and everyone outside the block see, under
    replacement of one user's trajectory, by `ShuffledLoss`: a user is in one block, whose policy and values V are
    functions of earlier blocks. Without the shuffler, epsilon_0-LDP.

    Args:
        mechanism: 'gram_laplace', which has a pure guarantee.
        rewards: 'noisy': corrections of the rewards' weights are sent, and reward_share is a share of epsilon_0;
            'public': rewards are known.

    Paper: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    mechanism: str = GramLaplace.name
    _: KW_ONLY
    rewards: Literal["noisy", "public"] = "noisy"

    def _choices(self) -> dict[str, list[str]]:
        return {"mechanism": [GramLaplace.name]}

    def place(self, data: StatisticsLayout, n_users: int, streams: Streams, growth: float) -> Placed[StatisticsQuery]:
        """Return the query with messages for the schedule's blocks; raise ValueError if no block is full."""
        schedule = self._schedule(growth, n_users)
        if streams.noise.entropy == "os":
            raise ValueError(
                "model must be ldp or jdp with statistics and entropy: os, got 'shuffle'; choose one: the rounding of "
                "a sum in float64 reveals the order of the messages"
            )

        def query(each: float) -> StatisticsQuery:
            budget = self._budget(each, 0.0, self.rewards, streams)
            return replace(certified_statistics(budget, data), schedule=schedule, shuffled=True)

        return _least_noise(query, self, self.smallest_block, f"blocks of {self.smallest_block} users or more")


def _least_noise(
    query: Callable[[float], Q], privacy: ShuffleGradientPrivacy | ShuffleStatisticsPrivacy, block: int, blocks: str
) -> Placed[Q]:
    """Return the query with messages of the largest epsilon_0 that meets the budget in blocks of this size."""
    each = local_epsilon(privacy.epsilon, privacy.delta, block, privacy.submissions)
    epsilon, delta = inside(privacy.epsilon, privacy.delta)
    while True:
        found = query(each)
        (event,) = found.events("")
        # The law's own epsilon_0 is slightly smaller, and the bound is no smooth function of it.
        if repeat(event.curve(), privacy.submissions).delta(epsilon) <= delta:
            return Placed(found, choice=f"messages of epsilon {each:.4g} in {blocks}")
        each *= 1.0 - 2.0**-12


def _check_delta(delta: float) -> None:
    if delta <= 0.0:
        raise ValueError(f"delta must be above 0 with model shuffle, got {delta}; add delta: 1e-6")


SHUFFLE_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {
    CountQuery.name: ShufflePrivacy,
    GradientQuery.name: ShuffleGradientPrivacy,
    StatisticsQuery.name: ShuffleStatisticsPrivacy,
}
"""Settings by query."""
