"""What is released, as data; charged before it happens, refused when it is not understood."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.accounting.curves import PrivacyCurve, Unbounded
from dprl.privacy.base import LedgerError, Scope, TrustModel
from dprl.privacy.mechanisms import GRAMS, MECHANISMS, VECTORS, BitMechanism, MessageMechanism
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.unary_report import UnaryReport

_MESSAGES = (*VECTORS.values(), *GRAMS.values())


def accounted(mechanism: type) -> bool:
    """Whether a ledger knows the privacy curve of a mechanism; anything that is not registered is refused."""
    return mechanism in (*MECHANISMS.values(), UnaryReport)


@dataclass(frozen=True)
class Release:
    """One channel by which users' data leave their side, described by the object that randomises it.

    Args:
        channel: name of the count family, or of what else is released.
        mechanism: what randomises each released number, or None: the data leave as they are.
        sensitivity: how much all that it randomises changes if one user is replaced, the worst one; None for a
            mechanism of whole messages, which bounds it itself, and where the data leave as they are.
        public_start: the same if the first state and action are public; None if nothing changes then.
        attainable: whether some pair of neighbours changes that much.
        nodes_per_user: how many randomised numbers of a cell a user enters at most.
        cells: how many counters the channel has.
        entropy: 'seeded' or 'os'.
    """

    channel: str
    mechanism: Mechanism | BitMechanism | UnaryReport | MessageMechanism | None
    sensitivity: Sensitivity | None
    public_start: Sensitivity | None
    attainable: bool
    nodes_per_user: int
    cells: int
    entropy: str

    def __post_init__(self) -> None:
        if self.mechanism is not None and not accounted(type(self.mechanism)):
            raise LedgerError(f"the ledger cannot account for a release by {self.mechanism!r}; give it a privacy curve")
        if min(self.nodes_per_user, self.cells) < 1:
            raise LedgerError(f"a release has at least 1 node and 1 cell, got {self}")
        whole, part = self.sensitivity, self.public_start
        if (whole is None) != (self.mechanism is None or type(self.mechanism) in _MESSAGES):
            raise LedgerError(f"a release has a sensitivity unless its mechanism bounds it itself, got {self}")
        if whole and part and not part.within(whole):
            raise LedgerError(f"a public start cannot change more than {whole}, got {part}")

    @staticmethod
    def of_message(channel: str, mechanism: MessageMechanism, attainable: bool, cells: int, entropy: str) -> Release:
        """Return the release of one submission of a mechanism that bounds its own sensitivity.

        Its curve is that of one submission: one vector, or all messages of an episode, to all agents, for a Gram
        mechanism. `attainable`: whether some pair of inputs loses as much as the curve's pure epsilon; `cells`: how
        many numbers a submission has.
        """
        return Release(channel, mechanism, None, None, attainable, 1, cells, entropy)

    def curve(self) -> PrivacyCurve:
        """Return what this release proves of one user."""
        return self._curve_at(self.sensitivity)

    def pure_epsilon_public_start(self) -> float:
        """Return the pure epsilon if the first state and action are public."""
        if self.sensitivity is None:
            return self.curve().pure_epsilon
        return 0.0 if self.public_start is None else self._curve_at(self.public_start).pure_epsilon

    def _curve_at(self, sensitivity: Sensitivity | None) -> PrivacyCurve:
        mechanism = self.mechanism
        if mechanism is None:
            return Unbounded()
        if sensitivity is None:
            return cast("MessageMechanism", mechanism).curve()
        return cast("Mechanism", mechanism).curve(sensitivity)


class Account(ABC):
    """What releases prove of one user who takes part in each of them, and in all of them `submissions` times at most.

    Args:
        trust_model: what the releases make it.
        releases: every submission takes part in each of them.
        scope: whom and what the guarantee speaks of.
        submissions: how often, at most, one user submits.
    """

    def __init__(self, trust_model: TrustModel, releases: Iterable[Release], scope: Scope, submissions: int) -> None:
        self._trust_model: TrustModel = trust_model
        self._releases = tuple(releases)
        if not self._releases:
            raise LedgerError("a ledger without releases proves nothing; pass the privatizer's releases")
        if submissions < 1:
            raise LedgerError(f"submissions must be at least 1, got {submissions}; a user who sends nothing needs none")
        self._scope = scope
        self._submissions = submissions
        secret = any(release.mechanism is not None and release.entropy == "os" for release in self._releases)
        self._owner = os.getpid() if secret else None

    @property
    @abstractmethod
    def users_charged(self) -> int:
        """How many users have been charged."""

    @property
    def trust_model(self) -> TrustModel:
        """The trust model that the releases belong to."""
        return self._trust_model

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases; every submission takes part in each."""
        return self._releases

    @property
    def scope(self) -> Scope:
        """Whom and what the guarantee speaks of."""
        return self._scope

    @property
    def submissions(self) -> int:
        """How often, at most, one user submits; all of it is proved together."""
        return self._submissions

    @cached_property
    def curve(self) -> PrivacyCurve:
        """What all submissions of one user to all releases prove together."""
        return repeat(compose([release.curve() for release in self._releases]), self._submissions)

    @property
    def attained(self) -> bool:
        """Whether some pair of neighbours attains the pure epsilon."""
        return all(release.attainable for release in self._releases)

    @property
    def has_raw_release(self) -> bool:
        """Whether something leaves without noise."""
        return any(release.mechanism is None for release in self._releases)

    def pure_epsilon(self) -> float:
        """Return the proved pure epsilon of one user; inf if there is none."""
        return self.curve.pure_epsilon

    def pure_epsilon_public_start(self) -> float:
        """Return the same when the first state and the first action of every user are public."""
        return sum(release.pure_epsilon_public_start() for release in self._releases) * self._submissions

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`; inf if none is known."""
        return math.inf if self.has_raw_release else self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 with a raw release."""
        return 1.0 if self.has_raw_release else self.curve.delta(epsilon)

    def _require_own_process(self) -> None:
        """Raise LedgerError in a process that inherited this by a fork, unless its noise is seeded.

        Parent and child would charge the same users once each, and with noise from the operating system that is two
        releases. With seeded noise the two are the same release.
        """
        if self._owner not in (None, os.getpid()):
            raise LedgerError(
                "noise from the operating system is drawn in one process only, and this process was forked from it; "
                "nobody can be charged here: build a new privatizer"
            )


class Ledger(Account):
    """All releases of one run and how many users they have been charged for: users 1, 2, ... submit once, in order.

    For count loops; agents that submit more than once or in any order have a `submissions.SubmissionLedger`.

    Args:
        trust_model: what the releases make it.
        releases: every user takes part in each of them.
        scope: whom and what the guarantee speaks of.
    """

    def __init__(self, trust_model: TrustModel, releases: Iterable[Release], scope: Scope) -> None:
        super().__init__(trust_model, releases, scope, submissions=1)
        self._users_charged = 0

    @property
    def users_charged(self) -> int:
        """How many users, from the first on, have been charged."""
        return self._users_charged

    def charge(self, first_user: int, last_user: int) -> None:
        """Record, before it happens, that users first..last (1-based, inclusive) submit.

        Raises:
            LedgerError: if a user of the range was charged before, users would be left out, or this process was forked
                from the one that may charge.
        """
        self._require_own_process()
        if first_user != self._users_charged + 1:
            raise LedgerError(f"user {first_user} cannot submit: users up to {self._users_charged} are charged already")
        self._users_charged = max(self._users_charged, last_user)
