"""Random bits: draw number n of a key is always the same 64 bits.

A key is uint64[5]: the generator's code and 256 bits. SPLITMIX64 uses 127 of them (start and odd increment, as in the
paper's split generators) and is fast, statistically sound and *not* cryptographic. CHACHA20 uses all of them. A key
with the code FORKED was a secret key until its process was forked, and cannot be used (see `streams`).

Paper: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from ctypes import c_void_p

import numpy as np
from numba.np.numpy_support import carray

from dprl.compiled import JIT_DISABLED, JumpTable, extern_kernel, kernel, no_alloc_kernel
from dprl.privacy.base import LedgerError
from dprl.privacy.randomness.chacha20 import fill_chacha20

SPLITMIX64, CHACHA20, FORKED = 0, 1, 255
KEY_WORDS = 5
_FEWEST_TRANSITIONS = 24
_ALTERNATING = 0xAAAAAAAAAAAAAAAA
# Most runs are seeded. CHACHA20 took a tenth of the time to compile one, so it is compiled for its first key.
_SECRET_BITS = JumpTable("dprl.secret_bits", "int64(int64, voidptr, int64, voidptr, uint64)", place=0)
_draw_secret_bits = _SECRET_BITS.call


@no_alloc_kernel
def require_generator(key: np.ndarray) -> None:
    """Raise unless `key` uint64[5] begins with a generator's code. Called before any noise is drawn or released.

    Raises LedgerError for a key that this process inherited by a fork, and for a secret key in a process that has not
    compiled its generator, as one that made no such key; ValueError for any other array.
    """
    if key[0] == FORKED:
        raise LedgerError(
            "noise from the operating system is drawn in one process only, and this process was forked from it; "
            "build a new privatizer or sender here"
        )
    if key[0] != SPLITMIX64 and key[0] != CHACHA20:
        raise ValueError("key must begin with a generator's code, SPLITMIX64 or CHACHA20; take it from Streams.key")
    if key[0] == CHACHA20 and not JIT_DISABLED and _draw_secret_bits(CHACHA20, key.ctypes, 0, key.ctypes, 0) == 0:
        raise LedgerError("a secret key needs its generator compiled; take one from Streams.key in this process")


@kernel
def splitmix64(key: np.ndarray, number: np.uint64) -> np.uint64:
    """Return draw `number` of the stream that starts at key[1] with the odd increment key[2] | 1."""
    z = key[1] + number * (key[2] | np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


def splitmix64_increment(bits: int) -> int:
    """Return the increment of a SPLITMIX64 key from 64 random bits: odd, and with at least 24 bit transitions.

    An increment with long runs of equal bits, such as 1, changes too few bits for the mixer; like the paper, this flips
    every other bit of such increments.
    """
    odd = bits | 1
    return odd ^ _ALTERNATING if (odd ^ odd >> 1).bit_count() < _FEWEST_TRANSITIONS else odd


def prepare_secret_bits() -> None:
    """Compile CHACHA20, or load it from the disk. Call this before a key with its code is used."""
    if not JIT_DISABLED:
        _SECRET_BITS.prepare(CHACHA20)


def _fill_secret_bits(_: int, out: c_void_p, n: int, key: c_void_p, first: np.uint64) -> int:
    if n > 0:  # `require_generator` draws nothing
        fill_chacha20(carray(out, (n,), np.uint64), carray(key, (KEY_WORDS,), np.uint64), first)
    return 1


_SECRET_BITS.add(CHACHA20, _fill_secret_bits)


@kernel
def generate(out: np.ndarray, key: np.ndarray, first: np.uint64) -> int:
    """Fill bits like `fill_bits` and return 1; return 0 if key[0] is not the code of a prepared generator."""
    if key[0] == SPLITMIX64:
        for i in range(out.shape[0]):
            out[i] = splitmix64(key, first + np.uint64(i))
        return 1
    if key[0] == CHACHA20:
        if not JIT_DISABLED:
            return _draw_secret_bits(CHACHA20, out.ctypes, out.shape[0], key.ctypes, first)
        fill_chacha20(out, key, first)
        return 1
    return 0


@extern_kernel("int64(voidptr, int64, voidptr, uint64)")
def _generate(out: c_void_p, n: int, key: c_void_p, first: np.uint64) -> int:
    return generate(carray(out, (n,), np.uint64), carray(key, (KEY_WORDS,), np.uint64), first)


@no_alloc_kernel
def fill_bits(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` uint64[n], contiguous, with draws first, first+1, ... of `key`, all modulo 2^64.

    Raises like `require_generator`.
    """
    # Arrays are passed by address, so these checks reject strides, wrong lengths and other types.
    flat, words = out.reshape(out.size), key.reshape(KEY_WORDS)
    if flat.nbytes != 8 * flat.size or words.nbytes != 8 * KEY_WORDS:
        raise ValueError("out and key must be of 64-bit numbers; take the key from Streams.key")
    done = generate(flat, words, first) if JIT_DISABLED else _generate(flat.ctypes, flat.size, words.ctypes, first)
    if done == 0:
        require_generator(words)


@no_alloc_kernel
def fill_uniform(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with draws first, first+1, ..., uniform on the 2^53 points of [0, 1)."""
    bits = out.view(np.uint64)
    fill_bits(bits, key, first)
    for i in range(out.shape[0]):
        out[i] = np.float64(bits[i] >> np.uint64(11)) * 1.1102230246251565e-16
