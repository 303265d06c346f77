"""What is released, as data; charged before it happens, refused when it is not understood."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dprl.privacy.accounting import composed_delta, composed_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.laplace import Laplace

RAW = "raw"


class LedgerError(RuntimeError):
    """A release that the ledger refuses: unknown, out of order, or a user's second submission."""


@dataclass(frozen=True)
class Release:
    """One channel by which users' data leave their side, described by the noise object that serves it.

    Args:
        channel: name of the count family.
        mechanism: 'laplace' or 'raw'.
        scale: the Laplace scale b; 0 for raw.
        nodes_per_user: how many released numbers of a cell one user's row enters.
        changed_cells: how many cells a replaced user changes at most, each by at most 1.
        changed_l1_public_start: their L1 change if the first state and action are public.
        cells: how many counters the channel has.
        arithmetic: 'integer', 'grid' or 'float64-idealised'.
        entropy: 'seeded' or 'os'.
    """

    channel: str
    mechanism: str
    scale: float
    nodes_per_user: int
    changed_cells: int
    changed_l1_public_start: int
    cells: int
    arithmetic: str
    entropy: str

    def __post_init__(self) -> None:
        if self.mechanism not in (Laplace.name, RAW):
            raise LedgerError(
                f"the ledger cannot account for a {self.mechanism!r} release; add its privacy curve first"
            )
        if self.mechanism == Laplace.name and not (math.isfinite(self.scale) and self.scale > 0):
            raise LedgerError(f"a Laplace release needs a finite scale above 0, got {self.scale}")
        if min(self.nodes_per_user, self.changed_cells, self.cells) < 1:
            raise LedgerError(f"a release has at least 1 node, 1 changed cell and 1 cell, got {self}")
        if not 0 <= self.changed_l1_public_start <= self.changed_cells:
            raise LedgerError(f"a public start cannot change more than {self.changed_cells} cells, got {self}")


class Ledger:
    """All releases of one run and how many users they have been charged for; every user is charged at most once."""

    def __init__(self, trust_model: TrustModel, releases: Iterable[Release]) -> None:
        self._trust_model: TrustModel = trust_model
        self._releases = tuple(releases)
        if not self._releases:
            raise LedgerError("a ledger without releases proves nothing; pass the privatizer's releases")
        self._users_charged = 0

    @property
    def trust_model(self) -> TrustModel:
        """The trust model that the releases belong to."""
        return self._trust_model

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases; every user takes part in each."""
        return self._releases

    @property
    def users_charged(self) -> int:
        """How many users, from the first on, have been charged."""
        return self._users_charged

    def charge(self, first_user: int, last_user: int) -> None:
        """Record, before it happens, that users first..last (1-based, inclusive) submit once each.

        Raises:
            LedgerError: if a user of the range was charged before, or users would be left out.
        """
        if first_user != self._users_charged + 1:
            raise LedgerError(f"user {first_user} cannot submit: users up to {self._users_charged} are charged already")
        self._users_charged = max(self._users_charged, last_user)

    @property
    def attained(self) -> bool:
        """Whether some pair of neighbours attains the pure epsilon: one scale, two cells or more per step."""
        one_scale = len({release.scale for release in self._releases}) == 1
        return one_scale and all(release.cells >= release.changed_cells for release in self._releases)

    @property
    def has_raw_release(self) -> bool:
        """Whether something leaves without noise."""
        return any(release.mechanism == RAW for release in self.releases)

    def pure_epsilon(self) -> float:
        """Return the proved pure epsilon of one user: sum of changed cells * nodes / scale; inf with a raw release."""
        if self.has_raw_release:
            return float("inf")
        return sum(r.changed_cells * r.nodes_per_user / r.scale for r in self.releases)

    def pure_epsilon_public_start(self) -> float:
        """Return the same when the first state and the first action of every user are public."""
        if self.has_raw_release:
            return float("inf")
        return sum(r.changed_l1_public_start * r.nodes_per_user / r.scale for r in self.releases)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta` (randomised-response composition; an upper bound)."""
        if self.has_raw_release:
            return float("inf")
        return composed_epsilon(delta, *self._unit_losses())

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 with a raw release."""
        if self.has_raw_release:
            return 1.0
        return composed_delta(epsilon, *self._unit_losses())

    def _unit_losses(self) -> tuple[int, float]:
        """How many numbers a user enters, and the largest loss of one (exact when all scales are equal)."""
        n = sum(release.changed_cells * release.nodes_per_user for release in self.releases)
        return n, max(1.0 / release.scale for release in self.releases)
