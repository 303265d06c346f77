"""ChaCha20, a cryptographic generator: draw number n of a key is 64-bit word n % 8 of block n // 8.

The block function is that of RFC 8439. As in Bernstein's original, the block counter has 64 bits, and so has the nonce,
which is zero, because a key belongs to one stream. 32 blocks are computed side by side, word by word, so each word
fills two of the widest vector registers: about 1 ns per 64 bits, a quarter of it for reordering.

Paper: Bernstein, "ChaCha, a variant of Salsa20", 2008; RFC 8439 sec. 2.3.
"""

from __future__ import annotations

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel

# Blocks computed side by side. With 16 the rounds stall: 1.0 instead of 0.7 ns.
LANES = 32
WORDS_PER_BLOCK = 8
BATCH = LANES * WORDS_PER_BLOCK
_LAST_BLOCK = np.uint64(2**61 - 1)
_LOW_HALF = np.uint64(0xFFFFFFFF)
# "expand 32-byte k"
_CONSTANTS = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], dtype=np.uint32)


@no_alloc_kernel
def _quarter_round(x: np.ndarray, lane: int, a: int, b: int, c: int, d: int) -> None:
    """QUARTERROUND(a, b, c, d) of RFC 8439 sec. 2.2 on one lane."""
    xa, xb, xc, xd = x[a * LANES + lane], x[b * LANES + lane], x[c * LANES + lane], x[d * LANES + lane]
    xa = np.uint32(xa + xb)
    xd = np.uint32(xd ^ xa)
    xd = np.uint32((xd << np.uint32(16)) | (xd >> np.uint32(16)))
    xc = np.uint32(xc + xd)
    xb = np.uint32(xb ^ xc)
    xb = np.uint32((xb << np.uint32(12)) | (xb >> np.uint32(20)))
    xa = np.uint32(xa + xb)
    xd = np.uint32(xd ^ xa)
    xd = np.uint32((xd << np.uint32(8)) | (xd >> np.uint32(24)))
    xc = np.uint32(xc + xd)
    xb = np.uint32(xb ^ xc)
    xb = np.uint32((xb << np.uint32(7)) | (xb >> np.uint32(25)))
    x[a * LANES + lane], x[b * LANES + lane], x[c * LANES + lane], x[d * LANES + lane] = xa, xb, xc, xd


@kernel
def chacha20_blocks(words: np.ndarray, x: np.ndarray, state: np.ndarray) -> None:
    """Write the ChaCha20 block of each lane of `state` to `words` uint64[BATCH].

    All arrays are ordered word by word, the lanes side by side: `state`, and scratch `x`, uint32[16 * LANES].
    """
    for n in range(state.shape[0]):
        x[n] = state[n]
    for _ in range(10):
        # The distance between words is a constant, so the compiler knows that lanes do not overlap.
        for lane in range(LANES):
            _quarter_round(x, lane, 0, 4, 8, 12)
            _quarter_round(x, lane, 1, 5, 9, 13)
            _quarter_round(x, lane, 2, 6, 10, 14)
            _quarter_round(x, lane, 3, 7, 11, 15)
            _quarter_round(x, lane, 0, 5, 10, 15)
            _quarter_round(x, lane, 1, 6, 11, 12)
            _quarter_round(x, lane, 2, 7, 8, 13)
            _quarter_round(x, lane, 3, 4, 9, 14)
    for lane in range(LANES):
        for word in range(WORDS_PER_BLOCK):
            low, high = 2 * word * LANES + lane, (2 * word + 1) * LANES + lane
            upper = np.uint64(np.uint32(x[high] + state[high])) << np.uint64(32)
            words[word * LANES + lane] = np.uint64(np.uint32(x[low] + state[low])) | upper


@kernel
def fill_chacha20(out: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` uint64[n] with draws first, first+1, ... of `key`, modulo 2^64."""
    buffer = np.empty(2 * 16 * LANES, dtype=np.uint32)
    state, x = buffer[: 16 * LANES], buffer[16 * LANES :]
    words = np.empty(BATCH, dtype=np.uint64)
    # All lanes have the constants, key[1:5] (low halves first) and, as words 14 and 15, a nonce of zero.
    state[:] = np.uint32(0)
    for lane in range(LANES):
        for word in range(4):
            state[word * LANES + lane] = _CONSTANTS[word]
            state[(4 + 2 * word) * LANES + lane] = np.uint32(np.uint64(key[1 + word]) & _LOW_HALF)
            state[(5 + 2 * word) * LANES + lane] = np.uint32(np.uint64(key[1 + word]) >> np.uint64(32))
    done = 0
    while done < out.shape[0]:
        number = np.uint64(first) + np.uint64(done)
        skipped = np.int64(number & np.uint64(WORDS_PER_BLOCK - 1))
        taken = min(out.shape[0] - done, BATCH - skipped)
        # The lanes have the blocks block, block+1, ..., modulo 2^61, for draws 0 to 2^64 - 1.
        for lane in range(LANES):
            counter = ((number >> np.uint64(3)) + np.uint64(lane)) & _LAST_BLOCK
            state[12 * LANES + lane] = np.uint32(counter & _LOW_HALF)
            state[13 * LANES + lane] = np.uint32(counter >> np.uint64(32))
        chacha20_blocks(words, x, state)
        for i in range(taken):
            n = skipped + i
            out[done + i] = words[(n & 7) * LANES + (n >> 3)]
        done += taken
