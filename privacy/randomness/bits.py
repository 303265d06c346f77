"""Random bits: draw number n of a key is always the same 64 bits.

A key has five words: the generator's code and 256 bits. SPLITMIX64 uses 127 of them (start and odd increment, as in the
paper's split generators) and is fast, statistically sound and *not* cryptographic. CHACHA20 uses all of them. Keys of
SPLITMIX64 are uint64[5] and those of CHACHA20, secret keys, int64[5]: kernels are compiled with the generator of their
keys' type alone. A secret key of a process that was forked has the code FORKED and cannot be used (see `streams`).

Paper: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import types
from numba.extending import overload

from dprl.compiled import JIT_DISABLED, OPTIONS, kernel, no_alloc_kernel
from dprl.privacy.base import LedgerError
from dprl.privacy.randomness.chacha20 import fill_chacha20

SPLITMIX64, CHACHA20, FORKED = 0, 1, 255
KEY_WORDS = 5
_FEWEST_TRANSITIONS = 24
_ALTERNATING = 0xAAAAAAAAAAAAAAAA


def _code_for(key: np.ndarray) -> int:
    """Return the code of the generator of the key's type."""
    return SPLITMIX64 if key.dtype == np.uint64 else CHACHA20


if not JIT_DISABLED:

    @overload(_code_for, jit_options=cast("Any", OPTIONS), strict=False)
    def _code_of_type(key: Any) -> Any:  # noqa: ANN401 - a type of Numba's
        code = SPLITMIX64 if key.dtype == types.uint64 else CHACHA20
        return lambda key: code  # noqa: ARG005 - as `_code_for`


@no_alloc_kernel
def require_generator(key: np.ndarray) -> None:
    """Raise unless `key` begins with the code of its type's generator. Called before any noise is drawn or released.

    A sampler is called by its address, which loses errors, so everything that it would refuse is refused here.
    Raises LedgerError for a key that this process inherited by a fork, ValueError for any other array.
    """
    if key[0] == FORKED:
        raise LedgerError(
            "noise from the operating system is drawn in one process only, and this process was forked from it; "
            "build a new privatizer or sender here"
        )
    if key[0] != _code_for(key) or key.shape[0] != KEY_WORDS:
        raise ValueError("key must begin with the code of its generator; take it from Streams.key")


@kernel
def splitmix64(key: np.ndarray, number: np.uint64) -> np.uint64:
    """Return draw `number` of the stream that starts at key[1] with the odd increment key[2] | 1."""
    z = key[1] + number * (key[2] | np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


def _fill_seeded(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    for i in range(out.shape[0]):
        out[i] = splitmix64(key, first + np.uint64(i))


def _fill_secret(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    fill_chacha20(out, key, first)


def _fill(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` by the generator of the key's type."""
    (_fill_seeded if key.dtype == np.uint64 else _fill_secret)(out, key, first)


if not JIT_DISABLED:

    @overload(_fill, jit_options=cast("Any", OPTIONS), strict=False)
    def _fill_of_type(out: Any, key: Any, first: Any) -> Any:  # noqa: ANN401, ARG001 - types of Numba's
        """Compile the one generator of the key's type."""
        return _fill_seeded if key.dtype == types.uint64 else _fill_secret


def splitmix64_increment(bits: int) -> int:
    """Return the increment of a SPLITMIX64 key from 64 random bits: odd, and with at least 24 bit transitions.

    An increment with long runs of equal bits, such as 1, mixes too little; as in the paper, every other bit is flipped.
    """
    odd = bits | 1
    return odd ^ _ALTERNATING if (odd ^ odd >> 1).bit_count() < _FEWEST_TRANSITIONS else odd


@no_alloc_kernel
def fill_bits(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` uint64[n] with draws first, first+1, ... of `key`, modulo 2^64. Raises like `require_generator`."""
    require_generator(key)
    _fill(out, key, first)


@no_alloc_kernel
def fill_uniform(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with draws first, first+1, ..., uniform on the 2^53 points of [0, 1)."""
    bits = out.view(np.uint64)
    fill_bits(bits, key, first)
    for i in range(out.shape[0]):
        out[i] = np.float64(bits[i] >> np.uint64(11)) * 1.1102230246251565e-16
