"""What is released, as data; charged before it happens, refused when it is not understood."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dprl.privacy.accounting.closed_forms import composed_delta, composed_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.mechanisms.laplace import Laplace


class LedgerError(RuntimeError):
    """A release that the ledger refuses: unknown, out of order, or a user's second submission."""


@dataclass(frozen=True)
class Release:
    """One channel by which users' data leave their side, described by the noise object that serves it.

    Args:
        channel: name of the count family.
        noise: the mechanism that randomises each released number, or None: the data leave as they are.
        nodes_per_user: how many released numbers of a cell one user's row enters.
        changed_cells: how many cells a replaced user changes at most, each by at most 1.
        changed_l1_public_start: their L1 change if the first state and action are public.
        cells: how many counters the channel has.
        entropy: 'seeded' or 'os'.
    """

    channel: str
    noise: Laplace | None
    nodes_per_user: int
    changed_cells: int
    changed_l1_public_start: int
    cells: int
    entropy: str

    @property
    def losses(self) -> int:
        """How many noisy numbers change for a replaced user, each by at most 1."""
        return self.changed_cells * self.nodes_per_user

    def __post_init__(self) -> None:
        if self.noise is not None and type(self.noise) is not Laplace:
            raise LedgerError(f"the ledger cannot account for a release by {self.noise!r}; add its privacy curve first")
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
        return len(self._scales()) == 1 and all(release.cells >= release.changed_cells for release in self._releases)

    @property
    def has_raw_release(self) -> bool:
        """Whether something leaves without noise."""
        return any(release.noise is None for release in self._releases)

    def pure_epsilon(self) -> float:
        """Return the proved pure epsilon of one user: sum of changed cells * nodes / scale; inf with a raw release."""
        return sum(_pure_epsilon(release, release.losses) for release in self._releases)

    def pure_epsilon_public_start(self) -> float:
        """Return the same when the first state and the first action of every user are public."""
        return sum(
            _pure_epsilon(release, release.changed_l1_public_start * release.nodes_per_user)
            for release in self._releases
        )

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta` (randomised-response composition; an upper bound)."""
        return math.inf if self.has_raw_release else composed_epsilon(delta, *self._unit_losses())

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 with a raw release."""
        return 1.0 if self.has_raw_release else composed_delta(epsilon, *self._unit_losses())

    def _unit_losses(self) -> tuple[int, float]:
        """How many numbers a user enters, and the largest loss of one (exact when all scales are equal)."""
        return sum(release.losses for release in self._releases), 1.0 / min(self._scales())

    def _scales(self) -> set[float]:
        return {release.noise.scale for release in self._releases if release.noise is not None}


def _pure_epsilon(release: Release, l1: float) -> float:
    return math.inf if release.noise is None else release.noise.pure_epsilon(l1)
