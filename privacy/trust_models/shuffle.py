"""Trust model shuffle: users randomize their counts, and a trusted shuffler permutes the reports of each block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dprl.privacy.accounting.amplification import local_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.counters import ExactCounter
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.one_hot_encoding import UnaryEncoder
from dprl.privacy.queries.count_calibration import calibrated_report, report_names
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.trust_models.base import Placed, TrustModelSettings
from dprl.privacy.trust_models.counts import CountSettings
from dprl.privacy.validation import check_choice


@dataclass(frozen=True)
class ShufflePrivacy(CountSettings):
    """Shuffle model: every report is epsilon_0-LDP, and the server sees a block's reports in random order only.

    Users between two plans are a block, and no plan is made before a block is full. All reports have the largest
    epsilon_0 for which a block of `smallest_block` users is (epsilon, delta)-DP; blocks with more users prove more.

    *Formal guarantee.* (epsilon, delta)-DP of everything that the server and everyone outside the block see, under
    replacement of one user's trajectory, by `ShuffledLoss`: a user is in one block, whose policy is a function of
    earlier blocks. Without the shuffler, epsilon_0-LDP. The last bits of a float64 sum reveal the order of its terms,
    so noise from the operating system, for real users, must be whole-number noise.

    Args:
        smallest_block: minimum of users shuffled together; the first plan waits for this many.
        families: 'one_hot': a user sends one report.
        mechanism: the randomizer of a report, with a pure guarantee, or 'auto' for the one that detects visits best.

    Paper: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*.
    """

    families: str = "one_hot"
    smallest_block: int = 10_000
    model: ClassVar[TrustModel] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, choices in {
            "calibration": ["certified"],
            "precision": ["exact"],
            "families": ["one_hot"],
            "mechanism": report_names(pure=True),
        }.items():
            check_choice(key, getattr(self, key), choices)
        if self.delta <= 0.0:
            raise ValueError(f"delta must be above 0 with model shuffle, got {self.delta}; add delta: 1e-6")
        block = self.smallest_block
        if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= 10**12:
            raise ValueError(f"smallest_block must be from 1 to 1e12, got {block}; take 10000")

    def place(self, data: CountFamilies, n_users: int, streams: Streams, growth: float) -> Placed[CountQuery]:
        """Return the query with reports for the schedule's blocks; raise ValueError if no block is full."""
        if n_users < self.smallest_block:
            raise ValueError(
                f"smallest_block must be at most {n_users}, the users who send a report, got {self.smallest_block}; "
                "run more episodes, or lower it"
            )
        schedule = ReleaseSchedule(growth, n_users, self.smallest_block)
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


SHUFFLE_PRIVACY: dict[str, type[TrustModelSettings[Any, Any]]] = {CountQuery.name: ShufflePrivacy}
"""Settings by query."""
