"""Separate, named random streams: counter-based, so a draw is a pure function of (seed, context, stream, counter).

Nothing has to be stored to resume a run, and the order in which draws are made does not matter. The generator is
SplitMix64's output function on an arithmetic sequence: fast, statistically sound, *not* cryptographic. Whoever knows
the seed can subtract the noise; the certificate therefore says `entropy: seeded`.

Paper: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from dprl.privacy.compiled import kernel

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
STREAMS = ("env", "user_noise", "server_noise", "exploration")


@dataclass(frozen=True)
class Streams:
    """The random streams of one run.

    Args:
        seed: the run's seed, >= 0.
        context: what else tells this run from others (the digest of a grid cell and the index of a seed). Two
            releases with the same seed and context would share their noise, and their difference would be exact.
    """

    seed: int
    context: str

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be a non-negative integer, got {self.seed}; choose 0 or more")

    @property
    def entropy(self) -> str:
        """Where the randomness comes from, for the certificate."""
        return "seeded"

    def key(self, stream: str) -> np.uint64:
        """Return the 64-bit key of a named stream; raise KeyError for a name that is not in STREAMS."""
        if stream not in STREAMS:
            raise KeyError(f"unknown random stream {stream!r}; the streams are {', '.join(STREAMS)}")
        text = f"{stream}|{self.seed}|{self.context}".encode()
        return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


@kernel
def random_bits(key: np.uint64, counter: np.uint64) -> np.uint64:
    """Return draw number `counter` of the stream `key`: 64 uniform bits (SplitMix64)."""
    z = key + counter * GOLDEN_GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def fill_uniform(out: np.ndarray, key: np.uint64, first: np.uint64) -> None:
    """Fill `out` float64[n] with draws first, first+1, ... of the stream, uniform on the 2^53 points of [0, 1)."""
    for i in range(out.shape[0]):
        out[i] = np.float64(random_bits(key, first + np.uint64(i)) >> np.uint64(11)) * 1.1102230246251565e-16
