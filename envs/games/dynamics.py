"""Compiled kernels of two-player zero-sum Markov games: best responses, and the gap between them.

With NUMBA_DISABLE_JIT=1 the same source runs as plain Python and gives the same bits: no kernel allows
the compiler to reorder or to fuse floating-point operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["best_response_to_max", "best_response_to_min"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    # numba carries no types; the cast keeps the Python signature for type checkers.
    return cast("Callable[_P, _R]", njit(cache=True, error_model="numpy")(function))


@_compiled
def _expectation(row: Floats, after: Floats) -> float:
    total = 0.0
    for t in range(row.shape[0]):
        total += row[t] * after[t]
    return total


@_compiled
def best_response_to_min(
    transitions: Floats, rewards: Floats, min_player: Floats, values: Floats, actions: Integers
) -> None:
    """Fill values [H + 1, S] = V^{dagger,nu} and the actions [H, S] of the max-player that attain it.

    transitions [H, S, A, B, S'], rewards [H, S, A, B], min_player nu [H, S, B]. Ties go to the lowest action.
    """
    horizon, n_states, n_max, n_min = rewards.shape
    for s in range(n_states):
        values[horizon, s] = 0.0
    for h in range(horizon - 1, -1, -1):
        after = values[h + 1]
        for s in range(n_states):
            for a in range(n_max):
                mean = 0.0
                for b in range(n_min):
                    total = rewards[h, s, a, b] + _expectation(transitions[h, s, a, b], after)
                    mean += min_player[h, s, b] * total
                if a == 0 or mean > values[h, s]:
                    values[h, s] = mean
                    actions[h, s] = a


@_compiled
def best_response_to_max(
    transitions: Floats, rewards: Floats, max_player: Floats, values: Floats, actions: Integers
) -> None:
    """Fill values [H + 1, S] = V^{mu,dagger} and the actions [H, S] of the min-player that attain it.

    transitions [H, S, A, B, S'], rewards [H, S, A, B], max_player mu [H, S, A]. Ties go to the lowest action.
    """
    horizon, n_states, n_max, n_min = rewards.shape
    for s in range(n_states):
        values[horizon, s] = 0.0
    for h in range(horizon - 1, -1, -1):
        after = values[h + 1]
        for s in range(n_states):
            for b in range(n_min):
                mean = 0.0
                for a in range(n_max):
                    total = rewards[h, s, a, b] + _expectation(transitions[h, s, a, b], after)
                    mean += max_player[h, s, a] * total
                if b == 0 or mean < values[h, s]:
                    values[h, s] = mean
                    actions[h, s] = b
