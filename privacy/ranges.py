"""A set of whole numbers, kept as disjoint ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt


class RangeSet:
    """A set of whole numbers from 1 on; its memory grows with the number of ranges, not with the numbers in them.

    Adjacent ranges are merged, so numbers added in order are one range. All ranges include both ends.

    >>> charged = RangeSet()
    >>> charged.add(1, 10)
    >>> charged.add(11, 20)
    >>> charged.ranges, charged.size, charged.first_common(15, 30)
    ([(1, 20)], 20, 15)
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All ranges (first, last), ascending."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def to_array(self) -> npt.NDArray[np.int64]:
        """Return all ranges (first, last), ascending, as int64[r, 2]."""
        return np.array(self.ranges, dtype=np.int64).reshape(-1, 2)

    @classmethod
    def from_array(cls, ranges: npt.NDArray[np.int64]) -> RangeSet:
        """Return the set of ranges (first, last) int64[r, 2]."""
        found = cls()
        for first, last in ranges.tolist():
            found.add(first, last)
        return found

    @property
    def size(self) -> int:
        """Size of the set."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def last(self) -> int:
        """The largest number of the set, 0 if it is empty."""
        return self._lasts[-1] if self._lasts else 0

    def first_common(self, first: int, last: int) -> int | None:
        """Return the smallest number of first..last that is in the set, None if there is none."""
        i = bisect_left(self._lasts, first)
        if first > last or i == len(self._firsts) or self._firsts[i] > last:
            return None
        return max(first, self._firsts[i])

    def covers(self, first: int, last: int) -> bool:
        """Return whether all of first..last is in the set; an empty range is."""
        i = bisect_left(self._lasts, first)
        return first > last or (i < len(self._firsts) and self._firsts[i] <= first and last <= self._lasts[i])

    def add(self, first: int, last: int) -> None:
        """Add first..last, whether some of it is in the set or not; an empty range changes nothing."""
        if first > last:
            return
        # Ranges that overlap with the new one or are adjacent to it are merged.
        start, stop = bisect_left(self._lasts, first - 1), bisect_right(self._firsts, last + 1)
        if start < stop:
            first, last = min(first, self._firsts[start]), max(last, self._lasts[stop - 1])
        self._firsts[start:stop], self._lasts[start:stop] = [first], [last]
