"""Additive noise for kernels: the samplers of all laws, and the one way to draw from them.

A kernel takes a law's sampler as a value, its address, and not by name. So kernels are compiled once for all laws, and
a run compiles the one sampler that it draws from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from numba import types

from dprl.compiled import kernel, no_alloc_kernel, shows_numbers, with_address
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.bits import require_generator

NO_NOISE = 0
"""Law code of no noise."""
# Cells drawn and added at a time: few calls, and a few kB that stay in a near cache.
BLOCK = 2048


@shows_numbers
class Noise(NamedTuple):
    """Additive noise for kernels, from `noise_of`.

    law: code, 0 for no noise; scale: in units of the number; bound: of a bounded law, or the hot cell of a unary
    encoding, else 0; key uint64[5] or, secret, int64[5]; table uint64[n]: of an exact sampler, empty for the others;
    draw: the address of the law's sampler for the key's type.

    draw(out, scale, bound, key, table, first) fills `out` float64[n], contiguous, with the draws number first, first+1,
    ... of the law. It returns 1, and 0 after an error, which an address loses otherwise.
    """

    law: int
    scale: float
    bound: float
    key: npt.NDArray[Any]
    table: npt.NDArray[np.uint64]
    draw: Any

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


F = TypeVar("F", bound=Callable[..., Any])
_draws: dict[int, Callable[..., int]] = {}


def sampler(law: int) -> Callable[[F], F]:
    """Enter fill(out, scale, bound, key, table, first) as the sampler of a law's code, see `Noise`."""

    def decorate(fill: F) -> F:
        if law in _draws:
            raise ValueError(f"law must be a code that no other law has, got {law}; take another")
        draw = FunctionType(_draw.__code__, {**globals(), "fill": kernel(fill)}, "draw")
        draw.__qualname__ = f"draw_{law}"  # the on-disk cache looks at it
        _draws[law] = draw
        return fill

    return decorate


# The name `fill` of the next function is that of a law, see `sampler`.
def fill(out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64) -> None:
    """Fill `out` with draws."""
    raise NotImplementedError


def _draw(out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64) -> int:
    fill(out, scale, bound, key, table, first)
    return 1


@cache
def _draw_of(law: int, secret: bool) -> Callable[..., int]:
    if law not in _draws:
        raise ValueError(f"law must be one of the codes of registered laws, got {law}; take the noise from a mechanism")
    key = types.int64[::1] if secret else types.uint64[::1]
    arguments = types.float64[::1], types.float64, types.float64, key, types.uint64[::1], types.uint64
    return with_address(_draws[law], types.int64(*arguments))


def noise_of(law: int, scale: float, bound: float, key: npt.NDArray[Any], table: npt.NDArray[np.uint64]) -> Noise:
    """Return the noise of a law with a sampler."""
    return Noise(law, scale, bound, key, table, _draw_of(law, key.dtype != np.uint64))


@sampler(NO_NOISE)
def _fill_zeros(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    for i in range(out.shape[0]):
        out[i] = 0.0


def silent(key: npt.NDArray[Any]) -> Noise:
    """Return no noise, with a key for other draws."""
    return noise_of(NO_NOISE, 0.0, 0.0, key, np.zeros(0, dtype=np.uint64))


SILENT = silent(np.zeros(5, dtype=np.uint64))


@no_alloc_kernel
def fill_noise(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with draws number first, first+1, ... of `noise`; zeros for no noise.

    Draw number i is a function of the key and i only, and draws of different numbers are independent (two Gaussian
    draws may use the same two words, which give two independent numbers). Numbers are below 2^53.
    Raises like `require_generator`, instead of leaving out noise.

    *Formal guarantee.* That of the mechanism that made `noise`.
    """
    if noise.law != NO_NOISE:
        require_generator(noise.key)
    if noise.draw(out, noise.scale, noise.bound, noise.key, noise.table, first) != 1:
        raise MemoryError("noise could not be drawn, so nothing is released")


@no_alloc_kernel
def extend_noise(
    released: Float64Array, totals: Float64Array, parent: Float64Array, row: Float64Array, noise: Noise, node: int
) -> None:
    """Set row = parent + the draws of node |node|, or minus them if `node` < 0, and released = totals + row.

    All are float64[n]; `row` may be `parent`. Node m draws the numbers m*n ... m*n + n - 1. Raises like `fill_noise`.

    *Formal guarantee.* That of the mechanism that made `noise`, for every node.
    """
    require_generator(noise.key)
    if not released.size == totals.size == parent.size == row.size:
        raise ValueError("rows must have the same number of cells; take them from the counter")
    first, sign = np.uint64(abs(node)) * np.uint64(released.size), 1.0 if node > 0 else -1.0
    for start in range(0, released.size, BLOCK):
        stop = start + BLOCK
        out, total, above, kept = released[start:stop], totals[start:stop], parent[start:stop], row[start:stop]
        fill_noise(out, noise, first + np.uint64(start))
        if row.ctypes.data == parent.ctypes.data:
            # In one loop for both cases `row` and `parent` might overlap, which prevents vectorisation.
            for i in range(out.shape[0]):
                kept[i] += sign * out[i]
            for i in range(out.shape[0]):
                out[i] = kept[i] + total[i]
        else:
            for i in range(out.shape[0]):
                changed = above[i] + sign * out[i]
                kept[i] = changed
                out[i] = changed + total[i]
