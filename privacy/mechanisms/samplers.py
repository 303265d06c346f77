"""Samplers of additive noise by the code of their law, each compiled when its law is first used.

Kernels draw through one function that jumps to the sampler of the law. So no kernel is compiled with all samplers,
which took a quarter of a first run.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p
from types import FunctionType
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from numba.np.numpy_support import carray

from dprl.compiled import JIT_DISABLED, JumpTable, kernel, shows_numbers
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.bits import KEY_WORDS

NO_NOISE = 0
"""Law code of no noise."""


@shows_numbers
class Noise(NamedTuple):
    """Additive noise for kernels.

    law: code of its sampler, 0 for no noise; scale: in units of the number; bound: of a bounded law, or the hot cell of
    a unary encoding, else 0; key uint64[5]; table uint64[n]: of an exact sampler, empty for the others.
    """

    law: int
    scale: float
    bound: float
    key: npt.NDArray[np.uint64]
    table: npt.NDArray[np.uint64]

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


Sampler = Callable[[Float64Array, Noise, np.uint64], None]
_samplers: dict[int, Sampler] = {}


def draw_plainly(out: Float64Array, noise: Noise, first: np.uint64) -> int:
    """Fill `out` by the sampler of the law and return 1; return 0 if there is none. For uncompiled kernels."""
    fill = _samplers.get(noise.law)
    if fill is not None:
        fill(out, noise, first)
    return int(fill is not None)


_LAWS = 64
_SIGNATURE = "int64(voidptr, int64, int64, float64, float64, voidptr, voidptr, int64, uint64)"
_TABLE = JumpTable("dprl.noise", _SIGNATURE, place=2, size=_LAWS)
draw_compiled = _TABLE.call


def sampler(law: int) -> Callable[[Sampler], Sampler]:
    """Compile fill(out, noise, first) as a kernel and enter it as the sampler of a law's code, from 1 to 63.

    It fills `out` float64[n], contiguous, with the draws number first, first+1, ... of the law.
    """

    def decorate(fill: Sampler) -> Sampler:
        if law in _samplers or not 0 < law < _LAWS:
            raise ValueError(f"law must be a code from 1 to {_LAWS - 1} that no other law has, got {law}; take another")
        _samplers[law] = kernel(fill)
        filled = FunctionType(_filled.__code__, {**globals(), "fill": _samplers[law]}, _filled.__name__)
        filled.__qualname__ = f"{_filled.__name__}_{law}"  # part of the key in the on-disk cache
        _TABLE.add(law, filled)
        return _samplers[law]

    return decorate


def prepare(law: int) -> None:
    """Compile the sampler of a law, or load it from the disk. Call this before anything is drawn."""
    if not JIT_DISABLED:
        _TABLE.prepare(law)


# The name `fill` of the next function is the sampler of a law, see `sampler`.
def fill(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` with draws."""
    raise NotImplementedError


def _filled(
    out: c_void_p,
    n: int,
    law: int,
    scale: float,
    bound: float,
    key: c_void_p,
    table: c_void_p,
    n_table: int,
    first: np.uint64,
) -> int:
    words, thresholds = carray(key, (KEY_WORDS,), np.uint64), carray(table, (n_table,), np.uint64)
    fill(carray(out, (n,), np.float64), Noise(law, scale, bound, words, thresholds), first)
    return 1
