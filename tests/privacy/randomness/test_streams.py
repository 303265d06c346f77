"""Random streams: no two overlap, and none from the operating system leaves the process."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from dprl.privacy.randomness.bits import CHACHA20, SPLITMIX64
from dprl.privacy.randomness.streams import ANY, NOISE_STREAMS, STREAMS, UNNAMED, NoiseConfig, Streams, noise_identity

# SPLITMIX64, then the BLAKE2b digest of 'user_noise|0|golden', its second word made an increment.
GOLDEN_KEY = (0, 0x311B05A75A12B3F8, 0x6949D5102C9634E1, 0xCE6DC3751D22AD9F, 0x78CEED4A95E2AD18)


OS = NoiseConfig(entropy="os")


def key(streams: Streams, name: str) -> tuple[int, ...]:
    return tuple(int(word) for word in streams.key(name))


def test_streams_differ_by_name_seed_context_and_entropy() -> None:
    contexts = ("a", "b", "1|a", "0|a", "")
    keys = [
        key(Streams(seed, context, noise), name)
        for seed, context, noise, name in itertools.product((0, 1, 10), contexts, (NoiseConfig(), OS), STREAMS)
        if noise != OS or name in NOISE_STREAMS
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
    one, other = Streams(3, "a", OS), Streams(3, "a", OS)
    for name in NOISE_STREAMS:
        assert one.key(name)[0] == CHACHA20
        keys = [key(one, name), key(one, name), key(other, name)]
        assert len({word for k in keys for word in k[1:]}) == 12
    for name in set(STREAMS) - set(NOISE_STREAMS):
        assert key(one, name) == key(other, name) == key(Streams(3, "a"), name)


def test_all_noise_can_come_from_the_operating_system() -> None:
    assert set(STREAMS) - set(NOISE_STREAMS) == {"env", "exploration"}


@dataclass(frozen=True)
class Earlier:
    scale: float


@dataclass(frozen=True)
class Later:
    scale: float
    ranked: bool = field(default=False, metadata={UNNAMED: False})
    why: str = field(default="", metadata={UNNAMED: ANY})


def test_a_field_added_later_leaves_the_identity_of_earlier_noise_and_names_other_noise() -> None:
    assert noise_identity(Later(2.0)) == noise_identity(Earlier(2.0))
    assert noise_identity(Later(2.0, ranked=True)) != noise_identity(Later(2.0))
    assert noise_identity(Later(2.0, why="the choice")) == noise_identity(Earlier(2.0))


def test_a_field_that_comes_back_names_other_noise_again() -> None:
    @dataclass(frozen=True)
    class Gone:
        NAMED: ClassVar[dict[str, object]] = {"exact": False}

    @dataclass(frozen=True)
    class Back(Gone):
        exact: bool = False

    assert noise_identity(Gone()) == noise_identity(Back()) == "[exact=False]"
    assert noise_identity(Back(exact=True)) == "[exact=True]"


def test_keys_of_the_operating_system_are_not_written_down() -> None:
    # The object contains no key: its representation is the same before and after a draw.
    streams = Streams(3, "a", OS)
    before = (repr(streams), pickle.dumps(streams), vars(streams).copy())
    drawn = [key(streams, name) for name in NOISE_STREAMS]
    assert (repr(streams), pickle.dumps(streams), vars(streams)) == before
    assert pickle.dumps(streams) == pickle.dumps(Streams(3, "a", OS))
    travelled = pickle.loads(pickle.dumps(streams))
    assert not set(drawn) & {key(travelled, name) for name in NOISE_STREAMS}


def test_seeded_streams_travel() -> None:
    streams = Streams(3, "a")
    travelled = pickle.loads(pickle.dumps(streams))
    assert travelled == streams
    assert [key(travelled, name) for name in STREAMS] == [key(streams, name) for name in STREAMS]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(KeyError, match="unknown random stream"):
        Streams(0, "a").key("nois")
    with pytest.raises(ValueError, match=r"^seed must be a non-negative integer"):
        Streams(-1, "a")
    with pytest.raises(ValueError, match=r"^entropy must be one of seed, os, got 'operating system'"):
        NoiseConfig(entropy="operating system")  # type: ignore[arg-type]
