"""Counters: continual release of running sums, with the exact privacy and the exact error of each."""

from __future__ import annotations

from dprl.privacy.counters.base import Counter, CounterState
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counters.buffered_toeplitz import BufferedToeplitz
from dprl.privacy.counters.exact import ExactCounter
from dprl.privacy.counters.grid_square_root import GridSquareRoot
from dprl.privacy.counters.kary_tree import KaryTree
from dprl.privacy.counters.normalized_square_root import NormalizedSquareRoot
from dprl.privacy.counters.release import release_prefix

AnyCounter = BinaryTree | KaryTree | NormalizedSquareRoot | BufferedToeplitz | GridSquareRoot
COUNTERS: dict[str, type[AnyCounter]] = {
    counter.name: counter for counter in (BinaryTree, KaryTree, NormalizedSquareRoot, BufferedToeplitz)
}
"""Counters by their names in configs."""

EXACT_COUNTERS: dict[str, type[AnyCounter]] = {
    counter.name: counter for counter in (BinaryTree, KaryTree, GridSquareRoot)
}
"""The same for integer noise: those with exact releases."""

RETIRED = {"honaker": BufferedToeplitz.name, "square_root": BufferedToeplitz.name}
"""Counters of earlier versions, each with a counter that has at most its error for every number of users."""

__all__ = [
    "COUNTERS",
    "EXACT_COUNTERS",
    "RETIRED",
    "AnyCounter",
    "BinaryTree",
    "BufferedToeplitz",
    "Counter",
    "CounterState",
    "ExactCounter",
    "GridSquareRoot",
    "KaryTree",
    "NormalizedSquareRoot",
    "release_prefix",
]
