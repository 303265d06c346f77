"""What passes between the two sides of a gradient's way: a lease on submissions, and the messages that come back.

Both are issued in this room only, cannot be changed, and can be pickled: agents may live in other processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array


@dataclass(frozen=True)
class _LeaseSeal:
    """Made by the privatizer `issuer`."""

    issuer: str
    first: int
    last: int
    n_agents: int


@dataclass(frozen=True, eq=False)
class _MessagesSeal:
    """Made by a sender of the privatizer `issuer`: no other numbers can use it."""

    issuer: str
    first: int
    values: Float64Array = field(repr=False)


@dataclass(frozen=True)
class Lease:
    """Submissions first..last (numbers from 1 on, inclusive), which are charged and journaled already.

    To be sent once: hand each part of it to one sender. What is not sent stays charged; the agent's place is taken by
    another submission, never by the same number.

    Args:
        first, last: the submissions. n_agents: submission n is that of agent (n - 1) % n_agents + 1.
    """

    first: int
    last: int
    n_agents: int
    seal: _LeaseSeal = field(repr=False)

    def __post_init__(self) -> None:
        seal = self.seal
        if not isinstance(seal, _LeaseSeal) or (seal.first, seal.last, seal.n_agents) != (
            self.first,
            self.last,
            self.n_agents,
        ):
            raise TypeError("a Lease is issued by a GradientPrivatizer only; call lease")

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def submissions(self) -> Int64Array:
        """Their numbers, int64[k]."""
        return np.arange(self.first, self.last + 1, dtype=np.int64)

    @property
    def agents(self) -> Int64Array:
        """Who sends them, int64[k], 1-based."""
        return agents_of(self.submissions, self.n_agents)

    def part(self, start: int, stop: int) -> Lease:
        """Return the lease on items start..stop-1 of this one, as of a list; raise ValueError if it is empty."""
        if not 0 <= start < stop <= len(self):
            raise ValueError(f"start and stop must lie in 0..{len(self)}, start first, got {start} and {stop}")
        return issue_lease(self.seal.issuer, self.first + start, self.first + stop - 1, self.n_agents)

    def __reduce__(self) -> tuple[object, ...]:
        return issue_lease, (self.seal.issuer, self.first, self.last, self.n_agents)


@dataclass(frozen=True, eq=False)
class PrivateMessages:
    """Messages of agents that an aggregator may use: each went through a release that the ledger has charged.

    Args:
        first: the submission of the first one; the others follow it. values: float64[k, m], read-only: one row per
            message.
    """

    first: int
    values: Float64Array = field(repr=False)
    seal: _MessagesSeal = field(repr=False)

    def __post_init__(self) -> None:
        seal = self.seal
        if not isinstance(seal, _MessagesSeal) or seal.values is not self.values or seal.first != self.first:
            raise TypeError("PrivateMessages are issued by a GradientSender only; call send")

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def last(self) -> int:
        """The submission of the last one."""
        return self.first + len(self) - 1

    @property
    def submissions(self) -> Int64Array:
        """Their numbers, int64[k]."""
        return np.arange(self.first, self.last + 1, dtype=np.int64)

    def __repr__(self) -> str:
        return f"PrivateMessages({len(self)} messages of {self.values.shape[1]} numbers)"

    def __reduce__(self) -> tuple[object, ...]:
        # A copy must be as immutable as the original.
        return issue_private_messages, (self.seal.issuer, self.first, self.values)


def agents_of(submissions: Int64Array, n_agents: int) -> Int64Array:
    """Return whose submissions these are, int64[k], 1-based."""
    return (submissions - 1) % n_agents + 1


def issue_lease(issuer: str, first: int, last: int, n_agents: int) -> Lease:
    """Seal a lease; for privatizers only (an architecture test says so)."""
    return Lease(first, last, n_agents, _LeaseSeal(issuer, first, last, n_agents))


def issue_private_messages(issuer: str, first: int, values: Float64Array) -> PrivateMessages:
    """Seal a copy of the messages float64[k, m] of submissions first, first + 1, ...; for senders only (an
    architecture test says so).
    """
    kept = np.frombuffer(values.tobytes(), dtype=np.float64).reshape(values.shape)
    return PrivateMessages(first, kept, _MessagesSeal(issuer, first, kept))
