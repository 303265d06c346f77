"""The nouns of this room, and the privacy boundary as types.

What a user's device holds is a Contribution. What leaves it is a Report. What a learner may see is PrivateCounts, which
only a Privatizer can issue. A learner's signature takes PrivateCounts, so handing it anything earlier is a type error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
TrustModel = Literal["none", "jdp", "ldp"]

ADJACENCY = "replace one user's trajectory"


class LedgerError(RuntimeError):
    """What a ledger or a privatizer refuses: an unknown release, a submission out of turn or beyond what is charged."""


@dataclass(frozen=True)
class Scope:
    """Whom a guarantee speaks of and against whom, in words for the certificate; it belongs to the ledger.

    Args:
        unit: who is protected, and how often they take part.
        adjacency: what two neighbouring data sets differ in; a claim about other neighbours is not compared with it.
        observer: against whom.
        covered, excluded: channels that the guarantee covers, and channels that it does not.
        attained_by: whose pair of neighbours attains the proved pure epsilon, where it is attained.
    """

    unit: str
    adjacency: str
    observer: str
    covered: tuple[str, ...]
    excluded: tuple[str, ...]
    attained_by: str


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee: trust model, epsilon, delta, and the neighbours that it speaks of."""

    trust_model: TrustModel
    epsilon: float
    delta: float = 0.0
    adjacency: str = ADJACENCY

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon must be finite and above 0, got {self.epsilon}; nothing else is a guarantee")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {self.delta}; nothing else is a guarantee")


@dataclass(frozen=True)
class CountFamily:
    """One family of counters; at every step a user adds a value in [0, 1] to exactly one cell of it.

    Args:
        name: the channel's name in ledger and certificate.
        width: cells per step.
        public_start_change: how much replacing a user can change step 1 in L1 (0, 1 or 2) when the first state and
            the first action are public; 2 without that knowledge.
        marginal_of: the family that tells this one's cell, which is that one's modulo `width`; '' for none.
        indicator: whether the value is always 1; where it is not, it can be anything in [0, 1].
    """

    name: str
    width: int
    public_start_change: int
    marginal_of: str = ""
    indicator: bool = True

    def __post_init__(self) -> None:
        if self.width < 1 or self.public_start_change not in (0, 1, 2):
            raise ValueError(f"width must be at least 1 and public_start_change 0, 1 or 2, got {self}; count one cell")


@dataclass(frozen=True)
class CountFamilies:
    """All counters of a learner, laid out as [n_steps, cells of a step], the families side by side in each step.

    Replacing a user changes at most two cells per step and family, each by at most 1: 2 * n_steps in L1 per family.

    Args:
        n_steps: H. families: in the order of the layout.
        paper: whose privatizer this is, for `calibration: printed`; '' where no paper prints a scale.
        players: how many people make one episode, and its report, together. They are one user: nothing is kept from
            each other.
    """

    n_steps: int
    families: tuple[CountFamily, ...]
    paper: str = ""
    players: int = 1

    def __post_init__(self) -> None:
        widths = {family.name: family.width for family in self.families}
        if self.n_steps < 1 or len(widths) != len(self.families):
            raise ValueError(f"families must have a step and different names, got {self}; two would share their cells")
        for family in self.families:
            if family.marginal_of and widths.get(family.marginal_of, 0) % family.width != 0:
                raise ValueError(f"marginal_of must name a family of a multiple of {family.width} cells, got {family}")
            if family.marginal_of and family.marginal_of not in widths:
                raise ValueError(f"marginal_of must name a family, got {family}; leave it empty for none")

    @property
    def block(self) -> int:
        """Cells of one step, over all families."""
        return sum(family.width for family in self.families)

    @property
    def n_cells(self) -> int:
        """All cells."""
        return self.n_steps * self.block

    def offsets(self) -> Int64Array:
        """Where each family starts within a step, int64[n_families]."""
        widths = [family.width for family in self.families]
        return np.cumsum([0, *widths[:-1]]).astype(np.int64)

    def changed_cells(self) -> int:
        """How many cells of one family a replaced user changes at most, each by at most 1."""
        # D3: the papers count H, the cells of a trajectory that is removed; a replaced one changes 2 a step.
        return 2 * self.n_steps

    def changed_public_start(self, family: CountFamily) -> int:
        """The L1 change of one family when the first state and action are public."""
        return 2 * (self.n_steps - 1) + family.public_start_change


@dataclass(frozen=True)
class Contribution:
    """One user's raw record. It stays on the user's side: only Privatizer.encode takes it.

    Args:
        index: int64[n_steps, n_families], which cell of the family the user adds to at that step.
        value: float64[n_steps, n_families], what is added, in [0, 1].
    """

    index: Int64Array = field(repr=False)
    value: Float64Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class _ReportSeal:
    """Made by the privatizer `issuer` for one user's one message: no other numbers or user can use it."""

    issuer: str
    user: int
    values: Float64Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class _CountsSeal:
    """Made by the privatizer `issuer` for one release."""

    issuer: str
    n_users: int
    values: Float64Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Report:
    """What one user sends: float64[n], noisy under local privacy, exact for a trusted server otherwise.

    Args:
        user: 1-based number of the user, which is the episode's.
        values: the message, read-only.
    """

    user: int
    values: Float64Array = field(repr=False)
    seal: _ReportSeal = field(repr=False)

    def __post_init__(self) -> None:
        seal = self.seal
        if not isinstance(seal, _ReportSeal) or seal.values is not self.values or seal.user != self.user:
            raise TypeError("a Report is issued by a Privatizer only; call encode")

    def __reduce__(self) -> tuple[object, ...]:
        # A copy must be as immutable as the original.
        return issue_report, (self.seal.issuer, self.user, self.values)


@dataclass(frozen=True, eq=False)
class PrivateCounts:
    """Counts that a learner may use: every number in it went through a release that the ledger has charged.

    Args:
        families: the layout.
        values: float64[n_cells], read-only. May be negative or fractional.
        n_users: how many users' reports are in it.
    """

    families: CountFamilies
    values: Float64Array = field(repr=False)
    n_users: int
    seal: _CountsSeal = field(repr=False)

    def __post_init__(self) -> None:
        seal = self.seal
        if not isinstance(seal, _CountsSeal) or seal.values is not self.values or seal.n_users != self.n_users:
            raise TypeError("PrivateCounts are issued by a Privatizer only; call absorb")

    def __reduce__(self) -> tuple[object, ...]:
        return issue_private_counts, (self.seal.issuer, self.families, self.values, self.n_users)

    def family(self, name: str) -> Float64Array:
        """Return a view float64[n_steps, width] of one family; raise KeyError for an unknown name."""
        for start, family in zip(self.families.offsets(), self.families.families, strict=True):
            if family.name == name:
                rows = self.values.reshape(self.families.n_steps, self.families.block)
                return rows[:, start : start + family.width]
        raise KeyError(f"no count family {name!r}; there are {[family.name for family in self.families.families]}")


def issue_report(issuer: str, user: int, values: Float64Array) -> Report:
    """Seal a copy of a user's message, float64[n_cells]; for Privatizers only (an architecture test says so)."""
    kept = _immutable(values)
    return Report(user, kept, _ReportSeal(issuer, user, kept))


def issue_private_counts(issuer: str, families: CountFamilies, values: Float64Array, n_users: int) -> PrivateCounts:
    """Seal a copy of released values, float64[n_cells]; for Privatizers only (an architecture test says so)."""
    kept = _immutable(values)
    return PrivateCounts(families, kept, n_users, _CountsSeal(issuer, n_users, kept))


def _immutable(values: Float64Array) -> Float64Array:
    """Return a copy whose memory cannot be made writeable again."""
    return np.frombuffer(values.tobytes(), dtype=np.float64)


@dataclass(frozen=True)
class Precision:
    """A high-probability error bound per count family: with probability 1 - beta, over all cells and episodes.

    Args:
        beta: the failure probability.
        bounds: family name -> E >= 0, in counts.
    """

    beta: float
    bounds: dict[str, float]
