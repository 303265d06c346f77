"""Base classes of counters: the geometry of the noise determines the cost of a row and the error of a prefix.

All counters release the exact running sums plus noise B w, with independent rows w. C, with B C = A, the
lower-triangular matrix of ones, describes how a user's row enters the noisy numbers. A counter stores noise, not sums.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from dprl.compiled import shows_numbers
from dprl.privacy.base import Float64Array, Int64Array, Sensitivity
from dprl.privacy.mechanisms import laws_for
from dprl.privacy.mechanisms.base import NODE, Mechanism
from dprl.privacy.mechanisms.sampling import SILENT, Noise

# Kinds of counter states in the release kernel, stored in checkpoints; 2 was a kind of earlier versions.
EXACT, TREE, ROWS, BUFFERED = 0, 1, 3, 4


@shows_numbers
class CounterState(NamedTuple):
    """A counter for kernels; a copy of its arrays continues bit for bit.

    kind: one of the codes above; base: of a tree's digits (2: binary; odd: balanced); node: the noise of one node (or
    row, for factorisations); rows float64[rows, cells]: stored noise; held int64[rows]: the prefix of each row (trees),
    int64[1]: the prefix of all rows (recursions), else empty; coefficients float64[n]: of a recursion, else empty.
    """

    kind: int
    base: int
    node: Noise
    rows: Float64Array
    held: Int64Array
    coefficients: Float64Array

    @property
    def changing(self) -> dict[str, np.ndarray]:
        """The arrays that change in a run; none if all noise is drawn at the start, or there is none."""
        return {} if self.kind in (ROWS, EXACT) else {"rows": self.rows, "held": self.held}


class Counter(ABC):
    """Releases running sums of the users' rows, one after every user. Frozen; without a `node` only a geometry."""

    name: ClassVar[str]
    place: ClassVar[str]
    """Place of its noise, NODE, ROW or GRID_ROW; it determines the possible laws."""
    most_items: ClassVar[int] = 2**53
    """Largest T; smaller for counters that compute with one number per user."""

    if TYPE_CHECKING:  # fields or properties

        @property
        def n_items(self) -> int:
            """T, the largest number of users."""

        @property
        def node(self) -> Mechanism | None:
            """The noise of every node; None for exact sums, and if only the geometry is needed."""

    def __post_init__(self) -> None:
        if not 1 <= self.n_items <= self.most_items:
            rule = f"counter: {self.name} takes 1 to {self.most_items:,} releases"
            raise ValueError(f"{rule}, got {self.n_items:,}; use kary_tree")
        if self.node is not None and self.place not in self.node.places:
            laws, other = law_names(self.place), "" if self.place == NODE else ", or counter: kary_tree"
            rule = f"counter: {self.name} takes {laws} noise only"
            raise ValueError(f"{rule}, got mechanism {self.node.name}; write mechanism: gaussian{other}")

    def suited(self, norm: str) -> Self:  # noqa: ARG002 - for counters with an open geometry
        """Return the counter with the geometry that is best for noise with a scale that grows with `norm`."""
        return self

    def calibrated(self, mechanism: type[Mechanism], epsilon: float, delta: float, row: Sensitivity) -> Self:
        """Return the counter with the least noise of class `mechanism` that is (epsilon, delta)-DP for `row`."""
        node = mechanism.calibrated(epsilon, delta, self.sensitivity(row))
        return cast("Self", replace(cast("Any", self), node=node))

    @abstractmethod
    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return the change of all noisy numbers if one user's row changes by `row`, for the worst user."""

    @abstractmethod
    def explain(self) -> str:
        """Return the one line that says how often, and why, a row of a user counts in the noisy numbers."""

    @property
    def attained(self) -> bool:
        """Whether the released prefixes reveal as much about some user as `sensitivity` charges.

        This is the case if prefixes and noisy numbers determine each other.
        """
        return True

    @property
    def levels(self) -> int:
        """Largest number of noisy sums of one cell that include a user; 1 if there are no such sums."""
        return 1

    @property
    def unit(self) -> float:
        """Unit of the noisy numbers and of their noise, in counts."""
        return 1.0

    @abstractmethod
    def profile(self) -> Float64Array:
        """Return the standard deviation of the noise of prefixes 1..T, float64[T], in units of a node's: for small T.

        Certificates use `errors`.
        """

    def errors(self) -> tuple[float, float]:
        """Return root mean square and maximum of the profile; memory grows with T only if that of a run does."""
        profile = self.profile()
        return math.sqrt(float(profile @ profile) / self.n_items), float(profile.max())

    @abstractmethod
    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta none of n_cells sums of `summands` cells each ever has a larger error.

        The sums are of different cells, so they are independent. users: number of prefixes, 1..users; all by default.
        For continuous noise it also holds for sums with weights in [-1, 1] that are fixed in advance: the larger a
        weight, the sooner noise with a symmetric, log-concave law leaves the convex symmetric set of small paths.
        Paper: Anderson 1955.
        """

    @abstractmethod
    def memory(self, n_cells: int) -> int:
        """Return the number of bytes of noise that `open` stores."""

    @abstractmethod
    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the state before the first user."""


@dataclass(frozen=True)
class ExactCounter(Counter):
    """Running sums without further noise (trust model none, or sums of reports that are already noisy).

    *Formal guarantee.* None by itself: its sums are as private as the rows.
    """

    n_items: int
    node: ClassVar[Mechanism | None] = None
    name: ClassVar[str] = "exact"
    place: ClassVar[str] = ""

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return `row`, because the difference of two sums reveals the row."""
        return row

    def explain(self) -> str:
        return "a row counts once: sums without further noise"

    def profile(self) -> Float64Array:
        return np.zeros(self.n_items)

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:  # noqa: ARG002
        return 0.0

    def memory(self, n_cells: int) -> int:  # noqa: ARG002 - as every counter
        return 0

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:  # noqa: ARG002 - as every counter
        return CounterState(EXACT, 2, SILENT, np.zeros((0, n_cells)), np.zeros(0, np.int64), np.zeros(0))


def law_names(place: str) -> str:
    """Return the names of the laws of noise that a config can use at a place."""
    return " or ".join(law.name for law in laws_for(place))


def node_of(counter: Counter) -> Mechanism:
    """Return the counter's node; raise ValueError if it has none."""
    if counter.node is None:
        raise ValueError(f"node must be a mechanism, got None; calibrate the {counter.name} counter first")
    return counter.node
