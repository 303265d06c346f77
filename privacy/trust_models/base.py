"""Base of trust models: settings of a config that validate themselves, place the noise, and build the privatizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

from dprl.privacy.base import ADJACENCY, Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.ledger import Journal
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.gradient_calibration import GradientLayout
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import GRADIENT_ADJACENCY
from dprl.privacy.validation import check_budget, check_fields, check_submissions

D = TypeVar("D")
Q = TypeVar("Q", bound=Query)


class Placed(NamedTuple, Generic[Q]):
    """A query with its noise, and the origin of the noise.

    query: with the noise on either side. source: of the scale. calibration: its name. claimed: the guarantee that the
    source claims, None for the requested one. choice: the reason for this noise, if there was a choice. users: the
    whole population, if it is not the number of users who submit.
    """

    query: Q
    source: str = "the requested guarantee, met by the certified noise"
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
    def place(self, data: D, n_users: int, streams: Streams) -> Placed[Q]:
        """Return the query with its noise. Raises ValueError for settings that do not fit together."""

    def place_on_schedule(self, data: D, n_users: int, streams: Streams, growth: float) -> Placed[Q]:  # noqa: ARG002
        """Return the query for a learner that reads releases on a schedule, see `ReleaseSchedule`; 0: after every user.

        By default it is that of `place`, because noise on messages does not depend on releases.
        """
        return self.place(data, n_users, streams)

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
        placed, requested = self.place_on_schedule(data, n_users, streams, growth), self.requested
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
    """Reader of scores: 'simulator', 'private' (randomized bits are sent) or 'none'."""
