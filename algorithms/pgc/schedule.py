"""Which parameters an agent starts from: a rule of public numbers, so that parallel and sequential runs are one run.

Messages are applied in the order of their slots 1, 2, ... The agent of slot i starts from the parameters after the
first max(0, i - 1 - staleness) messages, however many workers there are and whoever ends first.
"""

from __future__ import annotations

from typing import NamedTuple

from dprl.algorithms.base import check_whole
from dprl.privacy.compiled import inlined

LARGEST_STALENESS, LARGEST_BUFFER = 10_000, 100_000


class Schedule(NamedTuple):
    """The deterministic schedule.

    Args:
        staleness: s, how many messages before its own an agent does not wait for; 8 with the paper's 9 threads.
        buffer_size: |B|, how many messages make one update.
    """

    staleness: int
    buffer_size: int

    @property
    def versions_kept(self) -> int:
        """How many versions of the parameters agents may still have to start from."""
        return -(-self.staleness // self.buffer_size) + 1

    @property
    def most_waiting(self) -> int:
        """How many agents can have begun whose messages are not applied yet."""
        return self.staleness + self.buffer_size

    def checked(self) -> Schedule:
        """Return this schedule; raise ValueError, in one line, if its numbers are out of range."""
        check_whole("staleness", self.staleness, 0, LARGEST_STALENESS)
        check_whole("buffer_size", self.buffer_size, 1, LARGEST_BUFFER)
        return self


@inlined
def version_of(schedule: Schedule, slot: int) -> int:
    """Return how many updates lie before the parameters that the agent of `slot` starts from."""
    # D16: sec. 4 applies messages in the order in which nine threads finish, which tells how long episodes were.
    return max(0, slot - 1 - schedule.staleness) // schedule.buffer_size


@inlined
def last_startable(schedule: Schedule, applied: int) -> int:
    """Return the last slot whose agent can start once the messages of slots 1..applied are in."""
    return schedule.staleness + (applied // schedule.buffer_size + 1) * schedule.buffer_size
