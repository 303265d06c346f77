"""The gradient of an agent's loss over one episode, in closed form, several time steps at once.

Let m_i be the steps where unit i is on, and z_t and y_t the derivatives of the loss with respect to the difference of
the logits and to the value. Every part of the gradient follows from two sums for each unit: of z_t s_t and of y_t s_t
over m_i. So only the signs of the hidden layer are stored. Steps are first added by the on-off pattern of four units
(the method of four Russians). This takes four additions instead of sixteen.

Paper: [OT20] eqs. (12), (13) and (15)-(18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc_a3c.network import (
    INPUTS,
    POLICY,
    UNITS,
    VALUE,
    exponential,
)
from dprl.compiled import JIT_DISABLED, no_alloc_kernel, shows_numbers
from dprl.privacy.mechanisms.logarithm import log_of_reduced, reduced

UInt64Array = npt.NDArray[np.uint64]

# Rows of a trace, with a column for every step of an episode: the state, the action, logit 1 minus logit 0, the value,
# and which units are on, as bits of an unsigned integer.
STATE, ACTION, DIFFERENCE, PREDICTED, ON = 0, INPUTS, 5, 6, 7
TRACE = 8
# Rows of the derivatives of the loss at each step: z and y.
_BY_POLICY, _BY_VALUE = 0, 1
_SUMS = 2 * INPUTS
"""Numbers of a unit: its sums of z s and of y s."""
_TOGETHER = 4
"""Units per group; a pattern is the set of those that are on."""
_PATTERNS = 1 << _TOGETHER
_GROUPS = UNITS // _TOGETHER


_Four = tuple[float, float, float, float]


class Loss(NamedTuple):
    """Settings of the loss of eq. (15); the paper's gamma, lambda and beta are 0.99, 0.5 and 0.01.

    discount: gamma. value_weight: lambda. entropy_weight: beta.
    reward: 'literal', 1 for each step; 'terminal', 0 except for the last step: 1 after a full episode, else -1.
    bootstrap: use of the last state's value, also after a fall. 'discounted', gamma^(T-t) V(s_T) in (12) and in (18);
        'printed', the same in (12) and V(s_T) in (18); 'none'.
    differentiate: whether the advantage and the values' targets are functions of theta, as printed, or constants.
    Sums are over the steps t < T, without averaging; at s_T no action is taken.
    """

    discount: float
    value_weight: float
    entropy_weight: float
    reward: Literal["literal", "terminal"]
    bootstrap: Literal["discounted", "printed", "none"]
    differentiate: bool


@shows_numbers
class LossTables(NamedTuple):
    """Tables of a loss for kernels, for episodes of at most H steps, with scratch memory.

    returns, of_advantage, of_target float64[2 H + 1]: the return, and the factors of V(s_T) in the advantage and the
    target; index H - n is n steps before the end, with zeros for n < 1. ends: whether the reward is at the end, and
    negative after an early end. derivatives float64[2, columns]: z and y of each step; patterns float64[16, 4 * 8]: the
    sums of z s and y s over the steps with one of the 16 patterns of the four units of each group; sums
    float64[4, 4 * 8]: those of each unit, with the first units of all groups in one row. The last three are scratch.
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
    patterns: Float64Array
    sums: Float64Array


def columns(horizon: int) -> int:
    """Return the number of columns of a trace: more than its steps, an odd number of whole cache lines.

    With an even number, rows would conflict in the cache.
    """
    return 8 * (horizon // 8 + 1 | 1)


def loss_tables(loss: Loss, horizon: int) -> LossTables:
    """Return the tables of a loss; raises ValueError for invalid settings."""
    if loss.reward not in {"literal", "terminal"}:
        raise ValueError(f"reward must be 'literal' or 'terminal', got {loss.reward!r}; choose one of them")
    if loss.bootstrap not in {"discounted", "printed", "none"}:
        raise ValueError(f"bootstrap must be 'discounted', 'printed' or 'none', got {loss.bootstrap!r}; choose one")
    if not 0.0 < loss.discount <= 1.0:
        raise ValueError(f"discount must lie in (0, 1], got {loss.discount}; choose the paper's 0.99")
    returns, powers, ones = np.zeros((3, 2 * horizon + 1))
    gained, power = 0.0, 1.0
    for n in range(1, horizon + 1):
        # D18: sec. 4 has a reward of 1 for each step ('literal'); every advantage is then positive.
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
        # D17: eq. (18) prints V(s_T) without the factor gamma^(T-t) of eq. (12); 'printed' keeps this.
        of_target={"none": none, "discounted": powers, "printed": ones}[loss.bootstrap],
        derivatives=np.zeros((2, columns(horizon))),
        patterns=np.zeros((_PATTERNS, _GROUPS * _SUMS)),
        sums=np.zeros((_TOGETHER, _GROUPS * _SUMS)),
    )


@no_alloc_kernel
def look(trace: Float64Array, t: int, theta: Float64Array) -> float:
    """Write the network's outputs for state t of a trace; return the value."""
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


@no_alloc_kernel
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
    _weigh(trace, loss, (steps, last), sign, final)
    by_final = _weigh_differentiated(trace, loss, (steps, last), sign, final) if loss.differentiate else 0.0
    loss.derivatives[_BY_VALUE, steps] = by_final
    _add_steps(loss.patterns, trace, loss.derivatives, last + 1)
    _add_patterns(loss.sums, loss.patterns)
    _assemble(out, theta, loss.sums)


@no_alloc_kernel
def _weigh(trace: Float64Array, loss: LossTables, lengths: tuple[int, int], sign: float, final: float) -> None:
    """Write z and y of an episode's steps, zeros for those up to the second length and for the last state.

    Advantages and targets are constants here. The entropy's derivative by the difference d of the logits is
    -p (1 - p) d.
    """
    steps, last = lengths
    returns, of_advantage = loss.returns[loss.horizon - steps :], loss.of_advantage[loss.horizon - steps :]
    of_target, out = loss.of_target[loss.horizon - steps :], loss.derivatives
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
        out[_BY_POLICY, t] = z if t < steps else 0.0
        out[_BY_VALUE, t] = y if t < steps else 0.0
    out[_BY_POLICY, last], out[_BY_VALUE, last] = 0.0, 0.0


@no_alloc_kernel
def _weigh_differentiated(
    trace: Float64Array, loss: LossTables, lengths: tuple[int, int], sign: float, final: float
) -> float:
    """Add the contributions of advantages and targets as functions of V(s_t); return the contribution of V(s_T)."""
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
        loss.derivatives[_BY_VALUE, t] += log_chance if t < steps else 0.0
    return total


# Eight additions as one vector instruction; for eight lines a compiler would emit eight instructions.


def _add_products_in_turn(sums: Float64Array, at: int, z: float, y: float, s: _Four) -> None:
    """Add z s, then y s, to the eight of the contiguous sums float64[n] that begin at `at`; no bounds check."""
    for m, part in enumerate(s):
        sums[at + m] += z * part
        sums[at + len(s) + m] += y * part


@intrinsic
def _add_products_at_once(_: Any, sums: Any, at: Any, z: Any, y: Any, s: Any) -> tuple[Any, Any]:  # noqa: ANN401
    eight = ir.VectorType(ir.DoubleType(), 8)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), eight.as_pointer())
        parts = [builder.extract_value(arguments[4], m) for m in range(4)]
        states, weights = ir.Constant(eight, ir.Undefined), ir.Constant(eight, ir.Undefined)
        for k in range(8):
            number = ir.Constant(ir.IntType(32), k)
            states = builder.insert_element(states, parts[k % 4], number)
            weights = builder.insert_element(weights, arguments[2 + k // 4], number)
        added = builder.fadd(builder.load(place, align=8), builder.fmul(weights, states))
        builder.store(added, place, align=8)
        return context.get_dummy_value()

    return types.void(sums, at, z, y, s), generate


_add_products: Callable[[Float64Array, int, float, float, _Four], None] = (
    _add_products_in_turn if JIT_DISABLED else cast(Any, _add_products_at_once)
)


@no_alloc_kernel
def _add_steps(patterns: Float64Array, trace: Float64Array, derivatives: Float64Array, n: int) -> None:
    """Add z s and y s of the first n columns of a trace to the sums of the units' patterns."""
    patterns[:] = 0.0
    sums, on = patterns.reshape(patterns.size), trace.view(np.int64)[ON]
    for t in range(n):
        z, y = derivatives[_BY_POLICY, t], derivatives[_BY_VALUE, t]
        s = trace[0, t], trace[1, t], trace[2, t], trace[3, t]
        for group in range(_GROUPS):
            pattern = on[t] >> (_TOGETHER * group) & (_PATTERNS - 1)
            _add_products(sums, (pattern * _GROUPS + group) * _SUMS, z, y, s)


@no_alloc_kernel
def _add_patterns(sums: Float64Array, patterns: Float64Array) -> None:
    """Write the sums of every unit over the patterns with it on."""
    sums[:] = 0.0
    for pattern in range(_PATTERNS):
        for unit in range(_TOGETHER):
            if pattern >> unit & 1:
                for k in range(patterns.shape[1]):
                    sums[unit, k] += patterns[pattern, k]


@no_alloc_kernel
def _assemble(out: Float64Array, theta: Float64Array, sums: Float64Array) -> None:
    """Write the gradient from the sums of the units."""
    for i in range(UNITS):
        difference, by_policy, by_value = theta[POLICY + UNITS + i] - theta[POLICY + i], 0.0, 0.0
        unit, group = i % _TOGETHER, i // _TOGETHER * _SUMS
        for m in range(INPUTS):
            z, y = sums[unit, group + m], sums[unit, group + INPUTS + m]
            out[INPUTS * i + m] = difference * z + theta[VALUE + i] * y
            by_policy += theta[INPUTS * i + m] * z
            by_value += theta[INPUTS * i + m] * y
        out[POLICY + i] = -by_policy
        out[POLICY + UNITS + i] = by_policy
        out[VALUE + i] = by_value
