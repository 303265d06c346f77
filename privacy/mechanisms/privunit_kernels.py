"""The kernels of PrivUnit2: a direction, one in a cap or outside of it."""

from __future__ import annotations

import math
from ctypes import c_void_p

import numpy as np
from numba.np.numpy_support import carray

from dprl.compiled import JIT_DISABLED, extern_kernel, kernel, no_alloc_kernel
from dprl.privacy.mechanisms.clipping import finite_magnitude
from dprl.privacy.randomness.bits import KEY_WORDS, fill_bits, require_generator

_TWO_PI = 2.0 * math.pi


def privunit_workspace(dimension: int) -> tuple[int, int]:
    """Return how many numbers and words the kernels below work with; the words are three for two coordinates."""
    return 2 * dimension, 3 * ((dimension + 1) // 2)


@kernel
def fill_direction(out: np.ndarray, words: np.ndarray, key: np.ndarray, first: np.uint64) -> np.uint64:
    """Fill `out` float64[d] with a uniform direction from draws first, ...; return the number of the next draw.

    words: uint64[3 * ceil(d/2)], workspace. Box-Muller with radii that are accurate relative to their size, near 0 too:
    128 bits of a number in (0, 1/2), and one bit for the end of (0, 1) it is measured from.
    """
    fill_bits(words, key, first)
    total = 0.0
    for pair in range((out.shape[0] + 1) // 2):
        word = words[3 * pair]
        u = np.float64(word >> np.uint64(1)) * 2.0**-64 + (np.float64(words[3 * pair + 1]) + 0.5) * 2.0**-128
        energy = -math.log(u) if word & np.uint64(1) else -math.log1p(-u)
        radius = math.sqrt(2.0 * energy)
        angle = _TWO_PI * (np.float64(words[3 * pair + 2] >> np.uint64(11)) * 2.0**-53)
        out[2 * pair] = radius * math.cos(angle)
        total += out[2 * pair] ** 2
        if 2 * pair + 1 < out.shape[0]:
            out[2 * pair + 1] = radius * math.sin(angle)
            total += out[2 * pair + 1] ** 2
    length = math.sqrt(total)
    for i in range(out.shape[0]):
        out[i] /= length
    return first + np.uint64(words.shape[0])


@kernel
def unit_input(out: np.ndarray, vector: np.ndarray, words: np.ndarray, key: np.ndarray, first: np.uint64) -> np.uint64:
    """Fill `out` float64[d] with the direction of `vector`, or with a random one; return the next draw's number.

    The random direction is drawn whether it is needed or not: the time taken must not tell.
    """
    following = fill_direction(out, words, key, first)
    largest = finite_magnitude(vector)
    has_direction, size = largest > 0.0, largest if largest > 0.0 else 1.0
    total = 0.0
    for i in range(out.shape[0]):
        given = vector[i] / size if abs(vector[i]) < math.inf else 0.0
        out[i] = given if has_direction else out[i]
        total += out[i] * out[i]
    length = math.sqrt(total)
    for i in range(out.shape[0]):
        out[i] /= length
    return following


@kernel
def _coordinate(
    inside: bool, d: int, gamma: float, key: np.ndarray, first: np.uint64, words: np.ndarray
) -> tuple[float, np.uint64]:
    """Return t = <x, v> of a uniform x given its side of the cap's edge, and the next draw's number.

    Two coordinates of x have the polar form R (cos, sin) with R^2 = 1 - U^(2/(d-2)), so t = R cos(angle). Inside the
    cap R >= gamma and cos >= gamma, both drawn directly; the rest is rejection: exact, and fast for any cap.
    """
    exponent = 2.0 / (d - 2) if d > 2 else math.inf
    outer = (1.0 - gamma) * (1.0 + gamma) if inside else 1.0
    width = math.acos(gamma) if inside else math.pi
    number = first
    while True:
        fill_bits(words[:2], key, number)
        number += np.uint64(2)
        u = (np.float64(words[0] >> np.uint64(12)) + 0.5) * 2.0**-52
        angle = width * (np.float64(words[1] >> np.uint64(11)) * 2.0**-53)
        t = math.sqrt(1.0 - outer * math.exp(exponent * math.log(u))) * math.cos(angle)
        if (t >= gamma) == inside:
            return t, number


@kernel
def privunit_fast(
    out: np.ndarray,
    vector: np.ndarray,
    cap: tuple[float, float],
    key: np.ndarray,
    first: np.uint64,
    workspace: tuple[np.ndarray, np.ndarray],
) -> None:
    """Fill `out` float64[d] with PrivUnit's message for `vector`, from draws first, ... (2^32 are kept for it).

    cap: (probability, gamma); workspace: of the sizes of `privunit_workspace`.

    *Formal guarantee.* See PrivUnit; in real arithmetic.
    """
    d = out.shape[0]
    (probability, gamma), (numbers, words) = cap, workspace
    unit = numbers[:d]
    fill_bits(words[:1], key, first)
    inside = bool(np.float64(words[0] >> np.uint64(11)) * 2.0**-53 < probability)
    number = unit_input(unit, vector, words, key, first + np.uint64(1))
    t, number = _coordinate(inside, d, gamma, key, number, words)
    fill_direction(out, words, key, number)
    along = 0.0
    for i in range(d):
        along += out[i] * unit[i]
    total = 0.0
    for i in range(d):
        out[i] -= along * unit[i]
        total += out[i] * out[i]
    across = math.sqrt((1.0 - t) * (1.0 + t) / total)
    for i in range(d):
        out[i] = t * unit[i] + across * out[i]


@kernel
def privunit_exact(
    out: np.ndarray,
    vector: np.ndarray,
    cap: tuple[float, float],
    key: np.ndarray,
    first: np.uint64,
    workspace: tuple[np.ndarray, np.ndarray],
) -> None:
    """Fill `out` as privunit_fast does, with one of the directions that are drawn whatever `vector` is.

    *Formal guarantee.* See PrivUnit: rests on the coin and on the mass of the cap.
    """
    d = out.shape[0]
    (probability, gamma), (numbers, words) = cap, workspace
    unit, drawn = numbers[:d], numbers[d : 2 * d]
    fill_bits(words[:1], key, first)
    inside = bool(np.float64(words[0] >> np.uint64(11)) * 2.0**-53 < probability)
    number = unit_input(unit, vector, words, key, first + np.uint64(1))
    found_inside, found_outside = False, False
    # Both are always looked for: a stop at the one that is sent would reveal it by the time taken.
    while not (found_inside and found_outside):
        number = fill_direction(drawn, words, key, number)
        along = 0.0
        for i in range(d):
            along += drawn[i] * unit[i]
        in_cap = along >= gamma
        new = not found_inside if in_cap else not found_outside
        if in_cap:
            found_inside = True
        else:
            found_outside = True
        if new and in_cap == inside:
            for i in range(d):
                out[i] = drawn[i]


@extern_kernel("int64(voidptr, voidptr, int64, float64, float64, int64, voidptr, uint64, voidptr, voidptr, int64)")
def _send_direction(  # noqa: PLR0913 - numbers and addresses only
    out: c_void_p,
    vector: c_void_p,
    d: int,
    probability: float,
    gamma: float,
    exact: int,
    key: c_void_p,
    first: np.uint64,
    numbers: c_void_p,
    words: c_void_p,
    n_words: int,
) -> int:
    message, given = carray(out, (d,), np.float64), carray(vector, (d,), np.float64)
    workspace = carray(numbers, (2 * d,), np.float64), carray(words, (n_words,), np.uint64)
    cap, stream = (probability, gamma), carray(key, (KEY_WORDS,), np.uint64)
    if exact != 0:
        privunit_exact(message, given, cap, stream, first, workspace)
    else:
        privunit_fast(message, given, cap, stream, first, workspace)
    return 1


@no_alloc_kernel
def send_direction(  # noqa: PLR0913 - with its workspace
    out: np.ndarray,
    vector: np.ndarray,
    cap: tuple[float, float],
    exact: bool,
    key: np.ndarray,
    first: np.uint64,
    workspace: tuple[np.ndarray, np.ndarray],
) -> None:
    """Call `privunit_exact` or `privunit_fast`; raise as `require_generator` does.

    *Formal guarantee.* See PrivUnit.
    """
    numbers, words = workspace[0].reshape(2 * out.size), workspace[1].reshape(3 * ((out.size + 1) // 2))
    message, given, stream = out.reshape(out.size), vector.reshape(out.size), key.reshape(KEY_WORDS)
    require_generator(stream)
    if not JIT_DISABLED:
        addresses, work = (message.ctypes, given.ctypes), (numbers.ctypes, words.ctypes)
        _send_direction(*addresses, out.size, *cap, int(exact), stream.ctypes, first, *work, words.size)
    elif exact:
        privunit_exact(message, given, cap, stream, first, (numbers, words))
    else:
        privunit_fast(message, given, cap, stream, first, (numbers, words))
