"""Schedule of releases: fixed in advance, and independent of users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.base import Int64Array, LedgerError

_MOST_RELEASES = 10**8
EVERY_USER = np.zeros(0, dtype=np.int64)
"""Times of a channel without a schedule: it may release after every user."""


@no_alloc_kernel
def next_plan(growth: float, block: int, episode: int) -> int:
    """Return the episode of the plan after that of `episode`: max(k + block, ceil(k (1 + growth)))."""
    return max(episode + block, math.ceil(episode * (1.0 + growth)))


@dataclass(frozen=True)
class ReleaseSchedule:
    """Releases for plans on a schedule: a plan before episode k reads the counts of users 1..k-1.

    Users between two releases form a block, and every user is in one block only. So a counter of n = `number` items
    releases everything that plans read, with the sensitivity of one user. Users after the last release are in no block.

    >>> ReleaseSchedule(0.01, 999_999).number, int(ReleaseSchedule(0.01, 999_999).times[-1])
    (982, 993257)

    Args:
        growth: the next plan is made when the number of episodes has grown by this share; at least 0.
        users: maximum number of users.
        block: minimum number of users between two plans.

    Raises ValueError unless growth >= 0, users >= 0 and block >= 1.
    """

    growth: float
    users: int
    block: int = 1

    def __post_init__(self) -> None:
        if not (0.0 <= self.growth < math.inf and self.users >= 0 and self.block >= 1):
            raise ValueError(f"a schedule must have growth >= 0, users >= 0 and block >= 1, got {self}; it has no end")
        # Plans are at least `block` apart, and from 1 / growth users on by a factor.
        most = self.users / self.block
        if self.growth > 0.0:
            most = min(most, 1.0 / self.growth + math.log1p(self.users) / math.log1p(self.growth))
        if most > _MOST_RELEASES:
            raise ValueError(f"a schedule must have at most {_MOST_RELEASES} releases, got {self}; plan more rarely")

    @property
    def times(self) -> Int64Array:
        """Numbers of users after which there is a release, int64[n], increasing, read-only."""
        return _times(float(self.growth), self.users, self.block)

    @property
    def number(self) -> int:
        """The number n of releases, at least 1."""
        return len(self.times)

    def releases_until(self, users: int) -> int:
        """Return the number of releases after at most `users` users, but at least 1."""
        return max(1, int(np.searchsorted(self.times, users, side="right")))

    def check_counter(self, n_items: int) -> None:
        """Raise LedgerError unless a counter of `n_items` items has one for each release."""
        if n_items != self.number:
            rule = f"the counter must have an item for each of {self.number} releases"
            raise LedgerError(f"{rule}, got {n_items}; build it for the schedule")


@lru_cache(maxsize=16)
def _times(growth: float, users: int, block: int) -> Int64Array:
    found = np.zeros(max(1, _plans(growth, users, block, EVERY_USER)), dtype=np.int64)
    if _plans(growth, users, block, found) == 0:
        found[0] = users  # no plan reads anything
    found.setflags(write=False)
    return found


@kernel
def _plans(growth: float, users: int, block: int, times: Int64Array) -> int:
    """Return the number of plans that read counts of at most `users` users; write their numbers of users to `times`."""
    found, episode = 0, next_plan(growth, block, 1)
    while episode <= users + 1:
        if found < times.shape[0]:
            times[found] = episode - 1
        found, episode = found + 1, next_plan(growth, block, episode)
    return found


@no_alloc_kernel
def release_number(times: Int64Array, users: int) -> int:
    """Return the 1-based number of the release after `users` users, 0 if there is none."""
    if times.shape[0] == 0:
        return users
    low, high = 0, times.shape[0]
    while low < high:
        middle = (low + high) // 2
        if times[middle] < users:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < times.shape[0] and times[low] == users else 0


@no_alloc_kernel
def required_release(times: Int64Array, users: int) -> int:
    """Return the number of the release after `users` users; raise LedgerError if none is scheduled and so charged."""
    number = release_number(times, users)
    if users > 0 and number == 0:
        raise LedgerError("the schedule has no release after these users, and none was charged; read at another time")
    return number
