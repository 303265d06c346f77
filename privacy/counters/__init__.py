"""Counters: continual release of running sums, with the exact privacy and the exact error of each."""

from __future__ import annotations

from dprl.privacy.counters.base import Counter, CounterState
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counters.buffered_toeplitz import BufferedToeplitz
from dprl.privacy.counters.exact import ExactCounter
from dprl.privacy.counters.honaker import Honaker
from dprl.privacy.counters.kary_tree import KaryTree
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.counters.square_root import NormalizedSquareRoot, SquareRoot

AnyCounter = BinaryTree | KaryTree | Honaker | SquareRoot | NormalizedSquareRoot | BufferedToeplitz
COUNTERS: dict[str, type[AnyCounter]] = {
    counter.name: counter
    for counter in (BinaryTree, KaryTree, Honaker, SquareRoot, NormalizedSquareRoot, BufferedToeplitz)
}
"""What `counter` in a config can name."""

__all__ = [
    "COUNTERS",
    "AnyCounter",
    "BinaryTree",
    "BufferedToeplitz",
    "Counter",
    "CounterState",
    "ExactCounter",
    "Honaker",
    "KaryTree",
    "NormalizedSquareRoot",
    "SquareRoot",
    "release_prefix",
]
