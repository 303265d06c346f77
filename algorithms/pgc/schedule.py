"""Schedule of starting parameters, a rule on public numbers that makes parallel and sequential runs equal.

Messages are applied in the order of their slots 1, 2, ... The agent of slot i starts from the parameters after the
first max(0, i - 1 - staleness) messages, for any number of workers and any order of finishing.
"""

from __future__ import annotations

from typing import NamedTuple

from dprl.algorithms.base import check_whole
from dprl.compiled import kernel

LARGEST_STALENESS, LARGEST_BUFFER = 10_000, 100_000
AGENTS_PER_CALL, AGENTS_OF_ALL_CALLS = 9, 24


class Schedule(NamedTuple):
    """Deterministic schedule of starting parameters.

    Args:
        staleness: s, the number of messages before its own that an agent does not wait for; 8 with the paper's 9
        threads.
        buffer_size: |B|, messages per update.
    """

    staleness: int
    buffer_size: int

    @property
    def versions_kept(self) -> int:
        """Number of versions of the parameters that agents may still start from."""
        return -(-self.staleness // self.buffer_size) + 1

    @property
    def most_waiting(self) -> int:
        """Largest number of started agents without an applied message."""
        return self.staleness + self.buffer_size

    def checked(self) -> Schedule:
        """Return this schedule; raise ValueError if its numbers are out of range."""
        check_whole("staleness", self.staleness, 0, LARGEST_STALENESS)
        check_whole("buffer_size", self.buffer_size, 1, LARGEST_BUFFER)
        return self


def require_update(key: str, size: int, episodes: int) -> None:
    """Raise ValueError unless a run of that many episodes makes an update. key: the setting of an update's size."""
    if size > episodes:
        raise ValueError(
            f"{key} must be at most the number of episodes, got {size} with {episodes}: no update would be made; lower "
            "it, or run longer"
        )


@kernel
def version_of(schedule: Schedule, slot: int) -> int:
    """Return the number of updates in the starting parameters of the agent of `slot`."""
    # D16: sec. 4 applies messages in the order in which nine threads finish; this reveals the lengths of episodes.
    return max(0, slot - 1 - schedule.staleness) // schedule.buffer_size


@kernel
def last_startable(schedule: Schedule, applied: int) -> int:
    """Return the last slot that can start after the messages of slots 1..applied."""
    return schedule.staleness + (applied // schedule.buffer_size + 1) * schedule.buffer_size


class CallPlan(NamedTuple):
    """Number of agents per call to a runner, and the staleness that keeps all runners busy."""

    agents_per_call: int
    staleness: int


def call_plan(
    runners: int, calls_per_runner: int, buffer_size: int, agents_per_call: int | None, staleness: int | None
) -> CallPlan:
    """Return the number of agents per call and the staleness; None chooses a default.

    Without remote runners there is one pending call, else `runners * calls_per_runner`. The default staleness is the
    number of agents in all pending calls minus 1. The default number of agents per call is AGENTS_PER_CALL, but with
    one or two runners AGENTS_OF_ALL_CALLS divided by their number, and never more than a given staleness allows.
    Hence the default staleness is 8 without runners, as in the paper with nine threads, and 47 with one or two.

    Raises ValueError if a given staleness is out of range or leaves no room for a full call of every runner.
    """
    if staleness is not None:
        check_whole("staleness", staleness, 0, LARGEST_STALENESS)
    at_once = max(1, runners)
    if agents_per_call is None:
        agents_per_call = max(AGENTS_PER_CALL, AGENTS_OF_ALL_CALLS // runners) if runners else AGENTS_PER_CALL
        if staleness is not None:
            agents_per_call = max(1, min(agents_per_call, (staleness + buffer_size) // at_once))
    elif staleness is not None and agents_per_call * at_once > staleness + buffer_size:
        raise ValueError(
            f"agents_per_call must be at most {(staleness + buffer_size) // at_once} for {at_once} runners with "
            f"staleness {staleness} and buffer_size {buffer_size}, which let {staleness + buffer_size} agents play at "
            f"once, got {agents_per_call}; leave out agents_per_call or staleness"
        )
    if staleness is None:
        staleness = min(max(1, runners * calls_per_runner) * agents_per_call - 1, LARGEST_STALENESS)
    return CallPlan(agents_per_call, staleness)
