"""Noise design: who adds which noise to what, and how often a user is in it; decided once, before anybody is asked.

`designs/` makes it from settings, around a query. The sampler runs the query's mechanisms and counter; ledger,
certificate and page read the releases that the query states of them, and a privatizer refuses a design of others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from dprl.privacy.accounting.closed_forms import ChosenCurve, PrivacyCurve, Unbounded
from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.base import Guarantee, LedgerError, Sensitivity, TrustModel
from dprl.privacy.counters.base import Counter
from dprl.privacy.mechanisms import GRAMS, MECHANISMS, VECTORS, MessageMechanism
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.reports import OneHotEncoding, ShuffledReports, UnaryEncoder
from dprl.privacy.mechanisms.vectors import SampledGaussian
from dprl.privacy.randomness.streams import NoiseConfig, noise_identity
from dprl.privacy.threat_models import NOISY_SIDES, ThreatModel

Q = TypeVar("Q")
_MESSAGES: set[type] = {*VECTORS.values(), *GRAMS.values(), SampledGaussian}
_ACCOUNTED: set[type] = {*MECHANISMS.values(), UnaryEncoder, ShuffledReports, SampledGaussian}
SEEDED = "seeded"
ENTROPY = {"seed": SEEDED, "os": "os"}
"""Texts for the entropy of a release, by the setting `entropy`."""


@dataclass(frozen=True)
class Release:
    """One channel through which users' data leave their side, described by the object that randomizes it.

    Args:
        channel: name of the count family, or of another release.
        mechanism: randomizes each released number; None if the data leave without noise.
        row: largest change of the data that leave if one user is replaced, before any counter; None for a mechanism of
            whole messages, which bounds the change itself, and for data without noise.
        attainable: whether some pair of neighbours has this change.
        cells: number of numbers in the channel.
        entropy: 'seeded' or 'os'.
        counter: releases running sums of the data; its noisy numbers are what `mechanism` randomizes.
        times: number of times that a submission takes part in it; above 1 for composed runs.
        row_line: one line that explains the row; '' where the mechanism's own line does.

    Raises LedgerError for a mechanism without a privacy curve, and for contradictory arguments.
    """

    channel: str
    mechanism: Mechanism | OneHotEncoding | UnaryEncoder | ShuffledReports | SampledGaussian | MessageMechanism | None
    row: Sensitivity | None
    attainable: bool
    cells: int
    entropy: str
    counter: Counter | None = None
    times: int = 1
    row_line: str = ""

    def __post_init__(self) -> None:
        law = self.mechanism.report if isinstance(self.mechanism, ShuffledReports) else self.mechanism
        if self.mechanism is not None and not {type(self.mechanism), type(law)} <= _ACCOUNTED:
            raise LedgerError(f"the ledger cannot account for a release by {self.mechanism!r}; give it a privacy curve")
        if min(self.cells, self.times) < 1:
            raise LedgerError(f"a release has at least 1 cell and is at least once, got {self}")
        if (self.row is None) != (self.mechanism is None or type(law) in _MESSAGES):
            raise LedgerError(f"a release has a row unless its mechanism bounds it itself, got {self}")
        if isinstance(self.mechanism, ShuffledReports):
            self.curve()  # raises unless a report has a pure loss

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """Largest change of everything that the mechanism randomizes if one user is replaced."""
        if self.row is None or self.counter is None:
            return self.row
        return self.counter.sensitivity(self.row)

    @property
    def identity(self) -> str:
        """Text that identifies the release in a journal."""
        return noise_identity(self.channel, self.mechanism, self.sensitivity, self.cells, self.entropy)

    def curve(self, rows: int = 1) -> PrivacyCurve:
        """Return the privacy curve of this release for a user with that number of rows of the counter's."""
        mechanism: Any = self.mechanism
        if mechanism is None:
            return Unbounded()
        if self.sensitivity is None:
            return repeat(mechanism.curve(), self.times)
        sensitivity = self.sensitivity if rows == 1 else self.sensitivity.scaled(rows)
        return repeat(mechanism.curve(sensitivity), self.times)

    def explain(self) -> tuple[str, ...]:
        """Return the lines that explain the scale, in order: of the row, the counter and the mechanism."""
        mechanism: Any = self.mechanism
        if mechanism is None:
            return ()
        own = mechanism.explain() if self.sensitivity is None else mechanism.explain(self.sensitivity)
        counter = "" if self.counter is None else self.counter.explain()
        return tuple(line for line in (self.row_line, counter, own) if line)


@lru_cache(maxsize=1024)  # ledgers, certificates, all seeds of a cell and the cells of a sweep share them
def curve_of(
    releases: tuple[Release, ...], times: int, groups: tuple[tuple[int, ...], ...] = (), rows: int = 1
) -> PrivacyCurve:
    """Return the privacy curve of all releases together, repeated `times` times; the worst one of disjoint `groups`."""
    together = groups or (tuple(range(len(releases))),)
    curves = [repeat(compose([releases[i].curve(rows) for i in group]), times) for group in together]
    distinct = tuple(dict.fromkeys(curves))
    return distinct[0] if len(distinct) == 1 else ChosenCurve(distinct, "largest")


@dataclass(frozen=True)
class NoiseDesign(Generic[Q]):
    """What will happen to users' data in a run.

    >>> from dprl.privacy import CountFamilies, CountFamily, CountPrivacy
    >>> visits = CountFamilies(5, (CountFamily("visits", 6),))
    >>> design = CountPrivacy("ldp", 1.0, mechanism="laplace").design(visits, 1000, NoiseConfig())
    >>> for line in design.releases[0].explain():
    ...     print(line)
    two trajectories differ in at most 2 H = 10 cells of a family, by 1 each (H steps)
    b = l1 / epsilon_0 = 10 / 1 = 10, epsilon_0 the pure loss: 10 noisy numbers change by at most 1 each

    Args:
        model: the trust model. releases: every submission takes part in each of them.
        threat_model: people, observers and channels of the guarantee.
        n_users: maximum number of users. submissions: maximum number of submissions of one user.
        groups: for composed runs with disjoint users, the indices of the releases of each group of users; each user is
            in one group. () if everybody is in all releases.
        query: the record of a user, the message, and the noise on either side; None for composed runs.
        requested: the guarantee that was asked for; None without noise. claimed: the one that the source of the scale
            claims, with which the proof is compared; None without a claim.
        calibration: 'printed', 'certified' or 'none'. source: of the scale. choice: automatic choices with their
            reasons; '' without any.
        noise: arithmetic and entropy.
        settings: a config's section `privacy`; None if the design was made by hand or composed.
        data, users, growth: with which `settings.design` makes it again: the layout of what one user sends; the number
            of users, an expected one if they are drawn by chance; and the growth of a learner's schedule of reads.

    Raises LedgerError without releases or submissions, for noise that is not that of the trust model, or if the noise
    does not account for that many users and submissions; ValueError without users.
    """

    model: TrustModel
    releases: tuple[Release, ...]
    threat_model: ThreatModel
    n_users: int
    submissions: int = 1
    groups: tuple[tuple[int, ...], ...] = ()
    query: Q | None = None
    requested: Guarantee | None = None
    claimed: Guarantee | None = None
    calibration: str = "none"
    source: str = "nothing is claimed"
    choice: str = ""
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    settings: Any = None
    data: Any = None
    users: int = 0
    growth: float = 0.0

    def __post_init__(self) -> None:
        if not self.releases:
            raise LedgerError("a ledger without releases proves nothing; pass the query's releases")
        if self.n_users < 1:
            raise ValueError(f"n_users must be at least 1, got {self.n_users}; run at least one episode")
        if self.submissions < 1:
            raise LedgerError(f"submissions must be at least 1, got {self.submissions}; a user submits at least once")
        query: Any = self.query
        if query is None:
            return
        if self.groups:
            raise LedgerError(f"groups are of composed runs, got {self.groups} for one; its users are in every release")
        if query.noisy_sides != NOISY_SIDES[self.model]:
            raise LedgerError(
                f"noise on (the client's side, the server's side) must be {NOISY_SIDES[self.model]} with model "
                f"{self.model}, got {query.noisy_sides}; ask for the trust model of this noise"
            )
        query.check_run(self.n_users, self.submissions)

    @property
    def capacity(self) -> int:
        """Maximum number of submissions."""
        return self.n_users * self.submissions

    @cached_property
    def terms(self) -> str:
        """Digest of the terms of charges: trust model, releases, neighbours, cap and number of users."""
        # Not the texts of the threat model: rewording them must not separate a run from its journal.
        releases = [release.identity for release in self.releases]
        terms = noise_identity(self.model, *releases, self.threat_model.adjacency, self.submissions, self.n_users)
        return hashlib.blake2b(terms.encode(), digest_size=16).hexdigest()

    @cached_property
    def attained(self) -> bool:
        """Whether some pair of neighbours attains the pure epsilon."""
        return all(release.attainable for release in self.releases)

    @cached_property
    def has_raw_release(self) -> bool:
        """Whether something leaves without noise."""
        return any(release.mechanism is None for release in self.releases)

    @property
    def draws_blocks(self) -> bool:
        """Whether users can be simulated in blocks: noise is seeded, and the sum of their messages has a known law."""
        query: Any = self.query
        return query is not None and self.noise.entropy == "seed" and query.draws_blocks

    def curve(self, times: int) -> PrivacyCurve:
        """Return the privacy curve of `times` submissions of one user to all releases."""
        return curve_of(self.releases, times, self.groups)
