"""The ledger: releases as data, charged before they happen, refused when they are not understood."""

from __future__ import annotations

import hashlib
import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, NoReturn, Protocol, cast

from dprl.privacy.accounting.closed_forms import PrivacyCurve, Unbounded, maximum
from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.base import LedgerError, TrustModel
from dprl.privacy.counters.base import Counter
from dprl.privacy.mechanisms import GRAMS, MECHANISMS, VECTORS, MessageMechanism
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.one_hot_encoding import OneHotEncoding, UnaryEncoder
from dprl.privacy.mechanisms.sampled import SampledGaussian
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.randomness.streams import noise_identity
from dprl.privacy.threat_models import ThreatModel

_MESSAGES: set[type] = {*VECTORS.values(), *GRAMS.values(), SampledGaussian}


def accounted(mechanism: type) -> bool:
    """Whether a ledger knows the privacy curve of a mechanism; anything that is not registered is refused."""
    return mechanism in (*MECHANISMS.values(), UnaryEncoder, ShuffledReports, SampledGaussian)


@dataclass(frozen=True)
class ReleaseEvent:
    """One channel through which users' data leave their side, described by the object that randomizes it.

    Args:
        channel: name of the count family, or of another release.
        mechanism: randomizes each released number; None if the data leave without noise.
        sensitivity: largest change of everything that it randomizes if one user is replaced; None for a mechanism of
            whole messages, which bounds the change itself, and for data without noise.
        attainable: whether some pair of neighbours has this change.
        nodes_per_user: maximum of randomized numbers of a cell that depend on one user.
        cells: number of numbers in the channel.
        entropy: 'seeded' or 'os'.
        unit: of the randomized numbers and their noise, in units of the released ones.
        times: number of times that a submission takes part in it; above 1 for composed runs.

    Raises LedgerError for a mechanism without a privacy curve, and for contradictory arguments.
    """

    channel: str
    mechanism: Mechanism | OneHotEncoding | UnaryEncoder | ShuffledReports | SampledGaussian | MessageMechanism | None
    sensitivity: Sensitivity | None
    attainable: bool
    nodes_per_user: int
    cells: int
    entropy: str
    unit: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        law = self.mechanism.report if isinstance(self.mechanism, ShuffledReports) else self.mechanism
        if self.mechanism is not None and not (accounted(type(self.mechanism)) and accounted(type(law))):
            raise LedgerError(f"the ledger cannot account for a release by {self.mechanism!r}; give it a privacy curve")
        if min(self.nodes_per_user, self.cells, self.times) < 1:
            raise LedgerError(f"a release has at least 1 node and 1 cell, got {self}")
        if (self.sensitivity is None) != (self.mechanism is None or type(law) in _MESSAGES):
            raise LedgerError(f"a release has a sensitivity unless its mechanism bounds it itself, got {self}")
        if isinstance(self.mechanism, ShuffledReports):
            self.curve()  # raises unless a report has a pure loss

    @staticmethod
    def without_noise(channel: str, cells: int, entropy: str) -> ReleaseEvent:
        """Return the release of data without noise."""
        return ReleaseEvent(channel, None, None, True, 1, cells, entropy)

    @staticmethod
    def of_message(
        channel: str,
        mechanism: MessageMechanism | SampledGaussian,
        attainable: bool,
        cells: int,
        entropy: str,
    ) -> ReleaseEvent:
        """Return the release of one submission of a mechanism that bounds its own sensitivity.

        Its curve is that of one submission: one vector, for a Gram mechanism all messages of an episode, and for
        sampled rounds all rounds.

        Args:
            attainable: whether some pair of inputs attains the curve's pure epsilon.
            cells: number of numbers in a submission.
        """
        return ReleaseEvent(channel, mechanism, None, attainable, 1, cells, entropy)

    @staticmethod
    def of_sums(channel: str, counter: Counter, row: Sensitivity, cells: int, entropy: str) -> ReleaseEvent:
        """Return the release of all of a counter's noisy running sums, for users' rows that change by `row`."""
        changed = counter.sensitivity(row)
        return ReleaseEvent(channel, counter.node, changed, False, counter.nodes_per_user, cells, entropy)

    @property
    def identity(self) -> str:
        """Text that identifies the release in a journal."""
        return noise_identity(self.channel, self.mechanism, self.sensitivity, self.cells, self.entropy)

    def curve(self) -> PrivacyCurve:
        """Return the privacy curve of this release for one user."""
        mechanism, sensitivity = self.mechanism, self.sensitivity
        if mechanism is None:
            return Unbounded()
        if sensitivity is None:
            return repeat(cast("MessageMechanism", mechanism).curve(), self.times)
        return repeat(cast("Mechanism", mechanism).curve(sensitivity), self.times)


def curve_of(releases: Sequence[ReleaseEvent], times: int, groups: Sequence[Sequence[int]] = ()) -> PrivacyCurve:
    """Return the privacy curve of all releases together, repeated `times` times; the worst one of disjoint `groups`."""
    together = groups or [range(len(releases))]
    return maximum([repeat(compose([releases[i].curve() for i in group]), times) for group in together])


class Charged(NamedTuple):
    """Content of a journal: the number of submissions that each earlier attempt has charged, and the current one."""

    earlier: tuple[int, ...]
    current: int


class Journal(Protocol):
    """Journal of charges that survives a crash; journal.py stores it in a file. It must not call the ledger."""

    def recorded(self, terms: str, users: int) -> Charged:
        """Return its content without writing. Raises LedgerError if it was written for other terms or users."""

    def begin(self, terms: str, users: int) -> Charged:
        """Open it for writing, before the first charge, and return its content, because others may have written."""

    def write(self, first: int, last: int) -> None:
        """Write that submissions first..last are charged: all or nothing.

        Returns when the charges are durable; raises LedgerError if they are not.
        """


@dataclass(frozen=True)
class LedgerSpec:
    """The conditions under which users are charged.

    Args:
        trust_model: of the releases.
        releases: every submission takes part in each of them.
        threat_model: people, observers and channels of the guarantee.
        users: maximum number of users.
        submissions: maximum number of submissions of one user.
        groups: for runs with disjoint users, the indices of the releases of each group of users; each user is in one
            group. () if everybody is in all releases.

    Raises LedgerError without releases or submissions, ValueError without users.
    """

    trust_model: TrustModel
    releases: tuple[ReleaseEvent, ...]
    threat_model: ThreatModel
    users: int
    submissions: int = 1
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.releases:
            raise LedgerError("a ledger without releases proves nothing; pass the query's releases")
        if self.users < 1:
            raise ValueError(f"n_users must be at least 1, got {self.users}; run at least one episode")
        if self.submissions < 1:
            raise LedgerError(f"submissions must be at least 1, got {self.submissions}; a user submits at least once")

    @property
    def capacity(self) -> int:
        """Maximum number of submissions."""
        return self.users * self.submissions

    @property
    def terms(self) -> str:
        """Digest of the terms of charges: trust model, releases, neighbours, cap and number of users."""
        # Not the texts of the threat model: rewording them must not separate a run from its journal.
        releases = [release.identity for release in self.releases]
        terms = noise_identity(self.trust_model, *releases, self.threat_model.adjacency, self.submissions, self.users)
        return hashlib.blake2b(terms.encode(), digest_size=16).hexdigest()


class Ledger:
    """All releases of one run, and the number of submissions charged for them: 1, 2, ... in order.

    Submission n is of user (n - 1) % users + 1, so every user submits at most `submissions` times.

    *Formal guarantee.* All submissions of one user together are charged as `submissions`-fold adaptive composition of
    all releases, even if the user submits less often. A further attempt with fresh noise asks the same users again, so
    the curve composes as many attempts as any user took part in. A submission is charged before anything of it is
    released: `charge` first writes to the journal, then counts, then returns. If the journal raises, nothing is counted
    and nothing may be released. A submission that was journaled and then lost stays charged.

    Args:
        spec: the releases. journal: receives charges before they count; None for simulated users.
    """

    def __init__(self, spec: LedgerSpec, journal: Journal | None = None) -> None:
        self.spec = spec
        self._journal = journal
        self._writing = journal is None
        self._earlier: tuple[int, ...] = ()
        self._charged = 0
        self._curves: dict[int, PrivacyCurve] = {}
        # Two charges at the same time could both be the last one.
        self._lock = Lock()
        secret = any(release.mechanism is not None and release.entropy == "os" for release in spec.releases)
        self._owner = os.getpid() if secret else None
        if journal is not None:
            self._include(journal.recorded(spec.terms, spec.users))

    @classmethod
    def of_charges(cls, spec: LedgerSpec, charged: Charged) -> Ledger:
        """Return the ledger of charges that a certificate states."""
        ledger = cls(spec)
        ledger._include(charged)
        return ledger

    @property
    def charged(self) -> int:
        """Number of submissions that the current attempt has charged; the next one has the number after that."""
        return self._charged

    @property
    def charged_before(self) -> tuple[int, ...]:
        """Numbers of submissions that the earlier attempts have charged."""
        return self._earlier

    @property
    def users_charged(self) -> int:
        """Number of users charged at least once, in any attempt."""
        return min(max(self._charged, *self._earlier, 0), self.spec.users)

    @property
    def attempts(self) -> int:
        """Number of attempts that have charged a user; 1 if the run was never started again."""
        return max(1, len([charged for charged in (*self._earlier, self._charged) if charged]))

    @property
    def users_asked_again(self) -> int:
        """Number of users charged in more than one attempt."""
        charged = sorted((*self._earlier, self._charged), reverse=True)
        return min(charged[1], self.spec.users) if len(charged) > 1 else 0

    @property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of all submissions of one user to all releases, in all attempts."""
        times = self.spec.submissions * self.attempts
        if times not in self._curves:
            self._curves[times] = curve_of(self.spec.releases, times, self.spec.groups)
        return self._curves[times]

    @property
    def attained(self) -> bool:
        """Whether some pair of neighbours attains the pure epsilon."""
        return all(release.attainable for release in self.spec.releases)

    @property
    def has_raw_release(self) -> bool:
        """Whether something leaves without noise."""
        return any(release.mechanism is None for release in self.spec.releases)

    def pure_epsilon(self) -> float:
        """Return the proved pure epsilon of one user; inf if there is none."""
        return self.curve.pure_epsilon

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`; inf if none is known."""
        return math.inf if self.has_raw_release else self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 with a raw release."""
        return 1.0 if self.has_raw_release else self.curve.delta(epsilon)

    def begin(self) -> None:
        """Open the journal for writing and count its charges; otherwise the first charge does so."""
        with self._lock:
            self._begin()

    def charge(self, first: int, last: int) -> None:
        """Charge submissions first..last (1-based, inclusive) before they are released: all or none of them.

        Raises:
            LedgerError: if one of them was charged before, some would be left out, the journal cannot be written, or
                this process was forked from the one that may charge.
            ValueError: beyond the ledger's capacity.
        """
        first, last = operator.index(first), operator.index(last)
        with self._lock:
            self._begin()
            if first != self._charged + 1 or last < first:
                raise LedgerError(
                    f"submission {first} cannot be charged: those up to {self._charged} are charged already"
                )
            if last > self.spec.capacity:
                raise ValueError(
                    f"at most {self.spec.capacity} submissions can be charged, got {last}; build for more episodes"
                )
            if self._journal is not None:
                self._journal.write(first, last)
            self._charged = last

    def __reduce__(self) -> NoReturn:
        # With two copies every user could submit twice as often.
        raise LedgerError("a ledger cannot be copied or pickled; continue from a checkpoint or a journal")

    def _begin(self) -> None:
        self._require_own_process()
        if not self._writing and self._journal is not None:
            self._include(self._journal.begin(self.spec.terms, self.spec.users))
            self._writing = True

    def _include(self, found: Charged) -> None:
        """Count the journal's charges."""
        most = max(found.current, *found.earlier, 0)
        if most > self.spec.capacity:
            raise LedgerError(f"the journal has {most} submissions of {self.spec.capacity}; name this run's journal")
        self._earlier, self._charged = found

    def _require_own_process(self) -> None:
        """Raise LedgerError in a process that inherited this object by a fork, unless its noise is seeded.

        Parent and child would each charge the same users once. With noise from the operating system these are two
        releases, with seeded noise they are the same one.
        """
        if self._owner not in (None, os.getpid()):
            raise LedgerError(
                "noise from the operating system is drawn in one process only, and this process was forked from it; "
                "build a new privatizer here"
            )
