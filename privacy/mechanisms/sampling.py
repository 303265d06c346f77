"""Sampling of all additive noise of counters, messages and gradients."""

from __future__ import annotations

from ctypes import c_void_p

import numpy as np
from numba.np.numpy_support import carray

from dprl.compiled import JIT_DISABLED, extern_kernel, no_alloc_kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.laplace import FourRows, Laplace, extend_laplace
from dprl.privacy.mechanisms.samplers import NO_NOISE, Noise, draw_compiled, draw_plainly
from dprl.privacy.randomness.bits import KEY_WORDS, require_generator

# Cells drawn and added at a time: few calls, and a few kB that stay in a near cache.
BLOCK = 2048
_LAPLACE = Laplace.law
SILENT = Noise(NO_NOISE, 0.0, 0.0, np.zeros(5, dtype=np.uint64), np.zeros(0, dtype=np.uint64))


@no_alloc_kernel
def fill_noise(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with draws number first, first+1, ... of `noise`; zeros for no noise.

    Draw number i is a function of the key and i only, and draws of different numbers are independent (two Gaussian
    draws may use the same two words, which give two independent numbers). Numbers are below 2^53.

    Raises ValueError for a law without a sampler here, and like `require_generator`, instead of leaving out noise.

    *Formal guarantee.* That of the mechanism that made `noise`.
    """
    # Addresses have no shape or type, so these lines reject strides, other lengths and other types.
    flat, words, thresholds = out.reshape(out.size), noise.key.reshape(KEY_WORDS), noise.table.reshape(noise.table.size)
    if flat.nbytes != 8 * flat.size or words.nbytes != 8 * KEY_WORDS or thresholds.nbytes != 8 * thresholds.size:
        raise ValueError("out, key and table must be of 64-bit numbers; take the noise from a mechanism")
    if noise.law == NO_NOISE:
        for i in range(flat.size):
            flat[i] = 0.0
        return
    require_generator(words)
    if JIT_DISABLED:
        done = draw_plainly(flat, noise, first)
    else:
        law, scale, bound, table = noise.law, noise.scale, noise.bound, thresholds.ctypes
        done = draw_compiled(flat.ctypes, flat.size, law, scale, bound, words.ctypes, table, thresholds.size, first)
    if done == 0:
        raise ValueError("law must be one of the codes of registered laws; take the noise from a mechanism")


@extern_kernel("int64(voidptr, voidptr, voidptr, voidptr, int64, voidptr, uint64, float64)")
def _extend(
    released: c_void_p,
    totals: c_void_p,
    parent: c_void_p,
    row: c_void_p,
    n: int,
    key: c_void_p,
    first: np.uint64,
    scale: float,
) -> int:
    sums = carray(released, (n,), np.float64), carray(totals, (n,), np.float64)
    rows = carray(parent, (n,), np.float64), carray(row, (n,), np.float64)
    extend_laplace(sums + rows, carray(key, (KEY_WORDS,), np.uint64), first, scale)
    return 1


@no_alloc_kernel
def _extend_by_laplace(rows: FourRows, noise: Noise, first: np.uint64, sign: float) -> None:
    """Like `extend_noise` for Laplace noise and two different rows, in one pass."""
    n = rows[0].size
    words = noise.key.reshape(KEY_WORDS)
    released, totals, parent, row = rows[0].reshape(n), rows[1].reshape(n), rows[2].reshape(n), rows[3].reshape(n)
    sizes = released.nbytes == totals.nbytes == parent.nbytes == row.nbytes == 8 * n
    if words.nbytes != 8 * KEY_WORDS or not sizes:
        raise ValueError("rows and key must be of 64-bit numbers; take the key from Streams.key")
    require_generator(words)
    if JIT_DISABLED:
        extend_laplace((released, totals, parent, row), words, first, sign * noise.scale)
    else:
        addresses = released.ctypes, totals.ctypes, parent.ctypes, row.ctypes
        _extend(*addresses, n, words.ctypes, first, sign * noise.scale)


@no_alloc_kernel
def extend_noise(
    released: Float64Array, totals: Float64Array, parent: Float64Array, row: Float64Array, noise: Noise, node: int
) -> None:
    """Set row = parent + the draws of node |node|, or minus them if `node` < 0, and released = totals + row.

    All are float64[n], contiguous; `row` may be `parent`. Node m draws the numbers m*n ... m*n + n - 1. Raises like
    `fill_noise`.

    *Formal guarantee.* That of the mechanism that made `noise`, for every node.
    """
    first, sign = np.uint64(abs(node)) * np.uint64(released.size), 1.0 if node > 0 else -1.0
    in_place = row.ctypes.data == parent.ctypes.data
    if noise.law == _LAPLACE and not in_place:
        _extend_by_laplace((released, totals, parent, row), noise, first, sign)
        return
    for start in range(0, released.size, BLOCK):
        stop = start + BLOCK
        out, total, above, kept = released[start:stop], totals[start:stop], parent[start:stop], row[start:stop]
        fill_noise(out, noise, first + np.uint64(start))
        if in_place:  # in one loop for both cases `kept` and `above` might overlap, which prevents vectorisation
            for i in range(out.shape[0]):
                kept[i] += sign * out[i]
            for i in range(out.shape[0]):
                out[i] = kept[i] + total[i]
        else:
            for i in range(out.shape[0]):
                changed = above[i] + sign * out[i]
                kept[i] = changed
                out[i] = changed + total[i]
