"""The Gymnasium side of CartPole: the env checker, private gravities, ends of episodes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from dprl.envs import CartPoleGravityEnv, make_game

ID = "dprl/CartPoleGravity-v0"
# Pixels from the axle to the middle of what is seen of the pole: 10 x 125 px, its own middle 57.5 px from the axle,
# which hides a disc of radius 5 px.
SEEN = 57.5 * 1250 / (1250 - 25 * math.pi)

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
