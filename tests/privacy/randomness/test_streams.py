"""Random streams: known answers, and no two that meet."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy import Streams
from dprl.privacy.randomness.streams import STREAMS, fill_uniform, random_bits


def test_known_answers_of_splitmix64() -> None:
    # The published sequence for seed 1234567 (state is advanced before each output).
    key = np.uint64(1234567)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(random_bits(key, np.uint64(i))) for i in range(1, 5)] == expected


def test_streams_differ_by_name_seed_and_context() -> None:
    keys = {Streams(seed, context).key(name) for seed in (0, 1) for context in ("a", "b", "1|a") for name in STREAMS}
    assert len(keys) == 2 * 3 * len(STREAMS)


def test_unknown_stream_and_negative_seed_are_refused() -> None:
    with pytest.raises(KeyError, match="unknown random stream"):
        Streams(0, "a").key("nois")
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        Streams(-1, "a")


def test_uniforms_are_uniform_and_depend_on_position_only() -> None:
    # Chi-square over 64 bins at a fixed seed; 99.9 % point of 63 degrees of freedom is 103.4.
    key = Streams(7, "u").key("env")
    whole, part = np.empty(64_000), np.empty(100)
    fill_uniform(whole, key, np.uint64(0))
    fill_uniform(part, key, np.uint64(500))
    assert np.array_equal(whole[500:600], part)
    counts = np.histogram(whole, bins=64, range=(0, 1))[0]
    assert np.sum((counts - 1000) ** 2 / 1000) < 103.4
    assert whole.min() >= 0.0
    assert whole.max() < 1.0
