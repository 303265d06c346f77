"""What a counter is: the geometry of its noise decides what a user's row costs, and how far a prefix is off."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms.base import Mechanism, Noise, Sensitivity

# What the release kernel does for a counter.
EXACT, TREE, HONAKER, ROWS, BUFFERED = range(5)


class CounterState(NamedTuple):
    """A counter as the kernels see it.

    kind: one of the codes above; base: of a tree's digits (2: plain binary; odd: balanced digits); node: the noise of
    one node (of one row, for factorisations); rows float64[rows, cells]: noise kept; held int64[rows]: which prefix a
    row is for; coefficients float64[n]: of a recursion.
    """

    kind: int
    base: int
    node: Noise
    rows: Float64Array
    held: Int64Array
    coefficients: Float64Array

    def __repr__(self) -> str:
        # The generated one would print noise into a log.
        return f"CounterState(kind={self.kind}, {self.rows.shape} noise)"


class Counter(Protocol):
    """Releases running sums of the users' rows, one after every user. Frozen; `node` None is its mere geometry."""

    name: ClassVar[str]
    laws: ClassVar[tuple[int, ...]]
    """Which laws of noise its nodes can have."""

    @property
    def n_items(self) -> int:
        """T, how many users there will be at most."""

    @property
    def node(self) -> Mechanism | None:
        """The noise of every node; None for exact sums and for mere geometry."""

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return how much all that is noised changes if one user's row changes by `row`, for the worst user."""

    def user_sensitivity(self, item: int, row: Sensitivity) -> Sensitivity:
        """Return the same for user `item`, 1-based."""

    def profile(self) -> Float64Array:
        """Return the standard deviation of the noise of prefixes 1..T, float64[T], nodes having 1."""

    def error_bound(self, n_cells: int, beta: float) -> float:
        """Return E: with probability 1 - beta no released sum of any of n_cells cells is ever off by more."""

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the state before the first user."""
