"""Messages: the submissions that a client may send, and the messages that come back.

All are immutable and can be pickled, because clients may be in other processes.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Int64Array


@dataclass(frozen=True)
class SubmissionRange:
    """Submissions first..last (numbers from 1 on, inclusive), already charged and journaled.

    >>> two_users_in_turn = SubmissionRange(3, 6, users=2, issuer="a privatizer")
    >>> two_users_in_turn.agents
    array([1, 2, 1, 2])

    Each is sent once: give every part of the range to one client only. A submission that is not sent stays charged, and
    is replaced by one with another number.

    Args:
        first, last: the submissions. users: submission n is of user (n - 1) % users + 1.
        issuer: the privatizer that charged them.
    """

    first: int
    last: int
    users: int
    issuer: str = field(repr=False)

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def submissions(self) -> Int64Array:
        """Their numbers, int64[k]."""
        return np.arange(self.first, self.last + 1, dtype=np.int64)

    @property
    def agents(self) -> Int64Array:
        """The user of each of them, int64[k], 1-based."""
        return (self.submissions - 1) % self.users + 1

    def part(self, start: int, stop: int) -> SubmissionRange:
        """Return items start..stop-1 of the range, as of a list; raise ValueError if there are none."""
        if not 0 <= start < stop <= len(self):
            raise ValueError(f"start and stop must lie in 0..{len(self)}, start first, got {start} and {stop}")
        return SubmissionRange(self.first + start, self.first + stop - 1, self.users, self.issuer)

    def followed_by(self, more: SubmissionRange) -> SubmissionRange:
        """Return the union with the next range; raise ValueError if `more` is not that, or of another privatizer."""
        if more.first != self.last + 1 or more.issuer != self.issuer:
            raise ValueError(f"more must begin at {self.last + 1}, of the same privatizer, got {more}")
        return SubmissionRange(self.first, more.last, self.users, self.issuer)


@dataclass(frozen=True, eq=False)
class UserMessage:
    """The message of one user: noisy under local privacy, exact for a trusted server otherwise.

    >>> message = UserMessage(7, np.array([0.5, -1.0]), "a server")
    >>> UserMessage.from_json(message.to_json()).values
    array([ 0.5, -1. ])

    Args:
        user: its number, from 1 on. values: float64[m], copied and read-only. issuer: the privatizer that receives it.
    """

    user: int
    values: Float64Array = field(repr=False)
    issuer: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.frombuffer(self.values.tobytes(), dtype=np.float64))

    def __reduce__(self) -> tuple[object, ...]:
        # A copy must be as immutable as the original.
        return UserMessage, (self.user, self.values, self.issuer)

    def to_json(self) -> str:
        """Return the message as one line of JSON; `from_json` reads back the same bits."""
        return json.dumps({"user": self.user, "issuer": self.issuer, "values": self.values.tolist()})

    @staticmethod
    def from_json(text: str | bytes) -> UserMessage:
        """Return the message that `to_json` wrote. Raises ValueError for anything else, and for infinite numbers."""
        try:
            found = json.loads(text)
            user, issuer, values = found["user"], found["issuer"], np.asarray(found["values"], dtype=np.float64)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            user, issuer, values = None, None, np.zeros(0)
        if type(user) is not int or not isinstance(issuer, str) or values.ndim != 1 or not np.isfinite(values).all():
            raise ValueError("a message must be JSON with user, issuer and finite values, got another; see to_json")
        return UserMessage(user, values, issuer)


@dataclass(frozen=True, eq=False)
class PrivateMessages:
    """Messages that a privatizer may accept, of submissions that the ledger has charged.

    They are randomized, or clipped for a trusted server that only adds noise to their sum.

    >>> PrivateMessages(5, np.zeros((2, 3)), "a privatizer").submissions
    array([5, 6])

    Args:
        first: the submission of the first message; the others follow it.
        values: float64[k, m], copied and read-only: one row per message.
        issuer: the privatizer that accepts them.
    """

    first: int
    values: Float64Array = field(repr=False)
    issuer: str = field(repr=False)

    def __post_init__(self) -> None:
        kept = np.frombuffer(self.values.tobytes(), dtype=np.float64).reshape(self.values.shape)
        object.__setattr__(self, "values", kept)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def last(self) -> int:
        """The submission of the last message."""
        return self.first + len(self) - 1

    @property
    def submissions(self) -> Int64Array:
        """The submission of each message, int64[k]."""
        return np.arange(self.first, self.last + 1, dtype=np.int64)

    def __repr__(self) -> str:
        return f"PrivateMessages({len(self)} messages of {self.values.shape[1]} numbers)"

    def __reduce__(self) -> tuple[object, ...]:
        # A copy must be as immutable as the original.
        return PrivateMessages, (self.first, self.values, self.issuer)


@dataclass(eq=False)
class RangeSet:
    """A set of whole numbers from 1 on; its memory grows with the number of ranges, not with the numbers in them.

    Adjacent ranges are merged, so numbers added in order are one range. All ranges include both ends.

    >>> charged = RangeSet()
    >>> charged.add(1, 10)
    >>> charged.add(11, 20)
    >>> charged.to_array(), charged.first_common(15, 30)
    (array([[ 1, 20]]), 15)
    """

    _firsts: list[int] = field(default_factory=list, init=False)
    _lasts: list[int] = field(default_factory=list, init=False)

    def to_array(self) -> npt.NDArray[np.int64]:
        """Return all ranges (first, last), ascending, as int64[r, 2]."""
        return np.array([self._firsts, self._lasts], dtype=np.int64).T

    @classmethod
    def from_array(cls, ranges: npt.NDArray[np.int64]) -> RangeSet:
        """Return the set of ranges (first, last) int64[r, 2]."""
        found = cls()
        for first, last in ranges.tolist():
            found.add(first, last)
        return found

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

    def add(self, first: int, last: int) -> None:
        """Add first..last, whether some of it is in the set or not; an empty range changes nothing."""
        if first > last:
            return
        # Ranges that overlap with the new one or are adjacent to it are merged.
        start, stop = bisect_left(self._lasts, first - 1), bisect_right(self._firsts, last + 1)
        if start < stop:
            first, last = min(first, self._firsts[start]), max(last, self._lasts[stop - 1])
        self._firsts[start:stop], self._lasts[start:stop] = [first], [last]
