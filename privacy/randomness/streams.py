"""Separate, named random streams: a draw is a pure function of (key, number), and every key belongs to one release.

Nothing has to be stored to resume a seeded run, and the order in which draws are made does not matter.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprl.privacy.randomness.bits import CHACHA20, KEY_WORDS, SPLITMIX64

Entropy = Literal["seed", "os"]
STREAMS = ("env", "user_noise", "server_noise", "exploration")
NOISE_STREAMS = ("user_noise", "server_noise")
_ENTROPIES = ("seed", "os")
_SECRET_BYTES = 32


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
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(_SECRET_BYTES), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be a non-negative integer, got {self.seed}; choose 0 or more")
        if self.entropy not in _ENTROPIES:
            raise ValueError(f"entropy must be one of {', '.join(_ENTROPIES)}, got {self.entropy!r}; choose one")

    def key(self, stream: str) -> npt.NDArray[np.uint64]:
        """Return the key uint64[5] of a named stream; raise KeyError for a name that is not in STREAMS."""
        if stream not in STREAMS:
            raise KeyError(f"unknown random stream {stream!r}; the streams are {', '.join(STREAMS)}")
        secret = self.entropy == "os" and stream in NOISE_STREAMS
        text = f"{stream}|{self.seed}|{self.context}".encode()
        digest = hashlib.blake2b(text, digest_size=32, key=self._secret if secret else b"").digest()
        key = np.empty(KEY_WORDS, dtype=np.uint64)
        key[0] = CHACHA20 if secret else SPLITMIX64
        key[1:] = np.frombuffer(digest, dtype=np.uint64)
        return key
