"""The task and its spec: gravities, agents, refused values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dprl.envs import TASKS, CartPoleGravity


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
