"""CartPole with private gravities: the task, its steps lane by lane, and episodes in Gymnasium."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from dprl.envs import TASKS, CartPoleGravity, CartPoleGravityEnv, make_game
from dprl.envs.cartpole import ANGLE_LIMIT, POSITION_LIMIT, fallen, first_state, step_lanes

# The task and its spec: gravities, agents, refused values.


def test_the_default_is_the_task_of_the_paper() -> None:
    task = CartPoleGravity().build()
    np.testing.assert_allclose(task.gravities, [9.7, 9.8, 9.9], rtol=1e-15)
    assert (task.name, task.kind, task.horizon) == ("cartpole_gravity", "control task", 200)
    assert (task.observation_size, task.n_actions) == (4, 2)
    assert dict(TASKS) == {"cartpole_gravity": CartPoleGravity}


def test_gravities_are_equally_spaced_between_the_ends() -> None:
    task = CartPoleGravity(gravity_low=1.0, gravity_high=3.0, n_gravities=5, horizon=7).build()
    np.testing.assert_array_equal(task.gravities, [1.0, 1.5, 2.0, 2.5, 3.0])
    assert task.horizon == 7
    np.testing.assert_array_equal(CartPoleGravity(9.8, 9.8, n_gravities=1).build().gravities, [9.8])


def test_gravities_are_read_only_also_after_a_pickle() -> None:
    task = CartPoleGravity().build()
    for one in (task, pickle.loads(pickle.dumps(task))):
        assert isinstance(one, CartPoleGravity)
        assert one.gravities.tobytes() == task.gravities.tobytes()
        with pytest.raises(ValueError, match="read-only"):
            one.gravities[0] = 0.0


def test_the_gravity_of_an_agent_depends_on_its_number_only() -> None:
    task, again = CartPoleGravity().build(), CartPoleGravity(horizon=5).build()
    seen = [task.gravity_of(agent) for agent in range(3_000)]
    assert seen[::-1] == [again.gravity_of(agent) for agent in reversed(range(3_000))]
    assert again.gravity_of(np.int64(7)) == seen[7]  # type: ignore[arg-type]
    counts = [seen.count(gravity) for gravity in task.gravities]
    assert counts == [1_000, 1_000, 1_000]


@pytest.mark.parametrize("agent", [-1, 1.0, True, None, "1"])
def test_an_agent_that_is_no_number_is_refused(agent: object) -> None:
    with pytest.raises(ValueError, match=r"^agent must be an integer of at least 0, got"):
        CartPoleGravity().build().gravity_of(agent)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gravity_low": 9.9, "gravity_high": 9.7}, r"^gravity_high must be at least gravity_low = 9.9, got 9.7; swap"),
        ({"gravity_low": 60.0}, r"^gravity_low must be a number in \[0, 50\], got 60.0; "),
        ({"gravity_high": float("inf")}, r"^gravity_high must be a number in \[0, 50\], got inf; "),
        ({"n_gravities": 1}, r"^n_gravities must be at least 2 for the range 9.7 to 9.9, got 1; raise it"),
        ({"n_gravities": 10**8}, r"^n_gravities must be at most 1000000, got 100000000; lower n_gravities"),
    ],
)
def test_ranges_that_hold_no_gravities_are_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        CartPoleGravity(**fields)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


# The steps of the cart and the pole: against Gymnasium's, lane by lane, and the same bits however they are run.

Floats = NDArray[np.float64]


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


# The Gymnasium side of CartPole: the env checker, private gravities, ends of episodes.

ID = "dprl/CartPoleGravity-v0"

Step = tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]


def make(**fields: Any) -> CartPoleGravityEnv:
    env = gymnasium.make(ID, **fields).unwrapped
    assert isinstance(env, CartPoleGravityEnv)
    return env


def balance(observation: NDArray[np.float32]) -> int:
    x, velocity, angle, spin = observation
    return int(angle + spin + 0.1 * x + 0.1 * velocity > 0.0)


def episode(env: CartPoleGravityEnv, policy: Any, **reset: Any) -> list[Step]:
    observation, info = env.reset(**reset)
    steps: list[Step] = [(observation, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(policy(steps[-1][0])))
    return steps


@pytest.mark.parametrize("fields", [{}, {"horizon": 3, "n_gravities": 7}])
def test_the_env_checker_says_only_that_velocities_are_unbounded(fields: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=r".*A Box observation space (minimum|maximum) value is -?infinity")
        check_env(make(**fields))


def test_episodes_are_those_of_gymnasium() -> None:
    """100 episodes from the same states, of random and of balancing actions; observations within float32."""
    env, rng, lengths = CartPoleGravityEnv(), np.random.default_rng(0), []
    env.reset(seed=0)
    for number in range(100):
        first, _ = env.reset()
        theirs: Any = CartPoleEnv()
        theirs.reset(seed=0)
        theirs.state, theirs.gravity = env._state[:, 0].copy(), env.gravity
        np.testing.assert_array_equal(first, np.asarray(theirs.state, np.float32))
        terminated = truncated = False
        length, observation = 0, first
        while not (terminated or truncated):
            action = balance(observation) if number % 10 == 0 else int(rng.integers(2))
            observation, reward, terminated, truncated, info = env.step(action)
            expected, expected_reward, expected_end, _, _ = theirs.step(action)
            np.testing.assert_allclose(observation, expected, rtol=1e-6, atol=1e-7)
            assert (reward, terminated, info) == (expected_reward, expected_end, {})
            length += 1
        assert truncated == (length == 200 and not terminated)
        lengths.append(length)
    assert lengths[0] == 200
    assert min(lengths) < 15


def test_an_episode_is_truncated_at_its_horizon_and_terminated_by_a_fall() -> None:
    standing, falling = episode(make(horizon=30), balance, seed=0), episode(make(horizon=30), lambda _: 1, seed=0)
    assert [step[3] for step in standing] == [False] * 30 + [True]
    assert not any(step[2] for step in standing)
    assert falling[-1][2:4] == (True, False)
    assert len(falling) < 15
    assert {step[1] for step in standing[1:]} == {1.0}
    # A fall at the very last step is a fall.
    last = episode(make(horizon=len(falling) - 1), lambda _: 1, seed=0)
    assert len(last) == len(falling)
    assert last[-1][2:4] == (True, False)


@pytest.mark.parametrize("action", [0, 1])
def test_after_the_end_a_reset_is_needed(action: int) -> None:
    env = CartPoleGravityEnv()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)
    episode(env, lambda _: action, seed=0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)


def test_one_seed_one_sequence_of_episodes() -> None:
    def sequence(seed: int) -> list[bytes]:
        env, seen = make(), []
        for number in range(5):
            steps = episode(env, balance, seed=seed if number == 0 else None)
            seen += [step[0].tobytes() for step in steps] + [str(env.gravity).encode()]
        return seen

    assert sequence(3) == sequence(3)
    assert sequence(3) != sequence(4)


def test_gravities_are_drawn_with_equal_chances_and_told_to_nobody() -> None:
    """Each of 3 in 3,000 episodes within five standard errors: a false alarm in about 2e-6 of the seeds."""
    env = CartPoleGravityEnv()
    assert math.isnan(env.gravity)
    env.reset(seed=0)
    seen = []
    for _ in range(3_000):
        observation, info = env.reset()
        assert info == {}
        assert np.abs(observation).max() <= np.float32(0.05)
        seen.append(env.gravity)
    for gravity in env.task.gravities:
        assert abs(seen.count(gravity) - 1_000) < 5 * math.sqrt(3_000 * 2 / 9)


def test_options_set_the_gravity_and_leave_all_else_as_it_is() -> None:
    env = CartPoleGravityEnv()
    plain = [env.reset(seed=1)[0], env.reset()[0]]
    later = env.gravity
    for options in ({"gravity": 3}, {"gravity": np.float64(9.75)}, {"agent": 17}, {"agent": np.int64(4)}):
        first = env.reset(seed=1, options=options)[0]
        expected = float(options["gravity"]) if "gravity" in options else env.task.gravity_of(options["agent"])  # type: ignore[arg-type]
        assert env.gravity == expected
        np.testing.assert_array_equal([first, env.reset()[0]], plain)
        assert env.gravity == later


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gravity": -1.0}, r"^gravity must be a number in \[0, 50\], got -1.0; "),
        ({"gravity": float("nan")}, r"^gravity must be a number in \[0, 50\], got nan; "),
        ({"gravity": "9.8"}, r"^gravity must be a number in \[0, 50\], got '9.8'; "),
        ({"agent": -3}, r"^agent must be an integer of at least 0, got -3; "),
        ({"gravity": 9.8, "agent": 1}, r"^options must be empty or have one key, gravity or agent, got gravity, agent"),
        ({"low": 0.0}, r"^options must be empty or have one key, gravity or agent, got low; "),
    ],
)
def test_other_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        CartPoleGravityEnv().reset(seed=0, options=options)
    assert "\n" not in str(error.value)


def test_bad_actions_and_fields_are_refused() -> None:
    env = CartPoleGravityEnv()
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match=r"^action must be in 0\.\.1, got"):
            env.step(action)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1"):
        gymnasium.make(ID, horizon=0)
    with pytest.raises(ValueError, match=r"'cartpole_gravity', a control task; use gymnasium.make for it"):
        make_game("cartpole_gravity")
