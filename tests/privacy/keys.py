"""Keys of both generators with given words."""

from __future__ import annotations

import numpy as np

from dprl.privacy.randomness.bits import CHACHA20


def key_of(generator: int, *words: int) -> np.ndarray:
    """Return the key with these four words, of the generator's type."""
    return np.array([generator, *words], dtype=np.uint64).view(np.int64 if generator == CHACHA20 else np.uint64)
