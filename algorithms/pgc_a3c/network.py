"""The actor-critic of 112 parameters: four inputs, sixteen rectified linear units, two logits and a value; no biases.

theta float64[112] is c[16,4] | p[2,16] | v[16], each row-major: the order of a torch module's parameters().

Paper: [OT20] sec. 4, Implementation.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from dprl.algorithms.base import Float64Array
from dprl.compiled import kernel
from dprl.privacy.mechanisms.logarithm import open_unit
from dprl.privacy.randomness.bits import fill_bits

INPUTS, UNITS, ACTIONS = 4, 16, 2
POLICY = UNITS * INPUTS
"""Start of p in theta."""
VALUE = POLICY + ACTIONS * UNITS
"""Start of v in theta."""
DIMENSION = VALUE + UNITS
WIDTH = 8
"""Number of networks, or of steps of one, computed at once; a constant, so that compilers vectorise.

It fixes the order of summation, so results have the same bits with narrower vectors or none.
"""

# exp(r) = 1 + r + r^2 (E2 + r (E3 + ...)), Taylor's: the remainder is below 5e-18 for |r| <= log(2) / 2.
_E2, _E3, _E4, _E5 = 1 / 2, 1 / 6, 1 / 24, 1 / 120
_E6, _E7, _E8, _E9 = 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880
_E10, _E11, _E12, _E13 = 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800
_PER_LN2, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LEAST_EXPONENT = -708.0
# Added to a small number, it leaves the nearest integer in the lowest bits.
_ROUNDS = 6755399441055744.0


def initial_parameters(kind: Literal["glorot", "normal"], scale: float, key: npt.NDArray[np.uint64]) -> Float64Array:
    """Return theta float64[112], drawn with `key` uint64[5]: `scale` times a standard normal or a Glorot draw.

    'glorot' is uniform within +-sqrt(6 / (inputs + outputs)) of each layer. Raises ValueError for another kind, or if
    scale is not a finite number above 0.
    """
    if not (math.isfinite(scale) and scale > 0.0):
        raise ValueError(f"scale must be a finite number above 0, got {scale}; choose 1 for glorot, 0.1 for normal")
    bits = np.empty(DIMENSION, dtype=np.uint64)
    fill_bits(bits, key, np.uint64(0))
    uniforms = np.array([open_unit(word) for word in bits])
    if kind == "normal":
        return np.asarray(scale * scipy.special.ndtri(uniforms), dtype=np.float64)
    if kind != "glorot":
        raise ValueError(f"kind must be 'glorot' or 'normal', got {kind!r}; choose one of them")
    limits = np.empty(DIMENSION)
    for part, outputs, inputs in ((slice(0, POLICY), UNITS, INPUTS), (slice(POLICY, VALUE), ACTIONS, UNITS)):
        limits[part] = math.sqrt(6.0 / (inputs + outputs))
    limits[VALUE:] = math.sqrt(6.0 / (UNITS + 1))
    return scale * limits * (2.0 * uniforms - 1.0)


@kernel
def exponential(x: float) -> float:
    """Return e^x within 1 ulp for x <= 0, without branches; values below -708 count as -708."""
    x = x if x > _LEAST_EXPONENT else _LEAST_EXPONENT
    shifted = x * _PER_LN2 + _ROUNDS
    whole = shifted - _ROUNDS
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    z = r * r
    low = (_E2 + r * _E3) + z * (_E4 + r * _E5)
    middle = (_E6 + r * _E7) + z * (_E8 + r * _E9)
    high = (_E10 + r * _E11) + z * (_E12 + r * _E13)
    fourth = z * z
    power = 1.0 + (r + z * (low + fourth * (middle + fourth * high)))
    exponent = np.float64(shifted).view(np.int64) << np.int64(52)
    return np.int64(np.float64(power).view(np.int64) + exponent).view(np.float64)


@kernel
def probability_of_right(difference: float) -> float:
    """Return the probability of action 1 from logit 1 minus logit 0."""
    e = exponential(-abs(difference))
    larger = 1.0 / (1.0 + e)
    return larger if difference > 0.0 else e * larger
