"""Exact coins: random bits are compared with the bits of a probability until they differ.

A coin Bernoulli(p) compares a uniform U in [0, 1), bit by bit, with p. The first 64 bits of both decide except with
probability 2^-64; then the next 64 are read, and so on. p is kept as its first 64 n bits ("limbs", most significant
first), computed with integers and rigorous bounds. If all of them tie, the coin is 0, so the distribution is exactly
Bernoulli(p rounded down to 64 n bits): for n = 4 the statistical distance per coin is below 2^-256.

Bits that resolve ties have numbers from RESERVED on; ordinary draw numbers stay below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprl.compiled import kernel
from dprl.privacy.randomness.bits import fill_bits

UInt64Array = npt.NDArray[np.uint64]
Approximation = Callable[[int], int]
"""Function of a number of bits that returns an integer within 1 of p * 2^bits."""

LIMBS = 4
LIMB_BITS = 64
RESERVED = np.uint64(1 << 63)
_REDUCED_BITS, _GUARD_BITS = 8, 64
_BLOCK = 256


def exp_minus(x: Fraction, bits: int) -> int:
    """Return an integer within 1 of exp(-x) * 2^bits, for x >= 0.

    x is halved m times until it is below 2^-8, where Taylor's series gains 8 bits per term; the sum is squared m times.
    The error of a term is at most 3 units of the working precision, and a squaring doubles the error and adds one unit,
    so with m + 64 guard bits the total stays below (3 terms + 4) 2^-64; the last rounding adds 1/2.
    """
    if x < 0:
        raise ValueError(f"x must be 0 or more, got {x}; exp(-x) would be above 1")
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1 + _REDUCED_BITS)
    precision = bits + halvings + _GUARD_BITS
    y = (x.numerator << precision) // (x.denominator << halvings)
    total = term = 1 << precision
    n = 0
    while term:
        n += 1
        term = (term * y >> precision) // n
        total += term if n % 2 == 0 else -term
    for _ in range(halvings):
        total = total * total >> precision
    return round_shift(total, precision - bits)


def round_shift(value: int, bits: int) -> int:
    """Return value / 2^bits, rounded to the nearest integer; bits > 0."""
    return (value + (1 << (bits - 1))) >> bits


def leading_bits(p: Approximation, bits: int) -> int:
    """Return floor(p * 2^bits), 0 < p < 1.

    The approximation gets more guard bits until both ends of its interval round down to the same integer. This
    terminates for every p that is not a multiple of 2^-bits.
    Raises ValueError for a p outside (0, 1), or one that equals such a multiple to 4096 bits.
    """
    guard = 32
    while guard <= 4096:
        value = p(bits + guard)
        low, high = (value - 1) >> guard, (value + 1) >> guard
        if low == high and 0 <= low < 1 << bits:
            return low
        guard *= 2
    raise ValueError("p must lie in (0, 1) and be no multiple of 2^-bits to 4096 bits")


def to_limbs(value: int, n_limbs: int) -> UInt64Array:
    """Return an integer below 2^(64 n_limbs) as uint64[n_limbs], most significant first."""
    return np.frombuffer(value.to_bytes(8 * n_limbs, "big"), dtype=">u8").astype(np.uint64)


@kernel
def bernoulli(limbs: np.ndarray, key: np.ndarray, first: np.uint64) -> bool:
    """Return one coin Bernoulli(p), p given by limbs uint64[n]; reads words first, first+1, ... until one differs."""
    word = np.empty(1, dtype=np.uint64)
    for j in range(limbs.shape[0]):
        fill_bits(word, key, first + np.uint64(j))
        if word[0] != limbs[j]:
            return bool(word[0] < limbs[j])
    return False


@kernel
def fill_bernoulli(out: np.ndarray, limbs: np.ndarray, key: np.ndarray, first: np.uint64) -> None:
    """Fill `out` bool[n] with coins number first, first+1, ... of `key`, Bernoulli(p), p given by limbs uint64[m].

    *Formal guarantee.* Each is an exact Bernoulli(p rounded down to 64 m bits), independent of the others if the
    generator's words are independent.
    """
    words = np.empty(min(_BLOCK, out.shape[0]), dtype=np.uint64)
    further = np.uint64(limbs.shape[0] - 1)
    for start in range(0, out.shape[0], _BLOCK):
        part = out[start : start + _BLOCK]
        drawn = words[: part.shape[0]]
        fill_bits(drawn, key, first + np.uint64(start))
        ties = np.int64(0)
        for i in range(part.shape[0]):
            part[i] = drawn[i] < limbs[0]
            ties += np.int64(drawn[i] == limbs[0])
        if ties > 0:
            for i in range(part.shape[0]):
                if drawn[i] == limbs[0]:
                    number = first + np.uint64(start + i)
                    part[i] = bernoulli(limbs[1:], key, RESERVED + number * further)


@kernel
def stochastic_round(value: float, bits: np.uint64) -> float:
    """Return 0.0 or 1.0 with mean `value` in [0, 1], from 64 random bits.

    It is exact for every float64 that is a multiple of 2^-63, so for 0, 1 and all from 2^-11 on; a smaller value is
    first rounded down to such a multiple, a bias below 2^-63. The bits must be the user's own and must not be reused.

    *Formal guarantee.* None: it prepares a user's own number for a mechanism on integers, so that sensitivities for
    values in {0, 1} hold.
    """
    return np.float64((bits >> np.uint64(1)) < np.uint64(value * 9223372036854775808.0))
