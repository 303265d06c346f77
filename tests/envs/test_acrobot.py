"""Acrobot with link masses: Gymnasium's own at given masses, one at a time and many at once."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.utils.env_checker import check_env

from dprl.envs import AcrobotMassesEnv

MASSES = ((1.0, 1.0), (0.5, 2.0), (3.0, 0.7))
MANY = "dprl/AcrobotMasses-v0"


def actions(n: int, steps: int, seed: int = 0) -> np.ndarray:
    """Torques that keep their sign for five steps each, so that links swing."""
    return np.random.default_rng(seed).integers(0, 3, (-(-steps // 5), n)).repeat(5, axis=0)[:steps]


@pytest.mark.parametrize("masses", MASSES)
def test_steps_are_those_of_gymnasium_bit_for_bit(masses: tuple[float, float]) -> None:
    ours, theirs = AcrobotMassesEnv((masses,)), AcrobotEnv()
    theirs.LINK_MASS_1, theirs.LINK_MASS_2 = masses
    seen, _ = ours.reset(seed=5)
    assert np.array_equal(seen, theirs.reset(seed=5)[0])
    for action in actions(1, 500)[:, 0]:
        found, expected = ours.step(action), theirs.step(action)  # type: ignore[no-untyped-call]
        assert np.array_equal(found[0], expected[0])
        assert found[1:] == expected[1:]


def test_many_at_once_are_each_one_alone() -> None:
    vector: Any = gymnasium.make_vec(MANY, num_envs=12, masses=MASSES, max_episode_steps=120)
    alone = [gymnasium.make(MANY, masses=MASSES, max_episode_steps=120) for _ in range(12)]
    seen, _ = vector.reset(seed=3)
    users = [env.reset(seed=3 + i)[0] for i, env in enumerate(alone)]
    assert {tuple(pair) for pair in vector.link_masses.T} == {*MASSES}
    over = np.zeros(12, dtype=bool)
    for action in actions(12, 300):
        assert np.array_equal(vector.link_masses.T, [env.unwrapped.link_masses for env in alone])  # type: ignore[attr-defined]
        np.testing.assert_allclose(seen, users, atol=1e-4)  # swings enlarge a last bit
        seen, rewards, ended, cut, _ = vector.step(action)
        for i, env in enumerate(alone):
            if over[i]:
                users[i], reward, one_ended, one_cut = env.reset()[0], 0.0, False, False
            else:
                users[i], reward, one_ended, one_cut, _ = env.step(action[i])  # type: ignore[assignment]
            assert (rewards[i], ended[i], cut[i]) == (reward, one_ended, one_cut)
            over[i] = one_ended or one_cut
    assert vector.observation_space.shape == (12, 6)


def test_at_the_nominal_masses_many_at_once_are_acrobot_v1() -> None:
    vector = gymnasium.make_vec(MANY, num_envs=4)
    theirs = [gymnasium.make("Acrobot-v1") for _ in range(4)]
    seen, _ = vector.reset(seed=11)
    users = [env.reset(seed=11 + i)[0] for i, env in enumerate(theirs)]
    for action in actions(4, 100):
        np.testing.assert_allclose(seen, users, atol=1e-5)
        seen = vector.step(action)[0]
        users = [env.step(one)[0] for env, one in zip(theirs, action, strict=True)]


def test_links_are_as_fast_as_in_gymnasium_and_no_faster() -> None:
    """Each link has its own limit, 4 pi and 9 pi rad/s, which random torques do not reach."""
    vector: Any = gymnasium.make_vec(MANY, num_envs=4)
    vector.reset(seed=0)
    starts = np.array(
        [[0.1, 0.2, 12.0, 20.0], [0.1, 0.2, -12.0, -20.0], [0.3, -0.2, 40.0, 60.0], [0.3, 0.2, -40.0, 60.0]]
    )
    vector._state[:] = starts.T
    seen = vector.step(np.array([0, 1, 2, 1]))[0]
    for start, action, found in zip(starts, (0, 1, 2, 1), seen, strict=True):
        alone = AcrobotEnv()
        alone.state = start
        np.testing.assert_allclose(found, alone.step(action)[0], atol=1e-4)  # type: ignore[no-untyped-call]
    assert np.abs(seen[:, 5]).max() > alone.MAX_VEL_1


def test_masses_are_drawn_with_equal_chances() -> None:
    """False alarms: 1 in 10^6, at 5 standard errors."""
    vector: Any = gymnasium.make_vec(MANY, num_envs=900, masses=MASSES)
    vector.reset(seed=0)
    for pair in MASSES:
        count = (pair == vector.link_masses.T).all(axis=1).sum()
        assert abs(count - 300) < 5 * np.sqrt(900 * 2 / 9)


def test_it_is_an_environment_of_gymnasium() -> None:
    check_env(AcrobotMassesEnv(MASSES), skip_render_check=True)


def test_a_step_without_an_episode_is_refused() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make_vec(MANY, num_envs=2).step(np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("masses", [(), (1.0, 1.0), ((1.0,),), ((1.0, 0.0),), ((11.0, 1.0),), ((1.0, float("nan")),)])
def test_masses_that_are_none_are_refused(masses: Any) -> None:
    with pytest.raises(ValueError, match=r"^masses must be"):
        AcrobotMassesEnv(masses)
