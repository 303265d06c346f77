"""Network and gradient of PGC-A3C for single states and episodes, for several tests."""

from __future__ import annotations

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import ACTION, DIFFERENCE, TRACE, LossTables, columns, look, write_gradient
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS


def loss_of(
    discount: float, value_weight: float, entropy_weight: float, reward: str, bootstrap: str, differentiate: bool
) -> PGCA3CConfig:
    """Return a config with this loss."""
    return PGCA3CConfig(
        discount=discount,
        value_weight=value_weight,
        entropy_weight=entropy_weight,
        reward=reward,  # type: ignore[arg-type]  # tests give texts
        bootstrap=bootstrap,  # type: ignore[arg-type]
        differentiate=differentiate,
    )


def forward(theta: Float64Array, state: Float64Array) -> tuple[float, float]:
    """Return (logit 1 minus logit 0, value) of one state float64[4]."""
    trace = np.zeros((TRACE, columns(1)))
    trace[:INPUTS, 0] = state
    value = look(trace, 0, theta)
    return float(trace[DIFFERENCE, 0]), value


def gradient_of(states: Float64Array, actions: Int64Array, theta: Float64Array, tables: LossTables) -> Float64Array:
    """Return the gradient float64[112] of one given episode: states float64[T + 1, 4], actions int64[T] in {0, 1}."""
    trace, out = np.zeros((TRACE, columns(tables.horizon))), np.empty(DIMENSION)
    trace[:INPUTS, : len(states)] = states.T
    trace[ACTION, : len(actions)] = actions
    for t in range(len(actions)):
        look(trace, t, theta)
    write_gradient(out, theta, trace, len(actions), tables, False)
    return out
