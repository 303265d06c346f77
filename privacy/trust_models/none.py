"""Trust model none: the non-private algorithm without any noise, with an infinite epsilon on the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dprl.privacy.base import TrustModel
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms.gram_base import RawGram
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradient_calibration import GradientLayout
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.trust_models.base import GradientSettings, Placed, TrustModelSettings
from dprl.privacy.validation import check_fields, check_positive


@dataclass(frozen=True)
class NoPrivacy(TrustModelSettings[CountFamilies, CountQuery]):
    """Exact counts."""

    model: ClassVar[TrustModel] = "none"

    def place(self, data: CountFamilies, n_users: int, streams: Streams, growth: float) -> Placed[CountQuery]:
        """Return the query without noise."""
        del streams, growth
        return Placed(CountQuery(CountEncoding(data), NoiseSpec(None, ExactCounter(n_users))))


@dataclass(frozen=True)
class NoGradientPrivacy(GradientSettings):
    """Clipped gradients without noise.

    Args:
        clip_norm: norm of the ball into which gradients are shrunk: 'l1', 'l2', 'elementwise', or 'none' for no clip.
            'auto': 'l2', with algorithms of a paper the paper's 'l1'.
        clip: C > 0, of a ball of radius C / 2; None for the same as with privacy.
        release_scores: 'simulator': raw scores are read; 'none': they are not read.
    """

    clip_norm: Literal["auto", "none", "l1", "l2", "elementwise"] = "auto"
    clip: float | None = None
    release_scores: Literal["simulator", "none"] = "simulator"
    model: ClassVar[TrustModel] = "none"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.clip is not None:
            check_positive("clip", self.clip, "gradients are shrunk to half of it: write e.g. 2")

    def place(self, data: GradientLayout, n_users: int, streams: Streams, growth: float) -> Placed[GradientQuery]:
        """Return the query without noise."""
        del n_users, streams, growth
        norm = self.clip_norm if self.clip_norm != "auto" else "l1" if data.paper else "l2"
        law = RawVector(data.dimension, norm, data.clip("", self.clip))
        return Placed(GradientQuery(law, release_scores=self.release_scores, left_open=data.left_open))


@dataclass(frozen=True)
class NoStatisticsPrivacy(TrustModelSettings[StatisticsLayout, StatisticsQuery]):
    """Statistics without noise.

    Args:
        rewards: 'open': corrections are sent without noise; 'public': rewards are known, and none are sent.
        clipping: 'device': features and values are clipped as with privacy; 'none': no clips, as in [TH23].
    """

    rewards: Literal["public", "open"] = "open"
    clipping: Literal["device", "none"] = "none"
    model: ClassVar[TrustModel] = "none"

    def __post_init__(self) -> None:
        check_fields(self)

    def place(self, data: StatisticsLayout, n_users: int, streams: Streams, growth: float) -> Placed[StatisticsQuery]:
        """Return the query without noise."""
        del n_users, streams, growth
        return Placed(StatisticsQuery(data, RawGram(data.release(self.clipping == "device")), self.rewards))


NO_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {
    CountQuery.name: NoPrivacy,
    GradientQuery.name: NoGradientPrivacy,
    StatisticsQuery.name: NoStatisticsPrivacy,
}
"""Settings by query."""
