"""Base of trust models: settings of a config that validate themselves, place the noise, and build the privatizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

from dprl.privacy.base import ADJACENCY, Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.ledger import Journal
from dprl.privacy.mechanisms.gradients import ClippedLaplace
from dprl.privacy.mechanisms.gram_laws import GramGaussian, GramLaplace
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.count_calibration import AUTO
from dprl.privacy.queries.gradient_calibration import GradientLayout
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import Rewards, StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.statistics_calibration import REWARD_SHARE, StatisticsBudget
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import GRADIENT_ADJACENCY
from dprl.privacy.validation import (
    check_budget,
    check_choice,
    check_fields,
    check_positive,
    check_share,
    check_submissions,
)

D = TypeVar("D")
Q = TypeVar("Q", bound=Query)
MET_BY_CERTIFIED = "the requested guarantee, met by the certified "


class Placed(NamedTuple, Generic[Q]):
    """A query with its noise, and the origin of the noise.

    query: with the noise on either side. source: of the scale. calibration: its name. claimed: the guarantee that the
    source claims, None for the requested one. choice: the reason for this noise, if there was a choice. users: the
    whole population, if it is not the number of users who submit.
    """

    query: Q
    source: str = MET_BY_CERTIFIED + "noise"
    calibration: str = "certified"
    claimed: Guarantee | None = None
    choice: str = ""
    users: int | None = None


class TrustModelSettings(ABC, Generic[D, Q]):
    """Settings of a trust model for one query. Subclasses are frozen dataclasses with the keys of a config.

    D is the description of a user's data (families of counts, a layout), Q the query.
    """

    model: ClassVar[TrustModel]
    adjacency: ClassVar[str] = ADJACENCY
    submissions: int = 1
    """T, the maximum of submissions of one user; a setting of models for gradients."""

    @abstractmethod
    def place(self, data: D, n_users: int, streams: Streams, growth: float) -> Placed[Q]:
        """Return the query with its noise. Raises ValueError for settings that do not fit together.

        growth: of the schedule on which a learner reads releases, see `ReleaseSchedule`; 0: after every user. Noise on
        messages alone does not depend on it.
        """

    @property
    def requested(self) -> Guarantee | None:
        """The guarantee that was asked for; None without noise."""
        return None

    def build(
        self, data: D, n_submissions: int, streams: Streams, journal: Journal | None = None, growth: float = 0.0
    ) -> Privatizer[Q]:
        """Return the privatizer of `n_submissions` submissions, by as few users as can send them.

        With one submission each these are users 1..n_submissions, K - 1 for K episodes, because the data of the last
        episode are never used. journal: keeps charges. growth: of the schedule on which the learner plans.

        Raises ValueError for settings that do not fit together.
        """
        if n_submissions < 1:
            raise ValueError(f"n_submissions must be at least 1, got {n_submissions}; run at least 2 episodes")
        n_users = -(-n_submissions // self.submissions)
        placed, requested = self.place(data, n_users, streams, growth), self.requested
        if requested is None:
            request = PrivacyRequest(None, None, "none", "nothing is claimed")
        else:
            claimed = placed.claimed or requested
            request = PrivacyRequest(requested, claimed, placed.calibration, placed.source, placed.choice)
        n_users = n_users if placed.users is None else placed.users
        return Privatizer(placed.query, request, n_users, streams, self.submissions, journal)


@dataclass(frozen=True)
class Budgeted(TrustModelSettings[D, Q]):
    """Settings with a budget.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1).
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_fields(self)
        check_submissions(self.submissions)

    @property
    def requested(self) -> Guarantee:
        """The guarantee that was asked for."""
        return Guarantee(self.model, self.epsilon, self.delta, self.adjacency)


class GradientSettings(TrustModelSettings[GradientLayout, GradientQuery]):
    """Settings of a trust model for gradients; neighbours differ in one agent's environment and all its episodes."""

    adjacency: ClassVar[str] = GRADIENT_ADJACENCY
    release_scores: str
    """Reader of scores: 'simulator' or 'none'."""


@dataclass(frozen=True)
class NoisyGradientSettings(GradientSettings, Budgeted[GradientLayout, GradientQuery]):
    """Settings of noise on gradients; see the trust models.

    Args:
        mechanism: the noise of a gradient, or of an update's sum if a server adds it. 'auto': the least known, for
            algorithms of a paper the paper's, clipped_laplace.
        clip: C > 0; None for 2, with algorithms of a paper for the paper's 0.01, and for 1 with projected_random_sign.
            privunit sends directions: no clip.
        submissions: T, the maximum of submissions of one agent. If an update is summed, no agent is in it twice.
    """

    mechanism: str = AUTO
    clip: float | None = None
    submissions: int = 1
    laws: ClassVar[Sequence[str]]
    """Names of the mechanisms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism", self.mechanism, [*self.laws, AUTO])
        if self.clip is not None:
            check_positive("clip", self.clip, "gradients are shrunk to half of it: write e.g. 2")

    def law_for(self, data: GradientLayout) -> str:
        """Return the name of the mechanism; 'auto' is the paper's for its algorithms, else the one of least noise."""
        if self.mechanism != AUTO:
            return self.mechanism
        return ClippedLaplace.name if data.paper else self._least

    @property
    @abstractmethod
    def _least(self) -> str:
        """Name of the mechanism with the least noise."""


@dataclass(frozen=True)
class StatisticsSettings(Budgeted[StatisticsLayout, StatisticsQuery]):
    """Settings of noise on statistics; see the trust models.

    Args:
        mechanism: the noise; 'auto' becomes gram_gaussian with delta above 0, which has less noise, else gram_laplace.
        reward_share: share of epsilon, or of mu^2 with Gaussian noise, for noisy corrections of the rewards' weights.
        reward_clip: G, the norm to which each correction is clipped.
        stage_scales: whether noise is in proportion to m_h^2, m_h = H - h; otherwise it is the same at all stages.
    """

    mechanism: str = AUTO
    _: KW_ONLY
    reward_share: float = REWARD_SHARE
    reward_clip: float = 1.0
    stage_scales: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism == AUTO:
            object.__setattr__(self, "mechanism", GramGaussian.name if self.delta > 0.0 else GramLaplace.name)
        check_positive("reward_clip", self.reward_clip)
        check_share("reward_share", self.reward_share)

    def _budget(self, rewards: Rewards, streams: Streams) -> StatisticsBudget:
        """Return the guarantee that the noise of one message, or of a counter, must meet.

        Raises ValueError for exact arithmetic.
        """
        if streams.noise.arithmetic == "exact":
            raise ValueError(
                "arithmetic must be fast for statistics, got exact; their noise is proved for real numbers: write "
                "arithmetic: fast"
            )
        return StatisticsBudget(
            self.epsilon, self.delta, self.mechanism, rewards, self.reward_share, self.reward_clip, self.stage_scales
        )
