"""Dynamics of cart and pole: compiled steps of many independent episodes, one in each lane.

A lane's numbers depend neither on the number of lanes nor on its position: no kernel mixes lanes, and none allows the
compiler to reorder or to fuse floating-point operations. With NUMBA_DISABLE_JIT=1 the bits are the same.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprl.compiled import kernel, no_alloc_kernel

__all__ = ["ANGLE_LIMIT", "HALF_POLE", "POSITION_LIMIT", "fallen", "first_state", "step_lanes"]

Floats = NDArray[np.float64]

POSITION_LIMIT = 2.4
"""End of the track, in metres from its middle."""
ANGLE_LIMIT = 12 * 2 * math.pi / 360
"""Largest angle of the pole, in radians."""
HALF_POLE = 0.5
"""Half of the length of the pole, in metres."""

_STEP = 0.02
_FORCE = 10.0
_POLE = 0.1
_MOMENT = _POLE * HALF_POLE
# Multiplying is faster than dividing; the results differ in the last bit.
_PER_MASS = 1.0 / (1.0 + _POLE)
_FIRST_WIDTH = 0.1


@kernel
def fallen(x: float, angle: float) -> bool:
    """Return whether the cart has left its track or the pole leans too far; x in metres, angle in radians."""
    # Not `or`: a jump would prevent the vectorisation of `step_lanes` over lanes.
    return (abs(x) > POSITION_LIMIT) | (abs(angle) > ANGLE_LIMIT)


@kernel
def _sine(angle: float, square: float) -> float:
    """Return the sine, to about one unit in the last place for |angle| <= pi / 4; square: angle^2.

    The coefficients are those of fdlibm, added in pairs: a step waits for its longest chain of operations.
    """
    low = -1.66666666666666324348e-01 + square * 8.33333333332248946124e-03
    middle = -1.98412698298579493134e-04 + square * 2.75573137070700676789e-06
    high = -2.50507602534068634195e-08 + square * 1.58969099521155010221e-10
    fourth = square * square
    return angle + angle * square * (low + fourth * (middle + fourth * high))


@kernel
def _cosine(square: float) -> float:
    """Return the cosine of an angle of this square, as `_sine` does."""
    low = 4.16666666666666019037e-02 + square * -1.38888888888741095749e-03
    middle = 2.48015872894767294178e-05 + square * -2.75573143513906633035e-07
    high = 2.08757232129817482790e-09 + square * -1.13596475577881948265e-11
    fourth = square * square
    return 1.0 - (0.5 * square - fourth * (low + fourth * (middle + fourth * high)))


@no_alloc_kernel
def step_lanes(state: Floats, action: Floats, gravity: Floats) -> None:
    """Advance every lane by one step of 0.02 s, in place; a fallen lane does not change.

    state: [4, L], the rows position (m), velocity (m/s), angle (rad), angular velocity (rad/s). action: [L], 0.0 pushes
    left, 1.0 right. gravity: [L], m/s^2. The equations and Euler's method are those of CartPole-v0 of the OpenAI Gym,
    from R. Florian, 'Correct equations for the dynamics of the cart-pole system', 2007, without friction.
    """
    for lane in range(state.shape[1]):
        x, velocity, angle, spin = state[0, lane], state[1, lane], state[2, lane], state[3, lane]
        square = angle * angle
        sine, cosine = _sine(angle, square), _cosine(square)
        force = 2.0 * _FORCE * action[lane] - _FORCE
        push = (force + _MOMENT * spin * spin * sine) * _PER_MASS
        inertia = HALF_POLE * (4.0 / 3.0 - _POLE * _PER_MASS * (cosine * cosine))
        spin_change = (gravity[lane] * sine - cosine * push) / inertia
        velocity_change = push - _MOMENT * _PER_MASS * (spin_change * cosine)
        # The polynomials are valid for small angles only; without this an idle lane would diverge to infinity.
        step = 0.0 if fallen(x, angle) else _STEP
        state[0, lane] = x + step * velocity
        state[1, lane] = velocity + step * velocity_change
        state[2, lane] = angle + step * spin
        state[3, lane] = spin + step * spin_change


@no_alloc_kernel
def first_state(state: Floats, lane: int, uniforms: Floats) -> None:
    """Put a lane at the start of an episode: four numbers uniform in [-0.05, 0.05); uniforms: [4], in [0, 1)."""
    for row in range(4):
        state[row, lane] = _FIRST_WIDTH * (uniforms[row] - 0.5)
