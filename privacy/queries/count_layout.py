"""Layout of counts: the families of cells to which an episode adds, and how they are sent.

A tabular learner needs N(h,s,a,s'), N(h,s,a) and R(h,s,a). Each released family costs a share of the budget, but with
a reward in [0, 1] as one more bit of the first family's cell, the others are sums of its cells: see `CountEncoding`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, Sensitivity
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.reports import UnaryEncoder
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
        """A part of the identity only: without it, a seed would draw other noise."""
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
        pooled = "the environment is the same at every step, and counts are summed over steps"
        return "; ".join([pooled, *([_PUBLIC_SUCCESSORS] if self.ranked else []), _HOLDS_ANYWAY])

    def row(self, n_families: int = 1) -> Sensitivity:
        steps, cells = self.n_steps, min(2 * self.n_steps, self.block) * n_families
        return Sensitivity(float(2 * steps * n_families), math.sqrt(2 * steps**2 * n_families), float(steps), cells)

    def explain(self) -> str:
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

    index: int64[n_steps, n_families], the cell of each family to which the user adds at each step.
    value: float64[n_steps, n_families], the amount, in [0, 1].
    """

    index: Int64Array = field(repr=False)
    value: Float64Array = field(repr=False)


# ---- what is sent ----

RELEASED_FAMILIES = ("separate", "one_hot")
_NO_BIT = -1


class Slots(NamedTuple):
    """An encoding for kernels.

    one_hot: 1 if every step sends one cell of one family; widths int64[F]: cells of each needed family;
    starts int64[F]: where each starts in a step of a message, unless one_hot; coins int64[F]: 1 where a value in [0, 1]
    becomes a coin of that probability; tossed: 1 if there is such a coin; bit: the family with the coin that chooses
    the half of a one-hot cell, or -1; block: cells of a step of a message; stride: distance of two steps in the sums,
    `block` or, where steps are pooled, 0; sums int64[F, 5]: see `collect`.
    """

    one_hot: int
    widths: Int64Array
    starts: Int64Array
    coins: Int64Array
    tossed: int
    bit: int
    block: int
    stride: int
    sums: Int64Array


@dataclass(frozen=True)
class CountEncoding:
    """The families that are sent and released instead of those that a learner needs.

    Args:
        needed: the learner's families.
        kind: 'separate': all of them. 'one_hot': one family that has all others as marginals; a family of values in
            [0, 1] becomes a coin that chooses between two cells (unbiased pre-processing by the user).
        whole: whether to send coins instead of values in [0, 1] if separate, too, so that all numbers are whole.

    Raises ValueError if the families do not allow it.
    """

    needed: CountFamilies
    kind: str = "separate"
    whole: bool = False

    def __post_init__(self) -> None:
        if self.kind not in RELEASED_FAMILIES:
            raise ValueError(f"families must be one of {', '.join(RELEASED_FAMILIES)}, got {self.kind!r}; choose one")
        needed = self.needed.families
        others = needed[1:] if self.kind == "one_hot" else ()
        if not all(family.marginal_of == needed[0].name for family in others):
            raise ValueError(f"families must be separate here, got {self.kind}; not all are marginals of the first")
        if sum(not family.indicator for family in others) > 1:
            raise ValueError(f"families must be separate here, got {self.kind}; two of them hold values")

    @property
    def released(self) -> CountFamilies:
        """The families that are sent and get noise."""
        if self.kind == "separate":
            return self.needed
        finest = self.needed.families[0]
        one = CountFamily(finest.name, finest.width)
        if not all(family.indicator for family in self.needed.families):
            one = CountFamily(f"{finest.name}_with_bit", 2 * finest.width)
        return replace(self.needed, families=(one,))

    def summands(self, family: CountFamily) -> int:
        """Return the number of released cells that add up to one cell of a needed family."""
        return self._sum_of(family)[1]

    def report_variance(self, report: Mechanism | UnaryEncoder, summands: int) -> float:
        """Return the variance that a user's report adds to a sum of released cells.

        For encodings of one-hot vectors it is the mean over the sums of a row; pooled ones have the bits of all steps.
        """
        if isinstance(report, UnaryEncoder):
            released = self.released
            return report.mean_variance(summands) * (released.n_steps // released.layers)
        return report.variance * summands

    def slots(self) -> Slots:
        """Return the encoding for kernels."""
        needed, released = self.needed.families, self.released
        one_hot = self.kind == "one_hot"
        valued = [i for i, family in enumerate(needed) if not family.indicator]
        coins = [self.whole or (one_hot and not family.indicator) for family in needed]
        sums = [[*self._sum_of(family), target] for family, target in zip(needed, self.needed.offsets(), strict=True)]
        return Slots(
            one_hot=int(one_hot),
            widths=np.array([family.width for family in needed], dtype=np.int64),
            starts=self.needed.offsets(),
            coins=np.array(coins, dtype=np.int64),
            tossed=int(any(coins)),
            bit=valued[0] if one_hot and valued else _NO_BIT,
            block=released.block,
            stride=0 if released.layers == 1 else released.block,
            sums=np.array(sums, dtype=np.int64),
        )

    @property
    def pooled(self) -> bool:
        """Whether the steps of an episode are counted together."""
        return self.needed.layers < self.needed.n_steps

    @property
    def integral(self) -> bool:
        """Whether all numbers sent are whole, for any data on the device."""
        return self.whole or self.kind == "one_hot"

    def _sum_of(self, family: CountFamily) -> list[int]:
        """Return [first released cell of a step, number of cells, their distance, width of the family]."""
        width, finest = family.width, self.needed.families[0].width
        if self.kind == "separate":
            return [int(self.needed.offsets()[self.needed.families.index(family)]), 1, 0, width]
        if not family.indicator:
            return [finest, finest // width, width, width]
        return [0, self.released.block // width, width, width]


@kernel
def bounded_value(value: float) -> float:
    """Return `value` limited to [0, 1]; NaN counts as 0. So the sensitivity holds for any data on a device."""
    if value >= 1.0:
        return 1.0
    return value if value > 0.0 else 0.0


@no_alloc_kernel
def bounded_index(index: int, width: int) -> int:
    """Return `index` moved into 0..width-1."""
    return min(max(index, 0), width - 1)


@no_alloc_kernel
def one_hot_index(slots: Slots, index: Int64Array, value: Float64Array, coins: Float64Array, step: int) -> int:
    """Client side: return the one cell of a step that a one-hot layout sends.

    coins float64[n_steps * F] are uniform on [0, 1): a value v becomes 1 with probability v, on a grid of 2^-53.
    """
    width = int(slots.widths[0])
    cell = bounded_index(index[step, 0], width)
    if slots.bit < 0:
        return cell
    coin = coins[step * slots.widths.shape[0] + slots.bit]
    return cell + (width if coin < bounded_value(value[step, slots.bit]) else 0)


@no_alloc_kernel
def add_record(slots: Slots, sums: Float64Array, index: Int64Array, value: Float64Array, coins: Float64Array) -> None:
    """Client side: add the encoding of a record to `sums` float64[layers * block]."""
    n_families = slots.widths.shape[0]
    for step in range(index.shape[0]):
        start = step * slots.stride
        if slots.one_hot != 0:
            sums[start + one_hot_index(slots, index, value, coins, step)] += 1.0
            continue
        for family in range(n_families):
            cell = bounded_index(index[step, family], int(slots.widths[family]))
            amount = bounded_value(value[step, family])
            if slots.coins[family] != 0:
                amount = 1.0 if coins[step * n_families + family] < amount else 0.0
            sums[start + int(slots.starts[family]) + cell] += amount


@no_alloc_kernel
def collect(needed: Float64Array, released: Float64Array, slots: Slots) -> None:
    """Sum the needed families float64[layers * block] from the released ones, of the same layout."""
    layers = released.shape[0] // slots.block
    needed_block = needed.shape[0] // layers
    for step in range(layers):
        source = released[step * slots.block : (step + 1) * slots.block]
        target = needed[step * needed_block : (step + 1) * needed_block]
        for family in range(slots.widths.shape[0]):
            first, summands, stride, width, start = slots.sums[family]
            out = target[start : start + width]
            cells = source[first : first + width]
            for i in range(width):
                out[i] = cells[i]
            for j in range(1, summands):
                cells = source[first + j * stride : first + j * stride + width]
                for i in range(width):
                    out[i] += cells[i]
