"""The streams of exact noise on Gram matrices: one a stage, as stages have scales of their own."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from dprl.privacy.randomness.bits import SPLITMIX64, splitmix64_increment


def stage_key(key: npt.NDArray[np.uint64], stage: int) -> npt.NDArray[np.uint64]:
    """Return the key uint64[5] of a stage: a hash of the device's key, for the same generator.

    How many words a draw takes depends on its scale, so in one stream draws of two stages would share words.
    """
    digest = hashlib.blake2b(f"stage {stage}".encode(), key=key[1:].astype("<u8").tobytes(), digest_size=32).digest()
    own = np.concatenate([key[:1], np.frombuffer(digest, dtype="<u8").astype(np.uint64)])
    if own[0] == SPLITMIX64:
        own[2] = splitmix64_increment(int(own[2]))
    return own
