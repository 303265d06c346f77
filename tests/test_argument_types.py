"""Kept types of arguments are those that Numba makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types


class Pair(NamedTuple):
    one: Any
    other: Any


def test_arguments_have_numbas_types_also_the_second_time() -> None:
    square, fixed = np.zeros((2, 2)), np.zeros(2)
    fixed.flags.writeable = False
    for _ in range(2):
        assert typeof(square) == types.Array(types.float64, 2, "C")
        assert typeof(square.T) == types.Array(types.float64, 2, "F")
        assert typeof(square[:, 0]) == types.Array(types.float64, 1, "A")
        assert typeof(fixed.view(np.int64)) == types.Array(types.int64, 1, "C", readonly=True)
        for one, kind in ((1, types.int64), (None, types.none), (fixed, typeof(fixed))):
            assert typeof(Pair(one, 2.0)) == types.NamedTuple((kind, types.float64), Pair)
            assert typeof((one, 2.0)) == types.Tuple((kind, types.float64))
