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
from dprl.algorithms.numerics import exponential
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


def initial_parameters(kind: Literal["glorot", "normal"], scale: float, key: npt.NDArray[np.uint64]) -> Float64Array:
    """Return theta float64[112], drawn with `key` uint64[5]: `scale` times a standard normal or a Glorot draw.

    'glorot' is uniform within +-sqrt(6 / (inputs + outputs)) of each layer.
    """
    bits = np.empty(DIMENSION, dtype=np.uint64)
    fill_bits(bits, key, np.uint64(0))
    uniforms = np.array([open_unit(word) for word in bits])
    if kind == "normal":
        return np.asarray(scale * scipy.special.ndtri(uniforms), dtype=np.float64)
    limits = np.empty(DIMENSION)
    for part, outputs, inputs in ((slice(0, POLICY), UNITS, INPUTS), (slice(POLICY, VALUE), ACTIONS, UNITS)):
        limits[part] = math.sqrt(6.0 / (inputs + outputs))
    limits[VALUE:] = math.sqrt(6.0 / (UNITS + 1))
    return scale * limits * (2.0 * uniforms - 1.0)


@kernel
def probability_of_right(difference: float) -> float:
    """Return the probability of action 1 from logit 1 minus logit 0."""
    e = exponential(-abs(difference))
    larger = 1.0 / (1.0 + e)
    return larger if difference > 0.0 else e * larger
