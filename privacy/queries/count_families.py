"""Families of counts: the cells to which an episode adds, their layout, and the largest change by one user."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.randomness.streams import ANY, UNNAMED

_PUBLIC_SUCCESSORS = "the possible next states are public: no others are counted"
_HOLDS_ANYWAY = "the guarantee does not depend on it"


@dataclass(frozen=True)
class CountFamily:
    """One family of counters; at every step a user adds a value in [0, 1] to exactly one cell of it.

    >>> CountFamily("rewards", width=6, indicator=False).width
    6

    Args:
        name: the channel's name in ledger and certificate.
        width: cells per step.
        marginal_of: the family whose cell, modulo `width`, is this one's; '' for none.
        indicator: whether the value is always 1; otherwise it can be any in [0, 1].

    Raises ValueError for a width below 1.
    """

    name: str
    width: int
    marginal_of: str = ""
    indicator: bool = True

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width must be at least 1, got {self}; count one cell")

    @property
    def NAMED(self) -> dict[str, object]:  # noqa: N802 - see `noise_identity`
        """A field of earlier versions."""
        return {"public_start_change": 2 if not self.marginal_of else int(not self.indicator)}


@dataclass(frozen=True)
class CountFamilies:
    """All counters of a learner, laid out as [n_steps, cells of a step], the families side by side in each step.

    Replacing a user changes at most two cells per step and family, each by at most 1: 2 * n_steps in L1 per family.

    >>> visits_in_ten_steps = CountFamilies(10, (CountFamily("visits", 6),))
    >>> visits_in_ten_steps.n_cells, visits_in_ten_steps.row().l1
    (60, 20.0)

    Args:
        n_steps: H. families: in the order of the layout.
        paper: the paper of the privatizer, for `calibration: printed`; '' if no paper prints a scale.
        players: number of people who make one episode and its report together. They are one user, so they are not
            protected from each other.
        ranked: whether the first family counts next states by their rank among the possible ones.
        by_bound: whether `auto` chooses reports by the largest error of any count: the learner adds one bound to all.
    """

    n_steps: int
    families: tuple[CountFamily, ...]
    paper: str = ""
    players: int = 1
    ranked: bool = field(default=False, metadata={UNNAMED: False})
    by_bound: bool = field(default=False, metadata={UNNAMED: ANY})

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
    def layers(self) -> int:
        """Number of steps with separate counts: H."""
        return self.n_steps

    @property
    def assumption(self) -> str | None:
        """Assumption of the counts on the environment, for the certificate; None without one."""
        return f"{_PUBLIC_SUCCESSORS}; {_HOLDS_ANYWAY}" if self.ranked else None

    @property
    def n_cells(self) -> int:
        """All cells."""
        return self.layers * self.block

    def offsets(self) -> Int64Array:
        """Start of each family within a step, int64[n_families]."""
        widths = [family.width for family in self.families]
        return np.cumsum([0, *widths[:-1]]).astype(np.int64)

    def row(self, n_families: int = 1) -> Sensitivity:
        """Sensitivity of everything that one user adds to `n_families` families."""
        # D3: the papers count H, the cells of a removed trajectory; a replaced one changes 2 per step.
        return Sensitivity.of_cells(2 * self.n_steps * n_families)

    def explain(self) -> str:
        """Return the line that explains `row` for one family."""
        return f"two trajectories differ in at most 2 H = {2 * self.n_steps} cells of a family, by 1 each (H steps)"

    def attains_row(self, family: CountFamily) -> bool:
        """Whether some pair of users attains `row` in a family."""
        # Two trajectories can differ at a step if it has two cells.
        return family.width > 1


@dataclass(frozen=True)
class PooledFamilies(CountFamilies):
    """Counts summed over the steps, for environments that are the same at every step: [cells of a step].

    Replacing a user changes each family by 2H in L1 as before, but by up to sqrt(2) H in L2 and H in one cell.

    >>> pooled = PooledFamilies(10, (CountFamily("visits", 6),))
    >>> pooled.n_cells, pooled.row().l1, pooled.row().linf
    (6, 20.0, 10.0)
    """

    NAMED: ClassVar[dict[str, object]] = {"visits_per_user": 0}
    layers: ClassVar[int] = 1

    @property
    def assumption(self) -> str:
        """Assumption of the counts on the environment, for the certificate."""
        pooled = "the environment is the same at every step, and counts are summed over steps"
        return "; ".join([pooled, *([_PUBLIC_SUCCESSORS] if self.ranked else []), _HOLDS_ANYWAY])

    def row(self, n_families: int = 1) -> Sensitivity:
        """Sensitivity of everything that one user adds to `n_families` families."""
        steps, cells = self.n_steps, min(2 * self.n_steps, self.block) * n_families
        return Sensitivity(float(2 * steps * n_families), math.sqrt(2 * steps**2 * n_families), float(steps), cells)

    def explain(self) -> str:
        """Return the line that explains `row` for one family."""
        h = self.n_steps
        return (
            f"two trajectories differ by at most 2 H = {2 * h} in L1, sqrt(2) H in L2 and H = {h} in a cell (H steps)"
        )


@dataclass(frozen=True)
class UserRecord:
    """One user's raw record. It stays on the client's side: only `send` takes it.

    >>> two_steps = UserRecord(np.array([[4], [1]]), np.ones((2, 1)))  # visits of the cells 4 and 1
    >>> two_steps
    UserRecord()

    Args:
        index: int64[n_steps, n_families], the cell of each family to which the user adds at each step.
        value: float64[n_steps, n_families], the amount, in [0, 1].
    """

    index: Int64Array = field(repr=False)
    value: Float64Array = field(repr=False)
