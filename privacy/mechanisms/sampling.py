"""One door for all additive noise: the kernels of counters, reports and gradients draw here and nowhere else."""

from __future__ import annotations

import numpy as np

from dprl.privacy.base import Float64Array
from dprl.privacy.compiled import kernel
from dprl.privacy.mechanisms.base import LAPLACE, NO_NOISE, Noise
from dprl.privacy.mechanisms.laplace import fill_laplace

SILENT = Noise(NO_NOISE, 0.0, 0.0, np.zeros(5, dtype=np.uint64), np.zeros(0, dtype=np.uint64))


@kernel
def fill_noise(out: Float64Array, noise: Noise, first: np.uint64) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... of `noise`; zeros for no noise.

    Draw number n of a key uses bits that no other draw number of it uses, whatever the lengths of the calls are, as
    long as they start at different multiples of a length or do not overlap.

    *Formal guarantee.* That of the mechanism whose `noise` it is.
    """
    if noise.law == LAPLACE:
        fill_laplace(out, noise.key, first, noise.scale)
    else:
        out[:] = 0.0
