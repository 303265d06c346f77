"""One door for all additive noise: the kernels of counters, reports and gradients draw here and nowhere else."""

from __future__ import annotations

import numpy as np

from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import kernel
from dprl.privacy.mechanisms.base import (
    BOUNDED_LAPLACE,
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    LAPLACE,
    NO_NOISE,
    UNIFORM,
    Noise,
)
from dprl.privacy.mechanisms.bounded_laplace import fill_bounded_laplace
from dprl.privacy.mechanisms.discrete_gaussian import fill_discrete_gaussian
from dprl.privacy.mechanisms.discrete_laplace import fill_discrete_laplace
from dprl.privacy.mechanisms.gaussian import fill_gaussian
from dprl.privacy.mechanisms.laplace import fill_laplace
from dprl.privacy.mechanisms.uniform import fill_uniform_noise

SILENT = Noise(NO_NOISE, 0.0, 0.0, np.zeros(5, dtype=np.uint64), np.zeros(0, dtype=np.uint64))


@kernel
def fill_noise(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n], contiguous, with draws number first, first+1, ... of `noise`; zeros for no noise.

    Draw number i is a function of the key and i only, and draws of different numbers share no bits: calls whose
    ranges of numbers do not overlap are independent, whatever their lengths. Numbers are below 2^53.

    Raises ValueError for a law that has no sampler here, rather than leave numbers without noise.

    *Formal guarantee.* That of the mechanism whose `noise` it is.
    """
    law = noise.law
    if law == LAPLACE:
        fill_laplace(out, noise.key, first, noise.scale)
    elif law == GAUSSIAN:
        fill_gaussian(out, noise.key, first, noise.scale)
    elif law == DISCRETE_LAPLACE:
        fill_discrete_laplace(out, noise.key, first, noise.table)
    elif law == DISCRETE_GAUSSIAN:
        fill_discrete_gaussian(out, noise.key, first, noise.table)
    elif law == UNIFORM:
        fill_uniform_noise(out, noise.key, first, noise.bound)
    elif law == BOUNDED_LAPLACE:
        fill_bounded_laplace(out, noise.key, first, noise.scale, noise.bound)
    elif law == NO_NOISE:
        out[:] = 0.0
    else:
        raise ValueError("law must be one of the codes in dprl.privacy.mechanisms.base; this one has no sampler")
