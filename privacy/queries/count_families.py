"""Families of counts: the cells to which an episode adds, their layout, and the largest change by one user."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.derivation import Step, code_of
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.randomness.streams import ANY, UNNAMED

_PUBLIC_SUCCESSORS = "the possible next states are public: no others are counted"
_HOLDS_ANYWAY = "the guarantee does not depend on it"
_MOVES = "Another trajectory moves a 1 from one cell to another at each of H steps (D3)"
DEVIATIONS = "docs/paper_map.md#deviations"


@dataclass(frozen=True)
class CountFamily:
    """One family of counters; at every step a user adds a value in [0, 1] to exactly one cell of it.

    Args:
        name: the channel's name in ledger and certificate.
        width: cells per step.
        public_start_change: largest L1 change of step 1 (0, 1 or 2) by replacing a user if the first state and action
            are public; 2 if they are not.
        marginal_of: the family whose cell, modulo `width`, is this one's; '' for none.
        indicator: whether the value is always 1; otherwise it can be any in [0, 1].

    Raises ValueError for a width below 1 or another public_start_change.
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

    def change(self, norm: str) -> Step:
        """Return the step to the change of one family in a norm: that of `row`."""
        return self._change("H", {"H": float(self.n_steps)}, norm)

    def _change(self, sizes: str, numbers: dict[str, float], norm: str) -> Step:
        """Return that step. sizes: formula of the L1 norm, or the squared L2 norm, of one user's part of a family."""
        row, code = self.row(), code_of(self, "row")
        many = sizes if len(numbers) == 1 else f"({sizes})"
        formula, value = (f"sqrt(2 * {many})", row.l2) if norm == "l2" else (f"2 * {many}", row.l1)
        name = f"replacing one user, in one family of counts, {'L2' if norm == 'l2' else 'L1'}"
        return Step(name, formula, numbers, value, _MOVES, DEVIATIONS, code)

    def row_after_public_start(self, family: CountFamily) -> Sensitivity | None:
        """Sensitivity of one family if the first state and action are public; None if nothing changes."""
        changed = 2 * (self.n_steps - 1) + family.public_start_change
        return Sensitivity.of_cells(changed) if changed > 0 else None

    def attains_row(self, family: CountFamily) -> bool:
        """Whether some pair of users attains `row` in a family."""
        # Two trajectories can differ at a step if it has two cells.
        return family.width > 1


@dataclass(frozen=True)
class PooledFamilies(CountFamilies):
    """Counts summed over the steps, for environments that are the same at every step: [cells of a step].

    Replacing a user changes each family by 2H in L1 as before, but by up to sqrt(2) H in L2 and H in one cell. If only
    the first m visits of each of P pairs are counted, it is less: v = min(H, m * P) steps in all, so 2v in L1, and in
    L2 the root of twice the largest sum of squares of numbers up to m that add up to v.

    Args:
        visits_per_user: m; 0 counts all.
        n_pairs: P, which divides the width of every family; 0 for the width of the narrowest one.
    """

    visits_per_user: int = 0
    n_pairs: int = field(default=0, metadata={UNNAMED: 0})
    layers: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = [family.width for family in self.families]
        if self.n_pairs < 0:
            raise ValueError(f"n_pairs must be at least 0, got {self.n_pairs}; leave it out")
        if self.visits_per_user < 0 or (self.visits_per_user and any(width % self.limited for width in widths)):
            raise ValueError(
                f"visits_per_user must be 0 unless the narrowest family's width divides all others, got "
                f"{self.visits_per_user} with widths {widths}; a cell's visits would not be limited"
            )

    @property
    def limited(self) -> int:
        """Number of pairs whose visits are limited: cells modulo this number."""
        return self.n_pairs if self.n_pairs and self.visits_per_user else min(f.width for f in self.families)

    @property
    def assumption(self) -> str:
        """Assumption of the counts on the environment, for the certificate."""
        pooled = "the environment is the same at every step, and counts are summed over steps"
        return "; ".join([pooled, *([_PUBLIC_SUCCESSORS] if self.ranked else []), _HOLDS_ANYWAY])

    def row(self, n_families: int = 1) -> Sensitivity:
        """Sensitivity of everything that one user adds to `n_families` families."""
        full, most, rest = self._visits
        steps, squares = full * most + rest, full * most**2 + rest**2
        cells = min(2 * steps, self.block)
        l1, l2 = float(2 * steps * n_families), math.sqrt(2 * squares * n_families)
        # Counts that rise and counts that fall are half of the change each; this matters only with a rest.
        groups = 2 * n_families if rest else 1
        return Sensitivity(l1, l2, float(most), cells * n_families, groups=groups)

    @property
    def _visits(self) -> tuple[int, int, int]:
        """Worst-case visits of one user: number of cells with most visits, their visits, visits of one more cell."""
        most = min(self.visits_per_user or self.n_steps, self.n_steps)
        full, rest = divmod(min(self.n_steps, most * self.limited), most)
        return full, most, rest

    def change(self, norm: str) -> Step:
        """Return the step to the change of one family in a norm: that of `row`."""
        numbers = dict(zip(("cells", "visits", "rest"), map(float, self._visits), strict=True))
        sizes = "cells * visits**2 + rest**2" if norm == "l2" else "cells * visits + rest"
        if not numbers["rest"]:
            sizes, _ = sizes.partition(" + ")[0], numbers.pop("rest")
        return self._change(sizes, numbers, norm)

    def row_after_public_start(self, family: CountFamily) -> Sensitivity | None:
        """The same as `row`: a bound."""
        del family
        return self.row()

    def attains_row(self, family: CountFamily) -> bool:
        """Whether some pair of users attains `row` in a family."""
        return family.width > 1 and not self.visits_per_user


@dataclass(frozen=True)
class UserRecord:
    """One user's raw record. It stays on the client's side: only `send` takes it.

    Args:
        index: int64[n_steps, n_families], the cell of each family to which the user adds at each step.
        value: float64[n_steps, n_families], the amount, in [0, 1].
    """

    index: Int64Array = field(repr=False)
    value: Float64Array = field(repr=False)
