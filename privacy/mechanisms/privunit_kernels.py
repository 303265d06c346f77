"""The kernels of PrivUnit2: a random direction, inside or outside a cap."""

from __future__ import annotations

import math

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.mechanisms.clipping import dot, without_nonfinite
from dprl.privacy.mechanisms.gaussian import circle_point
from dprl.privacy.mechanisms.logarithm import log_of_reduced, reduced
from dprl.privacy.randomness.bits import fill_bits

# Trials of `_coordinate` that are drawn together with all other words; more are rarely needed.
_TRIALS = 8
_WORDS_BEFORE = 1 + 2 * _TRIALS
_LEAST_OF_UPPER = 1.0 - math.sqrt(0.5)


def privunit_workspace(dimension: int) -> tuple[int, int]:
    """Return the sizes of the kernels' workspace, in numbers and words."""
    return dimension, _WORDS_BEFORE + 3 * ((dimension + 1) // 2)


@kernel
def _exponential(word: np.uint64, low: np.uint64) -> float:
    """Return -log of a uniform number on (0, 1), with a small relative error even near 0; without branches.

    The uniform number is u or 1 - u, by the lowest bit of `word`; u in (0, 1/2) consists of the other 127 bits.
    """
    u = np.float64(np.int64(word >> np.uint64(1))) * 2.0**-64 + (np.float64(low) + 0.5) * 2.0**-128
    s, e = reduced(u)
    upper = u > _LEAST_OF_UPPER  # then log(1-u) = log(2-2u) - log 2
    t = (1.0 - 2.0 * u) / (3.0 - 2.0 * u) if upper else -u / (2.0 - u)
    near_one = (word & np.uint64(1)) == np.uint64(0)
    f = -1.0 if upper else 0.0
    return -log_of_reduced(t if near_one else s, f if near_one else e)


@kernel
def fill_normals(out: np.ndarray, words: np.ndarray) -> None:
    """Fill `out` float64[d] with independent standard normals by Box and Muller's method, from uint64[3 ceil(d/2)]."""
    d = out.shape[0]
    m = (d + 1) // 2
    high, low, angles = words[:m], words[m : 2 * m], words[2 * m : 3 * m]
    first, second = out[:m], out[m:]
    for i in range(d - m):
        radius = math.sqrt(_exponential(high[i], low[i]))
        x, y = circle_point(angles[i])
        first[i] = radius * x
        second[i] = radius * y
    if d - m < m:
        first[m - 1] = math.sqrt(_exponential(high[m - 1], low[m - 1])) * circle_point(angles[m - 1])[0]


@kernel
def _coordinate(inside: bool, d: int, gamma: float, key: np.ndarray, first: np.uint64, words: np.ndarray) -> float:
    """Return t = <x, v> for a uniform x given its side of the cap's edge, from `words` and further draws.

    Two coordinates of x have the polar form R (cos, sin) with R^2 = 1 - U^(2/(d-2)), so t = R cos(angle). Inside the
    cap R >= gamma and cos >= gamma, both drawn directly; the rest is rejection: exact, and fast for any cap.
    """
    exponent = 2.0 / (d - 2) if d > 2 else math.inf
    outer = (1.0 - gamma) * (1.0 + gamma) if inside else 1.0
    width = math.acos(gamma) if inside else math.pi
    number = first
    while True:
        for trial in range(words.shape[0] // 2):
            u = (np.float64(words[2 * trial] >> np.uint64(12)) + 0.5) * 2.0**-52
            angle = width * (np.float64(words[2 * trial + 1] >> np.uint64(11)) * 2.0**-53)
            t = math.sqrt(1.0 - outer * math.exp(exponent * math.log(u))) * math.cos(angle)
            if (t >= gamma) == inside:
                return t
        fill_bits(words, key, number)
        number += np.uint64(words.shape[0])


@kernel
def fill_privunit(
    out: np.ndarray,
    vector: np.ndarray,
    probability: float,
    gamma: float,
    key: np.ndarray,
    first: np.uint64,
    unit: np.ndarray,
    words: np.ndarray,
) -> None:
    """Fill `out` float64[d] with PrivUnit's message for `vector`, from draws first, ... (2^32 are reserved for it).

    probability, gamma: of the cap; unit, words: a workspace of the sizes of `privunit_workspace`. For a vector without
    direction, the message is the uniform direction, which is drawn for every vector.

    *Formal guarantee.* See PrivUnit; in real arithmetic.
    """
    d = out.shape[0]
    # The direction of the vector, or zeros.
    largest = without_nonfinite(unit, vector)
    has_direction = largest > 0.0
    size = largest if has_direction else 1.0
    for i in range(d):
        unit[i] /= size
    length = math.sqrt(dot(unit, unit)) if has_direction else 1.0
    for i in range(d):
        unit[i] /= length
    fill_bits(words, key, first)
    inside = bool(np.float64(words[0] >> np.uint64(11)) * 2.0**-53 < probability)
    t = _coordinate(inside, d, gamma, key, first + np.uint64(words.shape[0]), words[1:_WORDS_BEFORE])
    fill_normals(out, words[_WORDS_BEFORE:])
    along = dot(out, unit)
    for i in range(d):
        out[i] -= along * unit[i]
    across = math.sqrt(((1.0 - t) * (1.0 + t) if has_direction else 1.0) / dot(out, out))
    for i in range(d):
        out[i] = t * unit[i] + across * out[i]
