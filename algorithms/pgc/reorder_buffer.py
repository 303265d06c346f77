"""Buffer for blocks that arrive in any order and are taken in the order of their slots."""

from __future__ import annotations

from typing import Generic, TypeVar

from dprl.privacy.ranges import RangeSet

T = TypeVar("T")


class ReorderBuffer(Generic[T]):
    """Blocks of consecutive slots; a block is released once all slots before it have been.

    Args:
        taken: slots 1..taken were released before.
    """

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken
        self._filled = RangeSet()
        self._filled.add(1, taken)
        self._waiting: dict[int, tuple[int, T]] = {}

    def has(self, first: int, last: int) -> bool:
        """Return whether one of the slots first..last was filled before."""
        return self._filled.first_common(first, last) is not None

    def put(self, first: int, last: int, block: T) -> list[T]:
        """Fill slots first..last with a block; return all blocks that are next, in order."""
        self._filled.add(first, last)
        self._waiting[first] = last, block
        ready: list[T] = []
        while self.taken + 1 in self._waiting:
            self.taken, following = self._waiting.pop(self.taken + 1)
            ready.append(following)
        return ready
