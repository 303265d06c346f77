"""Clipping of one vector, as the kernels of gradients do it."""

from __future__ import annotations

import numpy as np

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms.clipping import L1, L2, fill_clipped, fill_units


def clipped(vector: Float64Array, radius: float, squared: bool) -> Float64Array:
    """The vector in the ball of the L1 norm, or of the L2 norm if `squared`."""
    shrunk = np.empty(vector.shape[0])
    fill_clipped(shrunk, vector, radius, L2 if squared else L1)
    return shrunk


def whole_units(vector: Float64Array, radius: int, grid: float, squared: bool) -> Int64Array:
    """The clipped vector in units of the grid."""
    units = np.empty(vector.shape[0], dtype=np.int64)
    fill_units(units, clipped(vector, radius * grid, squared), radius, grid, L2 if squared else L1)
    return units
