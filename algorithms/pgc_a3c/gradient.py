"""The gradient of an agent's loss over one episode, in closed form, for compiled loops.

`episode_loss` of `on_rllib/algorithm.py` is the loss, which torch differentiates. `write_gradient` first differentiates
it by the network's two outputs at each step, on the columns of a trace, and then goes back through the layer.

Paper: [OT20] eqs. (12), (13) and (15)-(18).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.numerics import exponential
from dprl.algorithms.pgc_a3c.network import INPUTS, POLICY, UNITS, VALUE
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.mechanisms.logarithm import log_of_reduced, reduced

# Rows of a trace, with a column for every step of an episode: the state, the action, logit 1 minus logit 0, the value.
STATE, ACTION, DIFFERENCE, PREDICTED = 0, INPUTS, 5, 6
TRACE = 7
# Rows of the derivatives of the loss by the difference of the logits, z, and by the value, y, at each step.
_Z, _Y = 0, 1
# Rows of 16 units in `LossTables.units`: the weights c of each input, the sums of z s and of y s.
_C, _Z_SUM, _Y_SUM = 0, INPUTS, 2 * INPUTS


@shows_numbers
class LossTables(NamedTuple):
    """Tables of a loss for kernels, for episodes of at most H steps, with scratch memory.

    returns, of_advantage, of_target float64[2 H + 1]: the return, and the factors of V(s_T) in the advantage and the
    target; index H - n is n steps before the end, with zeros for n < 1. ends: whether the reward is at the end, and
    negative after an early end. Scratch: derivatives float64[2, columns]: z and y of each step; units float64[12 * 16].
    """

    value_weight: float
    entropy_weight: float
    differentiate: bool
    ends: bool
    horizon: int
    returns: Float64Array
    of_advantage: Float64Array
    of_target: Float64Array
    derivatives: Float64Array
    units: Float64Array


def columns(horizon: int) -> int:
    """Return the number of columns of a trace: more than its steps, an odd number of whole cache lines.

    With an even number, rows would conflict in the cache.
    """
    return 8 * (horizon // 8 + 1 | 1)


def loss_tables(config: Any, horizon: int) -> LossTables:  # noqa: ANN401 - a PGCA3CConfig
    """Return the tables of the loss of a config; sums are over the steps t < T, at s_T no action is taken."""
    returns, powers, ones = np.zeros((3, 2 * horizon + 1))
    gained, power = 0.0, 1.0
    for n in range(1, horizon + 1):
        # D18: sec. 4 has a reward of 1 for each step ('literal'); every advantage is then positive.
        gained = 1.0 + config.discount * gained if config.reward == "literal" else power
        power *= config.discount
        returns[horizon - n], powers[horizon - n], ones[horizon - n] = gained, power, 1.0
    none = np.zeros(powers.size)
    return LossTables(
        value_weight=float(config.value_weight),
        entropy_weight=float(config.entropy_weight),
        differentiate=bool(config.differentiate),
        ends=config.reward == "terminal",
        horizon=horizon,
        returns=returns,
        of_advantage=none if config.bootstrap == "none" else powers,
        # D17: eq. (18) prints V(s_T) without the factor gamma^(T-t) of eq. (12); 'printed' keeps this.
        of_target={"none": none, "discounted": powers, "printed": ones}[config.bootstrap],
        derivatives=np.zeros((2, columns(horizon))),
        units=np.zeros(3 * INPUTS * UNITS),
    )


@no_alloc_kernel
def look(trace: Float64Array, t: int, theta: Float64Array) -> float:
    """Write the network's outputs for state t of a trace; return the value."""
    difference, value = 0.0, 0.0
    for i in range(UNITS):
        h = (theta[INPUTS * i] * trace[0, t] + theta[INPUTS * i + 1] * trace[1, t]) + (
            theta[INPUTS * i + 2] * trace[2, t] + theta[INPUTS * i + 3] * trace[3, t]
        )
        if h > 0.0:
            difference += (theta[POLICY + UNITS + i] - theta[POLICY + i]) * h
            value += theta[VALUE + i] * h
    trace[DIFFERENCE, t], trace[PREDICTED, t] = difference, value
    return value


@no_alloc_kernel
def write_gradient(
    out: Float64Array, theta: Float64Array, trace: Float64Array, steps: int, loss: LossTables, padded: bool
) -> None:
    """Write the gradient float64[112] of eq. (15) by theta float64[112] for an episode of T = `steps` >= 1 steps.

    trace float64[7, columns]: the episode's, complete for t < T; of s_T only the state. padded: work as long as for a
    full episode; the bits are the same. Numbers that overflow come out as infinities or NaN, without an error.
    """
    last = loss.horizon if padded else steps
    _differentiate_loss(trace, steps, last, look(trace, steps, theta), loss)
    units, z, y = loss.units, loss.derivatives[_Z], loss.derivatives[_Y]
    for i in range(UNITS):
        for m in range(INPUTS):
            units[(_C + m) * UNITS + i] = theta[INPUTS * i + m]
            units[(_Z_SUM + m) * UNITS + i] = 0.0
            units[(_Y_SUM + m) * UNITS + i] = 0.0
    for t in range(last + 1):
        _add_step(units, z[t], y[t], trace[0, t], trace[1, t], trace[2, t], trace[3, t])
    for i in range(UNITS):
        difference, by_policy, by_value = theta[POLICY + UNITS + i] - theta[POLICY + i], 0.0, 0.0
        for m in range(INPUTS):
            by_z, by_y = units[(_Z_SUM + m) * UNITS + i], units[(_Y_SUM + m) * UNITS + i]
            out[INPUTS * i + m] = difference * by_z + theta[VALUE + i] * by_y
            by_policy += theta[INPUTS * i + m] * by_z
            by_value += theta[INPUTS * i + m] * by_y
        out[POLICY + i] = -by_policy
        out[POLICY + UNITS + i] = by_policy
        out[VALUE + i] = by_value


@no_alloc_kernel
def _add_step(units: Float64Array, z: float, y: float, s0: float, s1: float, s2: float, s3: float) -> None:
    """Add z s and y s of one step, with state s, to the sums of the units that are on."""
    for i in range(UNITS):
        h = (units[i] * s0 + units[UNITS + i] * s1) + (units[2 * UNITS + i] * s2 + units[3 * UNITS + i] * s3)
        zi, yi = z if h > 0.0 else 0.0, y if h > 0.0 else 0.0
        units[_Z_SUM * UNITS + i] += zi * s0
        units[(_Z_SUM + 1) * UNITS + i] += zi * s1
        units[(_Z_SUM + 2) * UNITS + i] += zi * s2
        units[(_Z_SUM + 3) * UNITS + i] += zi * s3
        units[_Y_SUM * UNITS + i] += yi * s0
        units[(_Y_SUM + 1) * UNITS + i] += yi * s1
        units[(_Y_SUM + 2) * UNITS + i] += yi * s2
        units[(_Y_SUM + 3) * UNITS + i] += yi * s3


@no_alloc_kernel
def _differentiate_loss(trace: Float64Array, steps: int, last: int, final: float, loss: LossTables) -> None:
    """Write z and y of an episode's steps and of s_T, with V(s_T) = `final`; zeros for later columns up to `last`.

    Advantages and targets are constants, unless `loss.differentiate`: then they are functions of V(s_t) and V(s_T).
    """
    sign, at = -1.0 if loss.ends and steps < loss.horizon else 1.0, loss.horizon - steps
    returns, of_advantage, of_target = loss.returns[at:], loss.of_advantage[at:], loss.of_target[at:]
    z, y = loss.derivatives[_Z], loss.derivatives[_Y]
    for t in range(last):
        d, value = trace[DIFFERENCE, t], trace[PREDICTED, t]
        e = exponential(-abs(d))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        right = larger if d > 0.0 else smaller
        advantage = sign * returns[t] + of_advantage[t] * final - value  # eq. (12)
        gap = sign * returns[t] + of_target[t] * final - value  # eq. (18)
        # eqs. (16) and (17), with the entropy's derivative -p (1 - p) d
        by_difference = advantage * (right - trace[ACTION, t]) + loss.entropy_weight * (larger * smaller * d)
        z[t] = by_difference if t < steps else 0.0
        y[t] = -2.0 * loss.value_weight * gap if t < steps else 0.0
    z[last], y[last] = 0.0, 0.0
    if loss.differentiate:  # advantage and target are functions of the values, too
        by_final = 0.0
        for t in range(last):
            d = trace[DIFFERENCE, t]
            s, exponent = reduced(1.0 / (1.0 + exponential(-abs(d))))
            likelier = 1.0 if d > 0.0 else 0.0
            log_chance = log_of_reduced(s, exponent) - (0.0 if trace[ACTION, t] == likelier else abs(d))
            gap = sign * returns[t] + of_target[t] * final - trace[PREDICTED, t]
            by_last = 2.0 * loss.value_weight * gap * of_target[t] - log_chance * of_advantage[t]
            by_final += by_last if t < steps else 0.0
            y[t] += log_chance if t < steps else 0.0
        y[steps] = by_final
