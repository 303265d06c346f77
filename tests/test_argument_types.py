"""Kept types of arguments are those that Numba makes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import typeof, types

from dprl.privacy.mechanisms.sampling import SILENT


def test_arguments_have_numbas_types_also_the_second_time() -> None:
    square, fixed = np.zeros((2, 2)), np.zeros(2)
    fixed.flags.writeable = False
    made: Any = types
    for _ in range(2):
        for array, layout in ((square, "C"), (square.T, "F"), (np.zeros((4, 4))[::2, ::2], "A")):
            assert typeof(array) == made.Array(types.float64, 2, layout)
        assert typeof(fixed.view(np.int64)) == made.Array(types.int64, 1, "C", readonly=True)
        for one, kind in ((1, types.int64), (None, types.none), (fixed, typeof(fixed))):
            assert typeof((one, 2.0)) == made.Tuple((kind, types.float64))
        assert typeof(SILENT) == made.NamedTuple(tuple(map(typeof, SILENT)), type(SILENT))
