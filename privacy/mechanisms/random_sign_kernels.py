"""The kernels of projected random sign: they draw a projection, send randomized bits, and project back."""

from __future__ import annotations

import math

import numpy as np

from dprl.compiled import kernel, no_alloc_kernel
from dprl.privacy.mechanisms.clipping import LEAST, MOST, dot, largest_magnitude, without_nonfinite
from dprl.privacy.mechanisms.reports import fill_responses
from dprl.privacy.randomness.bits import KEY_WORDS, SPLITMIX64, fill_bits
from dprl.privacy.randomness.exact import stochastic_round

SEED_NUMBERS = 2
"""Number of entries of a message for the seed, 32 bits each."""
_SQRT_3 = math.sqrt(3.0)
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def random_sign_workspace(dimension: int, projections: int) -> tuple[int, int]:
    """Return the sizes of the kernels' workspace, in numbers and words."""
    return 2 * dimension + projections, KEY_WORDS + projections + dimension


@kernel
def _set_seed(words: np.ndarray, seed: np.uint64) -> np.ndarray:
    """Write the projection's key to the first words and return them."""
    key = words[:KEY_WORDS]
    key[0], key[1], key[2], key[3], key[4] = np.uint64(SPLITMIX64), seed, _GOLDEN, np.uint64(0), np.uint64(0)
    return key


@kernel
def _project(row: np.ndarray, words: np.ndarray, key: np.ndarray, number: int) -> None:
    """Fill `row` float64[d] with row `number` of the projection of `key`; words: uint64[d], workspace."""
    fill_bits(words, key, np.uint64(number) * np.uint64(row.shape[0]))
    for j in range(row.shape[0]):
        side = ((words[j] >> _HALF_WORD) * np.uint64(6)) >> _HALF_WORD
        row[j] = _SQRT_3 * (np.float64(side == np.uint64(0)) - np.float64(side == np.uint64(1)))


@kernel
def fill_projection(row: np.ndarray, seed: np.uint64, number: int) -> None:
    """Fill `row` float64[d] with row `number` of the projection of `seed`. Public: no secret depends on it."""
    words = np.empty(KEY_WORDS + row.shape[0], dtype=np.uint64)
    _project(row, words[KEY_WORDS:], _set_seed(words, seed), number)


@no_alloc_kernel
def send_signs(
    message: np.ndarray,
    vector: np.ndarray,
    clip: float,
    table: np.ndarray,
    key: np.ndarray,
    first: np.uint64,
    seed: np.uint64,
    numbers: np.ndarray,
    words: np.ndarray,
) -> None:
    """Fill `message` float64[d_hat + 2] from draws first .. first + 2 d_hat - 1: d_hat roundings, d_hat coins.

    table: of the coins; seed: of the projection, sent in the clear. It must not be drawn from `key`, because words of a
    non-cryptographic generator reveal the others. numbers, words: workspace. Raises like `require_generator`.

    *Formal guarantee.* See ProjectedRandomSign.
    """
    d, n = vector.shape[0], message.shape[0] - SEED_NUMBERS
    row, bits, drawn = numbers[d : 2 * d], numbers[2 * d : 2 * d + n], words[KEY_WORDS : KEY_WORDS + n]
    given, size = vector, 1.0
    if not LEAST < largest_magnitude(vector) < MOST:
        # Relative to the largest coordinate, no sum overflows.
        given = numbers[:d]
        largest = without_nonfinite(given, vector)
        size = largest if largest > 0.0 else 1.0
        for j in range(d):
            given[j] /= size
    fill_bits(drawn, key, first)
    projection = _set_seed(words, seed)
    for i in range(n):
        _project(row, words[KEY_WORDS + n :], projection, i)
        u = min(max(dot(row, given) * (size / clip), -1.0), 1.0)
        bits[i] = stochastic_round(0.5 + 0.5 * u, drawn[i])
    fill_responses(message[:n], bits, key, first + np.uint64(n), table)
    message[n] = np.float64(seed >> _HALF_WORD)
    message[n + 1] = np.float64(seed & _LOW_HALF)


@kernel
def project_back(out: np.ndarray, message: np.ndarray, scale: float, numbers: np.ndarray, words: np.ndarray) -> None:
    """Fill `out` float64[d] with scale * M^T (2 bits - 1), M drawn again from the message's seed."""
    d, n = out.shape[0], message.shape[0] - SEED_NUMBERS
    seed = (np.uint64(message[n]) << _HALF_WORD) | np.uint64(message[n + 1])
    row, projection = numbers[:d], _set_seed(words, seed)
    for j in range(d):
        out[j] = 0.0
    for i in range(n):
        _project(row, words[KEY_WORDS : KEY_WORDS + d], projection, i)
        sign = scale * (2.0 * message[i] - 1.0)
        for j in range(d):
            out[j] += sign * row[j]
