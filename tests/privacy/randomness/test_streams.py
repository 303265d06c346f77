"""Random streams: no two that meet, and none from the operating system that leaves the process."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import asdict

import numpy as np
import pytest

from dprl.privacy.randomness.bits import CHACHA20, SPLITMIX64, fill_bits
from dprl.privacy.randomness.streams import NOISE_STREAMS, STREAMS, Streams

# SPLITMIX64, then the BLAKE2b digest of 'user_noise|0|golden', its second word made an increment.
GOLDEN_KEY = (0, 0xCF26B8DA99901304, 0x6772E71BE19D1B61, 0x59398AD7AE6C150F, 0x51E6EDEC8690268C)


def key(streams: Streams, name: str) -> tuple[int, ...]:
    return tuple(int(word) for word in streams.key(name))


def test_streams_differ_by_name_seed_context_and_entropy() -> None:
    contexts = ("a", "b", "1|a", "0|a", "")
    keys = [
        key(Streams(seed, context, entropy), name)
        for seed, context, entropy, name in itertools.product((0, 1, 10), contexts, ("seed", "os"), STREAMS)
        if entropy == "seed" or name in NOISE_STREAMS
    ]
    assert len(set(keys)) == len(keys)
    for word in range(1, 5):
        assert len({k[word] for k in keys}) == len(keys)


def test_seeded_keys_are_reproducible_and_of_the_fast_generator() -> None:
    for name in STREAMS:
        assert key(Streams(3, "a"), name) == key(Streams(3, "a"), name)
        assert Streams(3, "a").key(name)[0] == SPLITMIX64
        assert Streams(3, "a").key(name)[2] % 2 == 1
    assert Streams(3, "a") == Streams(3, "a")


def test_keys_do_not_change_from_version_to_version() -> None:
    # A change here changes every seeded run: records would differ from those that were published.
    assert key(Streams(0, "golden"), "user_noise") == GOLDEN_KEY


def test_keys_of_the_operating_system_are_cryptographic_and_new_every_time() -> None:
    one, other = Streams(3, "a", "os"), Streams(3, "a", "os")
    assert one != other
    for name in NOISE_STREAMS:
        assert one.key(name)[0] == CHACHA20
        assert key(one, name) == key(one, name)
        assert not set(key(one, name)[1:]) & set(key(other, name)[1:])
    for name in set(STREAMS) - set(NOISE_STREAMS):
        assert key(one, name) == key(other, name) == key(Streams(3, "a"), name)


def test_two_releases_share_no_draw() -> None:
    # 24,000 words of 64 bits: two equal ones by chance have probability 2e-11.
    drawn = []
    for streams in (Streams(0, "a"), Streams(1, "a"), Streams(0, "a", "os"), Streams(0, "a", "os")):
        for name in NOISE_STREAMS:
            out = np.empty(3000, dtype=np.uint64)
            fill_bits(out, streams.key(name), np.uint64(0))
            drawn.append(out)
    assert np.unique(np.concatenate(drawn)).size == 8 * 3000


def test_keys_of_the_operating_system_are_not_written_down() -> None:
    streams = Streams(3, "a", "os")
    for write in (pickle.dumps, copy.deepcopy, asdict):
        with pytest.raises(TypeError, match=r"^keys from the operating system are not written down"):
            write(streams)
    assert repr(streams) == "Streams(seed=3, context='a', entropy='os')"
    assert "key" not in repr(vars(streams))


def test_seeded_streams_travel() -> None:
    streams = Streams(3, "a")
    travelled = pickle.loads(pickle.dumps(streams))
    assert travelled == streams
    assert key(travelled, "env") == key(streams, "env")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(KeyError, match="unknown random stream"):
        Streams(0, "a").key("nois")
    with pytest.raises(ValueError, match=r"^seed must be a non-negative integer"):
        Streams(-1, "a")
    with pytest.raises(ValueError, match=r"^entropy must be one of seed, os, got 'operating system'"):
        Streams(0, "a", "operating system")  # type: ignore[arg-type]
