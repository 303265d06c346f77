"""Comparison of everything that leaves a user's side in two worlds with the same noise seeds.

Everything except registered noisy releases must have the same bytes for any two users: weights passed on, durations,
order, number and size of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ORDER = "order of messages"


@dataclass(frozen=True)
class Message:
    """Message that left the user's side: its channel, and its bytes."""

    channel: str
    content: bytes

    @staticmethod
    def of(channel: str, numbers: npt.ArrayLike) -> Message:
        """Return the message that consists of an array of numbers."""
        array = np.ascontiguousarray(numbers)
        return Message(channel, f"{array.dtype}{array.shape}".encode() + array.tobytes())


Recorder = Callable[[int], Sequence[Message]]
"""Function of the world, 0 or 1, that returns all messages leaving the users' side in order, with fixed noise seeds."""


def differing_channels(record: Recorder, noisy: Collection[str] = ()) -> tuple[str, ...]:
    """Return the channels that distinguish world 0 from world 1 with certainty, sorted.

    noisy: channels of registered noisy releases; their bytes may differ, their number, order and size may not.
    """
    first, second = record(0), record(1)
    if [message.channel for message in first] != [message.channel for message in second]:
        return (ORDER,)
    found = set()
    for one, other in zip(first, second, strict=True):
        same = len(one.content) == len(other.content) if one.channel in noisy else one.content == other.content
        if not same:
            found.add(one.channel)
    return tuple(sorted(found))
