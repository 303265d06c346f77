"""Separate, named random streams: a draw is a pure function of (key, number), and every key belongs to one release.

Nothing has to be stored to resume a seeded run, and the order in which draws are made does not matter.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from dprl.privacy.randomness.bits import CHACHA20, KEY_WORDS, SPLITMIX64, splitmix64_increment

Entropy = Literal["seed", "os"]
STREAMS = ("env", "user_noise", "server_noise", "exploration")
NOISE_STREAMS = ("user_noise", "server_noise")
_ENTROPIES = ("seed", "os")
_SECRET_BYTES = 32


class _Secret:
    """A key from the operating system. It equals itself only, shows nothing, and cannot be written down or copied."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key = secrets.token_bytes(_SECRET_BYTES)

    def __repr__(self) -> str:
        return "_Secret()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys from the operating system are not written down; make new Streams where they are needed")


@dataclass(frozen=True)
class Streams:
    """The random streams of one run.

    With entropy 'seed' everything is a function of seed and context: fast, reproducible, and no secret: whoever knows
    the seed can subtract the noise. With entropy 'os' the keys of the noise come from the operating system, are used
    with a cryptographic generator, and are never written down; environment and exploration stay seeded.

    Args:
        seed: the run's seed, >= 0.
        context: what else tells this run from others (the digest of a grid cell and of the sources). Two releases with
            the same seed and context would share their noise, and their difference would be exact.
        entropy: 'seed' or 'os'.
    """

    seed: int
    context: str
    entropy: Entropy = "seed"
    _secret: _Secret | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be a non-negative integer, got {self.seed}; choose 0 or more")
        if self.entropy not in _ENTROPIES:
            raise ValueError(f"entropy must be one of {', '.join(_ENTROPIES)}, got {self.entropy!r}; choose one")
        object.__setattr__(self, "_secret", _Secret() if self.entropy == "os" else None)

    def key(self, stream: str) -> npt.NDArray[np.uint64]:
        """Return the key uint64[5] of a named stream; raise KeyError for a name that is not in STREAMS."""
        if stream not in STREAMS:
            raise KeyError(f"unknown random stream {stream!r}; the streams are {', '.join(STREAMS)}")
        secret = self._secret if stream in NOISE_STREAMS else None
        text = f"{stream}|{self.seed}|{self.context}".encode()
        digest = hashlib.blake2b(text, digest_size=32, key=secret.key if secret else b"").digest()
        key = np.empty(KEY_WORDS, dtype=np.uint64)
        key[1:] = np.frombuffer(digest, dtype="<u8")
        if secret:
            key[0] = CHACHA20
        else:
            key[0] = SPLITMIX64
            key[2] = splitmix64_increment(int(key[2]))
        return key
