"""Two worlds differ in planted leaks, and may differ in registered noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.channels import ORDER, Message, differing_channels

NOISY = frozenset({"gradient"})


def honest(world: int) -> Sequence[Message]:
    """The gradient is noisy and differs; what else is sent is public."""
    rng = np.random.default_rng(0)
    return [Message.of("gradient", rng.laplace(size=3) + world), Message.of("round", 7)]


def with_score(world: int) -> Sequence[Message]:
    return [*honest(world), Message.of("score", 100.0 + world)]


def with_short_episode(world: int) -> Sequence[Message]:
    return [*honest(world), *([Message.of("idle", 0)] if world else [])]


def with_longer_gradient(world: int) -> Sequence[Message]:
    return [Message.of("gradient", np.zeros(3 + world))]


@pytest.mark.parametrize(
    ("send", "noisy", "found"),
    [
        (honest, NOISY, ()),
        (honest, frozenset(), ("gradient",)),
        (with_score, NOISY, ("score",)),
        (with_short_episode, NOISY, (ORDER,)),  # the number of messages is a channel
        (with_longer_gradient, NOISY, ("gradient",)),  # and so is the size of a noisy one
    ],
)
def test_all_that_differs_but_registered_noise_is_a_leak(send: Any, noisy: frozenset[str], found: Any) -> None:
    assert differing_channels(send, noisy) == found


def test_type_and_shape_are_part_of_a_message() -> None:
    assert Message.of("a", [1, 2]) != Message.of("a", [[1], [2]])
    assert Message.of("a", np.float32(0)) != Message.of("a", np.int32(0))
