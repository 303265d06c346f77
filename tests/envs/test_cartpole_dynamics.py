"""The steps of the cart and the pole: against Gymnasium's, lane by lane, and the same bits however they are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from dprl.envs.cartpole import ANGLE_LIMIT, POSITION_LIMIT, fallen, first_state, step_lanes

Floats = NDArray[np.float64]
GRAVITIES = (9.7, 9.8, 9.9)


def first_states(lanes: int, seed: int) -> Floats:
    rng, state = np.random.default_rng(seed), np.empty((4, lanes))
    for lane in range(lanes):
        first_state(state, lane, rng.random(4))
    return state


def balancing(state: Floats) -> Floats:
    """Actions [L] that keep the pole up: push to the side to which it is about to fall."""
    x, velocity, angle, spin = state
    return np.where(angle + spin + 0.1 * x + 0.1 * velocity > 0.0, 1.0, 0.0)


def one_step(before: Floats, action: int, gravity: float) -> Floats:
    state = before.reshape(4, 1).copy()
    step_lanes(state, np.array([float(action)]), np.array([gravity]))
    return state[:, 0]


@pytest.mark.parametrize(("exploration", "episodes", "least"), [(0.0, 60, 200.0), (0.2, 60, 150.0), (1.0, 600, 20.0)])
def test_steps_and_ends_of_episodes_are_those_of_gymnasium(exploration: float, episodes: int, least: float) -> None:
    """Each step within 1e-14 of Gymnasium's from the same state; both episodes end at the same step.

    Left alone, the two drift apart: a pole that starts to fall doubles a rounding error every 0.17 s, that is up to
    10^7 times in 200 steps, whatever the implementation.
    """
    theirs: Any = CartPoleEnv()
    rng, lengths = np.random.default_rng(0), []
    ours = first_states(episodes, seed=1)
    for episode in range(episodes):
        theirs.reset(seed=0)
        state, gravity = ours[:, episode].copy(), GRAVITIES[episode % 3]
        theirs.state, theirs.gravity = state.copy(), gravity
        length, terminated = 0, False
        while length < 200 and not terminated:
            before = np.asarray(theirs.state)
            explores = rng.random() < exploration
            action = int(rng.integers(2)) if explores else int(balancing(before.reshape(4, 1))[0])
            _, _, terminated, _, _ = theirs.step(action)
            state = one_step(state, action, gravity)
            assert np.abs(one_step(before, action, gravity) - theirs.state).max() < 1e-14
            assert np.abs(state - theirs.state).max() < 1e-8
            assert fallen(state[0], state[2]) == terminated
            length += 1
        lengths.append(length)
    assert np.mean(lengths) >= least


def test_gravity_and_action_matter_as_in_gymnasium() -> None:
    """One step from random states, also fast ones, with gravities far from the Earth's."""
    theirs: Any = CartPoleEnv()
    rng = np.random.default_rng(3)
    limits = np.array([POSITION_LIMIT, 5.0, ANGLE_LIMIT, 5.0])
    for _ in range(2_000):
        before, action, gravity = rng.uniform(-limits, limits), int(rng.integers(2)), float(rng.uniform(0.0, 50.0))
        theirs.reset(seed=0)
        theirs.state, theirs.gravity = before.copy(), gravity
        theirs.step(action)
        np.testing.assert_allclose(one_step(before, action, gravity), theirs.state, rtol=1e-13, atol=1e-15)


def acceleration_of(angle: Floats, gravity: float) -> Floats:
    """What one step adds to the angular velocity of poles at rest, both actions averaged: only sine and cosine."""
    sums = np.zeros(angle.size)
    for action in (0.0, 1.0):
        state = np.zeros((4, angle.size))
        state[2] = angle
        step_lanes(state, np.full(angle.size, action), np.full(angle.size, gravity))
        sums += state[3]
    return sums / 2.0


def test_sine_and_cosine_are_good_to_the_last_places() -> None:
    angle = np.linspace(-ANGLE_LIMIT, ANGLE_LIMIT, 20_001)
    expected = 0.02 * 9.8 * np.sin(angle) / (0.5 * (4.0 / 3.0 - 0.1 * np.cos(angle) ** 2 / 1.1))
    assert np.abs(acceleration_of(angle, 9.8) - expected).max() < 2e-16


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 16, 33])
def test_a_lane_has_the_same_bits_at_any_width_and_position(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    state, gravity = first_states(lanes, seed=lanes), rng.uniform(9.7, 9.9, lanes)
    alone = [state[:, lane].copy() for lane in range(lanes)]
    for step in range(200):
        action = balancing(state) if step % 10 else rng.integers(2, size=lanes).astype(np.float64)
        step_lanes(state, action, gravity)
        alone = [one_step(alone[lane], int(action[lane]), gravity[lane]) for lane in range(lanes)]
        np.testing.assert_array_equal(state, np.stack(alone, axis=1))
        assert state.tobytes() == np.stack(alone, axis=1).tobytes()
    assert not fallen(state[0, 0], state[2, 0])


def test_a_lane_that_has_fallen_stays_as_it_is() -> None:
    state = first_states(8, seed=0)
    state[2, 2], state[0, 5] = -0.22, 2.5
    before = state.copy()
    for _ in range(10_000):
        step_lanes(state, np.ones(8), np.full(8, 9.8))
    np.testing.assert_array_equal(state[:, [2, 5]], before[:, [2, 5]])
    assert np.isfinite(state).all()
    assert (np.abs(state[:, [0, 1, 3, 4, 6, 7]]) != np.abs(before[:, [0, 1, 3, 4, 6, 7]])).all()


@pytest.mark.parametrize(
    ("x", "angle", "expected"),
    [
        (0.0, 0.0, False),
        (POSITION_LIMIT, ANGLE_LIMIT, False),
        (-POSITION_LIMIT, -ANGLE_LIMIT, False),
        (np.nextafter(POSITION_LIMIT, 3.0), 0.0, True),
        (np.nextafter(-POSITION_LIMIT, -3.0), 0.0, True),
        (0.0, np.nextafter(ANGLE_LIMIT, 1.0), True),
        (0.0, np.nextafter(-ANGLE_LIMIT, -1.0), True),
    ],
)
def test_the_limits_are_those_of_gymnasium_and_still_inside(x: float, angle: float, expected: bool) -> None:
    theirs = CartPoleEnv()
    assert (theirs.x_threshold, theirs.theta_threshold_radians) == (POSITION_LIMIT, ANGLE_LIMIT)
    assert fallen(x, angle) == expected


def test_first_states_fill_the_half_open_range() -> None:
    state = np.zeros((4, 3))
    first_state(state, 1, np.array([0.0, 0.25, 0.5, np.nextafter(1.0, 0.0)]))
    np.testing.assert_allclose(state[:, 1], [-0.05, -0.025, 0.0, 0.05], rtol=1e-15)
    assert state[0, 1] == -0.05
    assert state[3, 1] < 0.05
    assert not state[:, [0, 2]].any()
