"""Submissions, the client that sends them, and its messages.

Submissions and messages are immutable and can be pickled, because clients may be in other processes.
"""

from __future__ import annotations

import json
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import Float64Array, Int64Array, LedgerError
from dprl.privacy.queries.base import CHARGED, SENT, Query
from dprl.privacy.randomness.streams import Streams


@dataclass(frozen=True)
class SubmissionRange:
    """Submissions first..last (numbers from 1 on, inclusive), already charged and journaled.

    >>> two_users_in_turn = SubmissionRange(3, 6, users=2, issuer="a privatizer")
    >>> two_users_in_turn.agents
    array([1, 2, 1, 2])

    Each is sent once: give every part of the range to one client. An unsent one stays charged; another replaces it.

    first, last: the submissions. users: submission n is of user (n - 1) % users + 1.
    issuer: the privatizer that charged them.
    """

    first: int
    last: int
    users: int
    issuer: str = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("first", "last", "users"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))

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


class Client:
    """The users' side in this process: turns their records into messages. For one thread.

    >>> from dprl.privacy import GradientLayout, GradientPrivacy, Streams
    >>> server = GradientPrivacy("ldp", 1e6, clip=2.0).build(GradientLayout(2), 3, Streams(0, "an example"))
    >>> messages = server.new_client().send(server.lease(1), np.array([[0.5, 0.0]]))
    >>> server.accept(messages).round(3)
    array([[0.5, 0. ]])

    *Formal guarantee.* Every message is that of the query for its submission: with noise, or without it for a trusted
    server that adds noise to sums. A submission is sent only once from here; give every part of a range to one client
    only. With entropy `seed`, all clients have the same keys, and a second one draws the same noise for a submission;
    with `os`, keys are drawn here, and a process forked from this one does not have them.

    query, streams: of the record and its noise. issuer: the privatizer that accepts the messages.
    """

    def __init__(self, query: Query, streams: Streams, issuer: str) -> None:
        self.issuer, self._query, self._sent = issuer, query.client_side, RangeSet()
        self._channel = self._query.open(streams)

    def send(self, lease: SubmissionRange, records: Sequence[Any] | Float64Array) -> PrivateMessages:
        """Return the messages of a range's submissions for their records: `UserRecord`s, or gradients float64[k, d].

        Raises LedgerError if one of them was sent here before, the lease is another privatizer's, or this process was
        forked from the one that took the keys; ValueError for records of another number or shape, which is public.
        """
        if len(records) != len(lease):
            raise ValueError(f"records must be {len(lease)}, one for each submission, got {len(records)}; send each")
        for record in records:
            self._query.check_record(record)
        if lease.issuer != self.issuer:
            raise LedgerError("a range is sent by clients of the privatizer that charged it")
        again = self._sent.first_common(lease.first, lease.last)
        if again is not None:
            raise LedgerError(f"submission {again} was sent already; a message that was lost takes a new number")
        self._sent.add(lease.first, lease.last)
        channel, values = self._channel, np.empty((len(lease), self._channel.message.size))
        for i, record in enumerate(records):
            channel.cursor[[CHARGED, SENT]] = lease.first + i, lease.first + i - 1
            self._query.send(channel, record, lease.first + i)
            values[i] = channel.message
        return PrivateMessages(lease.first, values, self.issuer)

    def __reduce__(self) -> NoReturn:
        # A copy would send other data under the same noise.
        raise LedgerError("a client cannot be copied or pickled; make a new one in each process")


@dataclass(frozen=True, eq=False)
class PrivateMessages:
    """Messages that a privatizer may accept, of submissions that the ledger has charged.

    They are randomized, or exact or clipped for a trusted server that only adds noise to their sum.

    >>> messages = PrivateMessages(5, np.zeros((2, 3)), "a privatizer")
    >>> messages.submissions, PrivateMessages.from_json(messages.to_json()).values.shape
    (array([5, 6]), (2, 3))

    Args:
        first: the submission of the first message; the others follow it.
        values: float64[k, m], copied and read-only: one row per message.
        issuer: the privatizer that accepts them.
    """

    first: int
    values: Float64Array = field(repr=False)
    issuer: str = field(repr=False)

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2:
            raise ValueError(f"values must be float64[k, m], got shape {values.shape}; give one row per message")
        # A fractional number would not be found among those that were accepted.
        object.__setattr__(self, "first", operator.index(self.first))
        object.__setattr__(self, "values", np.frombuffer(values.tobytes(), dtype=np.float64).reshape(values.shape))

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

    def to_json(self) -> str:
        """Return the messages as one line of JSON; `from_json` reads back the same bits."""
        return json.dumps({"first": self.first, "issuer": self.issuer, "values": self.values.tolist()})

    @staticmethod
    def from_json(text: str | bytes) -> PrivateMessages:
        """Return the messages that `to_json` wrote. Raises ValueError for anything else, and for infinite numbers."""
        try:
            found = json.loads(text)
            first, issuer, values = found["first"], found["issuer"], np.asarray(found["values"], dtype=np.float64)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            first, issuer, values = None, None, np.zeros((0, 0))
        if type(first) is not int or not isinstance(issuer, str) or values.ndim != 2 or not np.isfinite(values).all():
            raise ValueError("a message must be JSON with first, issuer and finite values, got another; see to_json")
        return PrivateMessages(first, values, issuer)


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
