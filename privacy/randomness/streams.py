"""Noise settings and named random streams: a draw is a pure function of (key, number); a key belongs to one release.

A seeded run resumes without stored state, and the order of draws does not matter.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from dprl.privacy.base import LedgerError, check_fields
from dprl.privacy.randomness.bits import CHACHA20, FORKED, KEY_WORDS, SPLITMIX64, splitmix64_increment

STREAMS = ("env", "user_noise", "user_coins", "server_noise", "exploration")
NOISE_STREAMS = ("user_noise", "user_coins", "server_noise")
_KEY_BYTES = 32


@dataclass(frozen=True)
class NoiseConfig:
    """Noise settings.

    >>> NoiseConfig("exact", "os").fit_for_release, NoiseConfig().fit_for_release
    (True, False)

    Args:
        arithmetic: 'fast': float64 noise, with a proof for real numbers. 'exact': whole numbers and exact coins, so
            that the proof is for the released numbers; values in [0, 1] become coins on the user's side.
        entropy: 'seed': reproducible, not secret. 'os': keys from the operating system for a cryptographic generator,
            never stored; such a run cannot be repeated or continued.
    """

    arithmetic: Literal["fast", "exact"] = "fast"
    entropy: Literal["seed", "os"] = "seed"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def fit_for_release(self) -> bool:
        """Whether the noise is fit for real users."""
        return self.arithmetic == "exact" and self.entropy == "os"


@dataclass(frozen=True)
class Streams:
    """The random streams of one run.

    With entropy 'seed' every key is a function of seed and context: fast and reproducible, but anyone who knows the
    seed can subtract the noise. With entropy 'os' every call for a noise key returns a new one from the operating
    system, for a cryptographic generator; environment and exploration stay seeded.

    >>> noise, again = Streams(7, "first cell").key("user_noise"), Streams(7, "first cell").key("user_noise")
    >>> other = Streams(7, "second cell").key("user_noise")
    >>> bool((noise == again).all()), bool((noise[1:] == other[1:]).any())
    (True, False)

    Args:
        seed: the run's seed, >= 0.
        context: further identity of the run (the digest of a grid cell and of the sources). Two releases with
            the same seed and context would share their noise, and their difference would be exact.
        noise: entropy and arithmetic of the noise.
    """

    seed: int
    context: str
    noise: NoiseConfig = field(default_factory=NoiseConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be a non-negative integer, got {self.seed}; choose 0 or more")

    def key(self, stream: str, purpose: str = "") -> npt.NDArray[Any]:
        """Return the key uint64[5] of a named stream; raise KeyError for a name that is not in STREAMS.

        purpose: each has another key. A key from the operating system is not stored: the caller has the only copy.
        """
        if stream not in STREAMS:
            raise KeyError(f"unknown random stream {stream!r}; the streams are {', '.join(STREAMS)}")
        if self.noise.entropy == "os" and stream in NOISE_STREAMS:
            key = np.empty(KEY_WORDS, dtype=np.int64)
            key[0] = CHACHA20
            key[1:] = np.frombuffer(secrets.token_bytes(_KEY_BYTES), dtype="<i8")
            # Every draw reads a key, so erasing it protects all privatizers of a process forked from this one.
            _secret_keys[id(key)] = key
            return key
        text = f"{stream}|{self.seed}|{len(self.context)}|{self.context}|{purpose}".encode()
        return _hashed(SPLITMIX64, text)


UNNAMED = "unnamed"
"""Key of a field's metadata: the value for which the field is left out of the identity of noise."""
ANY = ...
"""Stands for every value of a field there."""


def noise_identity(*parts: object) -> str:
    """Return text that identifies noise: registered names, fields by name, and floats to the last bit.

    It names no Python class, so renaming or moving one changes neither a key nor a journal. A field added later can be
    left out for one value by `metadata={UNNAMED: value}`, so that earlier noise keeps its identity, one that only
    affects the choice of the noise for all values by `{UNNAMED: ANY}`. `NAMED` has former fields with their value.

    parts: dataclass instances, tuples, numbers, strings or None, possibly nested. Raises TypeError for anything else,
    because its text might differ between two runs.
    """
    return "|".join(_identity(part) for part in parts)


def _identity(part: object) -> str:
    if isinstance(part, float):
        return float(part).hex()
    if part is None or isinstance(part, bool | int | str):
        return repr(part)
    if isinstance(part, tuple):
        return f"({','.join(_identity(one) for one in part)})"
    if not is_dataclass(part) or isinstance(part, type):
        raise TypeError(f"noise must be described by dataclasses, tuples, numbers and strings, got {type(part)}")
    unnamed = {entry.name: entry.metadata[UNNAMED] for entry in fields(part) if UNNAMED in entry.metadata}
    left_out = {name for name, value in unnamed.items() if value is ANY or value == getattr(part, name)}
    own = {entry.name: getattr(part, entry.name) for entry in fields(part) if entry.name not in left_out}
    registered = "" if "name" in own else getattr(part, "name", "")
    # A field that comes back counts, else noises that differ in it only would share a stream.
    named = {**getattr(part, "NAMED", {}), **own}
    return f"{registered}[{','.join(f'{name}={_identity(named[name])}' for name in sorted(named))}]"


_secret_keys: WeakValueDictionary[int, npt.NDArray[Any]] = WeakValueDictionary()


def _forget_secret_keys() -> None:
    for key in list(_secret_keys.values()):
        key[0], key[1:] = FORKED, 0
    _secret_keys.clear()


os.register_at_fork(after_in_child=_forget_secret_keys)


def derived_key(key: npt.NDArray[Any], purpose: str) -> npt.NDArray[Any]:
    """Return a key of the same generator, a cryptographic hash of `key` and a purpose: its draws may be public."""
    return _hashed(int(key[0]), f"{purpose}|".encode() + key.tobytes())


def block_generator(key: npt.NDArray[Any], number: int) -> np.random.Generator:
    """Return a NumPy generator for block `number` of a seeded stream, to draw sums of many draws.

    Raises LedgerError for a key from the operating system, because real users are never drawn in blocks.
    """
    if key[0] != SPLITMIX64:
        raise LedgerError("blocks of users are for seeded simulations, and this noise is real; use simulation: users")
    return np.random.Generator(np.random.Philox(counter=[0, 0, 0, number], key=key[1:3]))


def _hashed(generator: int, text: bytes) -> npt.NDArray[Any]:
    key = np.empty(KEY_WORDS, dtype=np.uint64 if generator == SPLITMIX64 else np.int64)
    key[0] = generator
    key[1:] = np.frombuffer(hashlib.blake2b(text, digest_size=_KEY_BYTES).digest(), dtype="<u8").view(key.dtype)
    if generator == SPLITMIX64:
        key[2] = splitmix64_increment(int(key[2]))
    return key
