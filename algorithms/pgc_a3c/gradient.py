"""The gradient of an agent's loss over one episode, in closed form, several time steps at once.

With m_i the steps at which unit i is on, every part of the gradient follows from two sums for each unit,
sum over m_i of z_t s_t and of y_t s_t, where z_t and y_t are the derivatives of the loss by the difference of the
logits and by the value: theta's rows are multiples of them. So of the hidden layer only signs are remembered.

Paper: [OT20] eqs. (12), (13) and (15)-(18).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.pgc_a3c.network import (
    DIMENSION,
    INPUTS,
    POLICY,
    UNITS,
    VALUE,
    exponential,
)
from dprl.privacy.compiled import borrowing
from dprl.privacy.mechanisms.logarithm import log_of_reduced, reduced

UInt64Array = npt.NDArray[np.uint64]

# Rows of a trace, with a column for every step of an episode: the state, the action, logit 1 minus logit 0, the value,
# and which units are on, as bits of an unsigned integer.
STATE, ACTION, DIFFERENCE, PREDICTED, ON = 0, INPUTS, 5, 6, 7
TRACE = 8
# What is added to the sums of all units: z s and y s.
_BY_POLICY, _BY_VALUE, _SUMS = 0, INPUTS, 2 * INPUTS
_AT_ONCE = 4


class Loss(NamedTuple):
    """How eq. (15) is read; the paper's gamma, lambda and beta are 0.99, 0.5 and 0.01.

    discount: gamma. value_weight: lambda. entropy_weight: beta.
    reward: 'literal', 1 for each step; 'terminal', 0 but for the last step: 1 if the episode is of full length, or -1.
    bootstrap: of the last state's value, also after a fall. 'discounted', gamma^(T-t) V(s_T) in (12) and in (18);
        'printed', the same in (12) and V(s_T) in (18); 'none'.
    differentiate: whether the advantage and the values' targets are functions of theta, as printed, or constants.
    Sums are over the steps t < T: none is averaged, and at s_T no action is taken.
    """

    discount: float
    value_weight: float
    entropy_weight: float
    reward: Literal["literal", "terminal"]
    bootstrap: Literal["discounted", "printed", "none"]
    differentiate: bool


class LossTables(NamedTuple):
    """A loss as kernels see it, for episodes of at most H steps, and what they work on.

    returns, of_advantage, of_target float64[2 H + 1]: the return, and how much of V(s_T) the advantage and the target
    contain, n steps before the end at H - n; zeros where n < 1. ends: whether the reward is at the end, and negative if
    that comes early. weighted float64[8, columns], sums, differences: scratch.
    """

    value_weight: float
    entropy_weight: float
    differentiate: bool
    ends: bool
    horizon: int
    returns: Float64Array
    of_advantage: Float64Array
    of_target: Float64Array
    weighted: Float64Array
    sums: Float64Array
    differences: Float64Array

    def __repr__(self) -> str:
        # The generated one would print a user's trajectory into a log.
        return f"LossTables({self.horizon} steps)"


def columns(horizon: int) -> int:
    """Return how many columns a trace has: one more than steps, whole cache lines, an odd number of them.

    Rows at even distances would get into each other's way in the cache.
    """
    return 8 * (horizon // 8 + 1 | 1)


def loss_tables(loss: Loss, horizon: int) -> LossTables:
    """Return what kernels need of a loss; raises ValueError, in one line, for what is none."""
    if loss.reward not in {"literal", "terminal"}:
        raise ValueError(f"reward must be 'literal' or 'terminal', got {loss.reward!r}; choose one of them")
    if loss.bootstrap not in {"discounted", "printed", "none"}:
        raise ValueError(f"bootstrap must be 'discounted', 'printed' or 'none', got {loss.bootstrap!r}; choose one")
    if not 0.0 < loss.discount <= 1.0:
        raise ValueError(f"discount must lie in (0, 1], got {loss.discount}; choose the paper's 0.99")
    returns, powers, ones = np.zeros((3, 2 * horizon + 1))
    gained, power = 0.0, 1.0
    for n in range(1, horizon + 1):
        # D18: sec. 4 has a reward of 1 for each step, 'literal', with which every advantage is positive.
        gained = 1.0 + loss.discount * gained if loss.reward == "literal" else power
        power *= loss.discount
        returns[horizon - n], powers[horizon - n], ones[horizon - n] = gained, power, 1.0
    none = np.zeros(powers.size)
    return LossTables(
        value_weight=float(loss.value_weight),
        entropy_weight=float(loss.entropy_weight),
        differentiate=bool(loss.differentiate),
        ends=loss.reward == "terminal",
        horizon=horizon,
        returns=returns,
        of_advantage=none if loss.bootstrap == "none" else powers,
        # D17: eq. (18) prints V(s_T) without the gamma^(T-t) that eq. (12) has; 'printed' is as it stands.
        of_target={"none": none, "discounted": powers, "printed": ones}[loss.bootstrap],
        weighted=np.zeros((_SUMS, columns(horizon))),
        sums=np.zeros(_SUMS * UNITS),
        differences=np.zeros(UNITS),
    )


def gradient_of(states: Float64Array, actions: Int64Array, theta: Float64Array, tables: LossTables) -> Float64Array:
    """Return the gradient float64[112] of one given episode: states float64[T + 1, 4], actions int64[T] in {0, 1}."""
    trace, out = np.zeros((TRACE, columns(tables.horizon))), np.empty(DIMENSION)
    trace[:INPUTS, : len(states)] = states.T
    trace[ACTION, : len(actions)] = actions
    for t in range(len(actions)):
        look(trace, t, theta)
    write_gradient(out, theta, trace, len(actions), tables, False)
    return out


@borrowing
def look(trace: Float64Array, t: int, theta: Float64Array) -> float:
    """Write what the network says of state t of a trace; return the value."""
    difference, value, on = 0.0, 0.0, np.uint64(0)
    for i in range(UNITS):
        h = (theta[INPUTS * i] * trace[0, t] + theta[INPUTS * i + 1] * trace[1, t]) + (
            theta[INPUTS * i + 2] * trace[2, t] + theta[INPUTS * i + 3] * trace[3, t]
        )
        if h > 0.0:
            difference += (theta[POLICY + UNITS + i] - theta[POLICY + i]) * h
            value += theta[VALUE + i] * h
            on |= np.uint64(1) << np.uint64(i)
    trace[DIFFERENCE, t], trace[PREDICTED, t] = difference, value
    trace.view(np.uint64)[ON, t] = on
    return value


@borrowing
def write_gradient(
    out: Float64Array, theta: Float64Array, trace: Float64Array, steps: int, loss: LossTables, padded: bool
) -> None:
    """Write the gradient float64[112] of eq. (15) by theta float64[112] for an episode of T = `steps` >= 1 steps.

    trace float64[8, columns]: the episode's, complete for t < T; of s_T only the state.
    padded: work as long as for an episode of full length; the bits are the same.
    Numbers that overflow come out as infinities or NaN, without an error.
    """
    last, final = loss.horizon if padded else steps, look(trace, steps, theta)
    sign = -1.0 if loss.ends and steps < loss.horizon else 1.0
    weigh(trace, loss, (steps, last), sign, final)
    # Four steps are added at once; those after the last one count nothing.
    n = -(-(last + 1) // _AT_ONCE) * _AT_ONCE
    for m in range(_SUMS):
        for t in range(last, n):
            loss.weighted[m, t] = 0.0
    if loss.differentiate:
        by_final = weigh_differentiated(trace, loss, (steps, last), sign, final)
        for m in range(INPUTS):
            loss.weighted[_BY_VALUE + m, steps] = by_final * trace[m, steps]
    sums, differences, on = loss.sums, loss.differences, trace.view(np.int64)[ON]
    for i in range(UNITS):
        differences[i] = theta[POLICY + UNITS + i] - theta[POLICY + i]
    for k in range(sums.shape[0]):
        sums[k] = 0.0
    for t in range(0, n, _AT_ONCE):
        add_steps(sums, loss.weighted, on, t)
    assemble(out, theta, differences, sums)


@borrowing
def weigh(trace: Float64Array, loss: LossTables, lengths: tuple[int, int], sign: float, final: float) -> None:
    """Write z s and y s of an episode's steps, and zeros up to the second length; advantages and targets are constants.

    The entropy's derivative by the difference d of the logits is -p (1 - p) d.
    """
    steps, last = lengths
    returns, of_advantage = loss.returns[loss.horizon - steps :], loss.of_advantage[loss.horizon - steps :]
    of_target, out = loss.of_target[loss.horizon - steps :], loss.weighted
    value_weight, entropy_weight = loss.value_weight, loss.entropy_weight
    for t in range(last):
        d, value = trace[DIFFERENCE, t], trace[PREDICTED, t]
        e = exponential(-abs(d))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        p = larger if d > 0.0 else smaller
        gained = sign * returns[t]
        advantage = gained + of_advantage[t] * final - value
        gap = gained + of_target[t] * final - value
        z = advantage * (p - trace[ACTION, t]) + entropy_weight * (larger * smaller * d)
        y = -2.0 * value_weight * gap
        z = z if t < steps else 0.0
        y = y if t < steps else 0.0
        s0, s1, s2, s3 = trace[0, t], trace[1, t], trace[2, t], trace[3, t]
        out[_BY_POLICY + 0, t], out[_BY_POLICY + 1, t] = z * s0, z * s1
        out[_BY_POLICY + 2, t], out[_BY_POLICY + 3, t] = z * s2, z * s3
        out[_BY_VALUE + 0, t], out[_BY_VALUE + 1, t] = y * s0, y * s1
        out[_BY_VALUE + 2, t], out[_BY_VALUE + 3, t] = y * s2, y * s3


@borrowing
def weigh_differentiated(
    trace: Float64Array, loss: LossTables, lengths: tuple[int, int], sign: float, final: float
) -> float:
    """Add what advantages and targets contribute as functions of V(s_t); return the part that V(s_T) contributes."""
    steps, last = lengths
    total = 0.0
    for t in range(last):
        at = loss.horizon - steps + t
        d, action, of_target = trace[DIFFERENCE, t], trace[ACTION, t], loss.of_target[at]
        s, e = reduced(1.0 / (1.0 + exponential(-abs(d))))
        likelier = 1.0 if d > 0.0 else 0.0
        log_chance = log_of_reduced(s, e) - (0.0 if action == likelier else abs(d))
        gap = sign * loss.returns[at] + of_target * final - trace[PREDICTED, t]
        by_final = 2.0 * loss.value_weight * gap * of_target - log_chance * loss.of_advantage[at]
        total += by_final if t < steps else 0.0
        log_chance = log_chance if t < steps else 0.0
        for m in range(INPUTS):
            loss.weighted[_BY_VALUE + m, t] += log_chance * trace[m, t] if t < steps else 0.0
    return total


@borrowing
def _eight(weighted: Float64Array, t: int) -> tuple[float, float, float, float, float, float, float, float]:
    return (
        weighted[0, t],
        weighted[1, t],
        weighted[2, t],
        weighted[3, t],
        weighted[4, t],
        weighted[5, t],
        weighted[6, t],
        weighted[7, t],
    )


Four = tuple[float, float, float, float]


@borrowing
def _add(sums: Float64Array, at: int, numbers: Four, off: tuple[bool, bool, bool, bool]) -> None:
    total = sums[at]
    total = total if off[0] else total + numbers[0]
    total = total if off[1] else total + numbers[1]
    total = total if off[2] else total + numbers[2]
    sums[at] = total if off[3] else total + numbers[3]


@borrowing
def add_steps(sums: Float64Array, weighted: Float64Array, on: Int64Array, t: int) -> None:
    """Add z s and y s of four steps from t on to the sums of the units that are on."""
    a, b, c, d = _eight(weighted, t), _eight(weighted, t + 1), _eight(weighted, t + 2), _eight(weighted, t + 3)
    on0, on1, on2, on3 = on[t], on[t + 1], on[t + 2], on[t + 3]
    for i in range(UNITS):
        # As a sign: it is what vectors are masked by.
        to_sign = np.int64(63 - i)
        which = on0 << to_sign >= 0, on1 << to_sign >= 0, on2 << to_sign >= 0, on3 << to_sign >= 0
        _add(sums, 0 * UNITS + i, (a[0], b[0], c[0], d[0]), which)
        _add(sums, 1 * UNITS + i, (a[1], b[1], c[1], d[1]), which)
        _add(sums, 2 * UNITS + i, (a[2], b[2], c[2], d[2]), which)
        _add(sums, 3 * UNITS + i, (a[3], b[3], c[3], d[3]), which)
        _add(sums, 4 * UNITS + i, (a[4], b[4], c[4], d[4]), which)
        _add(sums, 5 * UNITS + i, (a[5], b[5], c[5], d[5]), which)
        _add(sums, 6 * UNITS + i, (a[6], b[6], c[6], d[6]), which)
        _add(sums, 7 * UNITS + i, (a[7], b[7], c[7], d[7]), which)


@borrowing
def assemble(out: Float64Array, theta: Float64Array, differences: Float64Array, units: Float64Array) -> None:
    """Write the gradient from the sums."""
    for i in range(UNITS):
        by_policy, by_value = 0.0, 0.0
        for m in range(INPUTS):
            z, y = units[m * UNITS + i], units[(INPUTS + m) * UNITS + i]
            out[INPUTS * i + m] = differences[i] * z + theta[VALUE + i] * y
            by_policy += theta[INPUTS * i + m] * z
            by_value += theta[INPUTS * i + m] * y
        out[POLICY + i] = -by_policy
        out[POLICY + UNITS + i] = by_policy
        out[VALUE + i] = by_value
