"""Two worlds differ in planted leaks, and may differ in registered noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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


def test_a_registered_noisy_release_may_differ() -> None:
    assert differing_channels(honest, NOISY) == ()


def test_an_unregistered_one_may_not() -> None:
    assert differing_channels(honest) == ("gradient",)


def test_a_planted_leak_is_found() -> None:
    assert differing_channels(with_score, NOISY) == ("score",)


def test_the_number_of_messages_is_a_channel() -> None:
    assert differing_channels(with_short_episode, NOISY) == (ORDER,)


def test_the_size_of_a_noisy_message_is_a_channel() -> None:
    assert differing_channels(with_longer_gradient, NOISY) == ("gradient",)


def test_type_and_shape_are_part_of_a_message() -> None:
    assert Message.of("a", [1, 2]) != Message.of("a", [[1], [2]])
    assert Message.of("a", np.float32(0)) != Message.of("a", np.int32(0))
