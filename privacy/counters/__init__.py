"""Counters: continual release of running sums, with the exact privacy and the exact error of each."""

from __future__ import annotations

from dprl.privacy.counters.base import Counter, CounterState, ExactCounter
from dprl.privacy.counters.buffered_toeplitz import BufferedToeplitz
from dprl.privacy.counters.grid_toeplitz import GridToeplitz
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.counters.trees import BinaryTree, KaryTree

AnyCounter = BinaryTree | KaryTree | BufferedToeplitz | GridToeplitz
COUNTERS: dict[str, type[AnyCounter]] = {counter.name: counter for counter in (BinaryTree, KaryTree, BufferedToeplitz)}
"""Counters by their names in configs."""

EXACT_COUNTERS: dict[str, type[AnyCounter]] = {
    counter.name: counter for counter in (BinaryTree, KaryTree, GridToeplitz)
}
"""The same for integer noise: those with exact releases."""

__all__ = [
    "COUNTERS",
    "EXACT_COUNTERS",
    "AnyCounter",
    "BinaryTree",
    "BufferedToeplitz",
    "Counter",
    "CounterState",
    "ExactCounter",
    "GridToeplitz",
    "KaryTree",
    "release_prefix",
]
