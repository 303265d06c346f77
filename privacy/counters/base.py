"""What a counter is: the geometry of its noise decides what a user's row costs, and how far a prefix is off.

All counters release the exact running sums plus noise B w, with independent rows w; C with B C = A, the
lower-triangular matrix of ones, is how a user's row enters what the noise hides. A counter keeps noise, never sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms import laws_for
from dprl.privacy.mechanisms.base import NODE, Mechanism, Noise, Sensitivity

# Kinds of counter states in the release kernel. Checkpoints hold these numbers; 2 was a kind of earlier versions.
EXACT, TREE, ROWS, BUFFERED = 0, 1, 3, 4


class CounterState(NamedTuple):
    """A counter as the kernels see it; a copy of its arrays continues bit for bit.

    kind: one of the codes above; base: of a tree's digits (2: plain binary; odd: balanced digits); node: the noise of
    one node (of one row, for factorisations); rows float64[rows, cells]: noise kept; held int64[rows]: which prefix a
    row is for (trees), int64[1]: the prefix that all rows are for (recursions), else empty; coefficients float64[n]: of
    a recursion, else empty.
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


class Tally(NamedTuple):
    """How many users, or prefixes, have each of some whole numbers: values int64[n], rising, and numbers int64[n]."""

    values: Int64Array
    numbers: Int64Array

    @staticmethod
    def of(counts: Mapping[int, int]) -> Tally:
        """Return the tally of a mapping from value to number, without the values that nobody has."""
        held = sorted(value for value, number in counts.items() if number > 0)
        numbers = [counts[value] for value in held]
        return Tally(np.array(held, dtype=np.int64), np.array(numbers, dtype=np.int64))


class Counter(Protocol):
    """Releases running sums of the users' rows, one after every user. Frozen; `node` None is its mere geometry."""

    name: ClassVar[str]
    place: ClassVar[str]
    """Place of its noise, NODE or ROW: it takes the laws that may be used there."""
    keeps_integers: ClassVar[bool]
    """Whether integer nodes make the noise of every prefix an integer: what exact arithmetic needs."""

    @property
    def n_items(self) -> int:
        """T, how many users there will be at most."""

    @property
    def node(self) -> Mechanism | None:
        """The noise of every node; None for exact sums and for mere geometry."""

    def suited(self, norm: str) -> Counter:
        """Return the counter with what is left open in its geometry chosen for noise that pays by `norm`."""

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return how much all that is noised changes if one user's row changes by `row`, for the worst user."""

    def user_sensitivity(self, item: int, row: Sensitivity) -> Sensitivity:
        """Return the same for user `item`, 1-based."""

    @property
    def attained(self) -> bool:
        """Whether the released prefixes alone tell as much about some user as `sensitivity` charges."""

    def profile(self) -> Float64Array:
        """Return the standard deviation of the noise of prefixes 1..T, float64[T], nodes having 1.

        An array over users: for small T and for tests. Certificates use `errors`.
        """

    def errors(self) -> tuple[float, float]:
        """Return root mean square and maximum of the profile, in memory that does not grow with T.

        Except for the factorisations that keep a row of noise for each user when they run.
        """

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta none of n_cells sums of `summands` cells each is ever off by more.

        The sums are of different cells, so independent of each other. users: of how many prefixes, 1..users; all of
        them by default. For continuous noise also sums with weights in [-1, 1] that are fixed in advance: noises with
        symmetric, log-concave laws, which leave the convex symmetric set of small paths the sooner the larger a weight
        is. Paper: Anderson 1955.
        """

    def memory(self, n_cells: int) -> int:
        """Return how many bytes of noise `open` keeps."""

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Return the state before the first user."""


@runtime_checkable
class Tree(Protocol):
    """A counter whose users enter different numbers of nodes."""

    @property
    def levels(self) -> int:
        """How many nodes a user enters at most."""

    def losses(self) -> Tally:
        """Return how many users enter how many nodes."""

    def of_nodes(self, row: Sensitivity, nodes: int) -> Sensitivity:
        """Return what a user changes who enters `nodes` nodes, the user's row changing by `row`."""


def check_geometry(name: str, n_items: int, node: Mechanism | None, place: str) -> None:
    """Raise ValueError unless there is an item and the node's law may be used at `place`."""
    if n_items < 1:
        raise ValueError(f"n_items must be at least 1, got {n_items}; a counter counts at least one user")
    if node is not None and place not in node.places:
        other = "" if place == NODE else ", or counter: kary_tree"
        raise ValueError(
            f"counter: {name} takes {law_names(place)} noise only, got mechanism {node.name}; "
            f"write mechanism: gaussian{other}"
        )


def law_names(place: str) -> str:
    """Return the names of the laws of noise that a config can ask for at a place."""
    return " or ".join(law.name for law in laws_for(place))


def errors_of(pieces: Iterable[Float64Array]) -> tuple[float, float]:
    """Return root mean square and maximum of a profile that is given piece by piece."""
    squares, largest, length = [], 0.0, 0
    for piece in pieces:
        squares.append(float(piece @ piece))
        largest = max(largest, float(piece.max()))
        length += piece.size
    return math.sqrt(math.fsum(squares) / length), largest


def check_item(item: int, n_items: int) -> None:
    """Raise ValueError unless 1 <= item <= n_items."""
    if not 1 <= item <= n_items:
        raise ValueError(f"item must be in 1..{n_items}, got {item}; users are numbered from 1")


def node_of(counter: Counter) -> Mechanism:
    """Return the counter's node; raise ValueError for a mere geometry."""
    if counter.node is None:
        raise ValueError(f"node must be a mechanism, got None; calibrate the {counter.name} counter first")
    return counter.node
