"""Trust model shuffle: users randomise their reports, and a trusted shuffler permutes those of a block of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dprl.privacy.accounting.shuffling import local_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.count_calibration import calibrated_report, report_names
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.printed import PrintedLemma, PrintedPrivatizers
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.trust_models.base import Placed, TrustModelSettings
from dprl.privacy.trust_models.counts import CountSettings
from dprl.privacy.validation import check_choice


@dataclass(frozen=True)
class ShufflePrivacy(CountSettings):
    """Shuffle model: every report is epsilon_0-LDP, and the server sees those of a block in a random order only.

    Users between two plans are a block, and no plan comes before a block is full. All reports have the largest
    epsilon_0 at which a block of `smallest_block` users is (epsilon, delta)-DP; blocks with more users prove more.

    *Formal guarantee.* (epsilon, delta)-DP of all that the server and everyone else see, under replacement of one
    user's trajectory, by `ShuffledLoss`: a user is in one block, whose policy is a function of earlier blocks. Without
    the shuffler, epsilon_0-LDP.

    Args:
        epsilon: in [1e-9, 1e9]. delta: in [1e-15, 1).
        families: 'one_hot': a user sends one report.
        mechanism: the randomiser of a report, with a pure guarantee, or 'auto' for the one with the smallest variance.
        smallest_block: how many users are shuffled together at least; the first plan waits for as many.

    Paper: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    families: str = "one_hot"
    smallest_block: int = 10_000
    model: ClassVar[TrustModel] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("calibration", self.calibration, ["certified"])
        check_choice("precision", self.precision, ["exact"])
        check_choice("families", self.families, ["one_hot"])
        check_choice("mechanism", self.mechanism, report_names())
        if self.delta <= 0.0:
            raise ValueError(f"delta must be above 0 with model shuffle, got {self.delta}; add delta: 1e-6")
        if isinstance(self.smallest_block, bool) or not 1 <= self.smallest_block <= 10**12:
            raise ValueError(f"smallest_block must be from 1 to 1e12, got {self.smallest_block}; take 10000")

    def place(self, data: CountFamilies, n_users: int, streams: Streams) -> Placed[CountQuery]:
        """Return the query for a learner that plans once a block."""
        return self.place_on_schedule(data, n_users, streams, 0.0)

    def place_on_schedule(
        self, data: CountFamilies, n_users: int, streams: Streams, growth: float
    ) -> Placed[CountQuery]:
        """Return the query with reports for blocks of the schedule; raise ValueError if not even one block is full."""
        if n_users < self.smallest_block:
            raise ValueError(
                f"smallest_block must be at most {n_users}, the users who send a report, got {self.smallest_block}; "
                "run more episodes, or lower it"
            )
        placed = super().place(data, n_users, streams)
        schedule = ReleaseSchedule(growth, n_users, self.smallest_block)
        return placed._replace(query=replace(placed.query, schedule=schedule, shuffled=True))

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        each = local_epsilon(self.epsilon, self.delta, self.smallest_block)
        budget = replace(self._budget(encoding, n_users, streams), epsilon=each, delta=0.0)
        report, why = calibrated_report(self.mechanism, budget)
        told = f"reports of epsilon {each:.4g} in blocks of {self.smallest_block} users or more"
        return NoiseSpec(report, ExactCounter(n_users)), "; ".join(filter(None, [told, why]))

    @staticmethod
    def _lemma(printed: PrintedPrivatizers) -> PrintedLemma:
        raise NotImplementedError(printed)

    def _printed_noise(self, node: Laplace, n_users: int) -> NoiseSpec:
        raise NotImplementedError(node, n_users)


SHUFFLE_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {CountQuery.name: ShufflePrivacy}
