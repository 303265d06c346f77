"""What arrives in any order, and is taken in the order of its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class InOrder(Generic[T]):
    """Items with the numbers 1, 2, ..., each handed out when all before it have been.

    taken: the last number that was handed out before.
    """

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken
        self._waiting: dict[int, T] = {}

    def has(self, number: int) -> bool:
        """Return whether an item of this number was put in before, whatever has become of it."""
        return number <= self.taken or number in self._waiting

    def put(self, numbers: Iterable[int], items: Iterable[T]) -> list[T]:
        """Put items in, with their numbers, and return those that are next, in order."""
        self._waiting.update(zip(numbers, items, strict=True))
        ready: list[T] = []
        while self.taken + 1 in self._waiting:
            self.taken += 1
            ready.append(self._waiting.pop(self.taken))
        return ready
