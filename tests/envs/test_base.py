"""A FiniteMDP is valid, immutable and survives pickling; anything else is refused in one line."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dprl.envs import FiniteMDP, RiverSwim
from dprl.envs.dynamics import roll_out_stochastic


def parts() -> dict[str, Any]:
    mdp = RiverSwim(n_states=3, horizon=2).build()
    return {
        "name": "test",
        "transitions": mdp.transitions.copy(),
        "rewards": mdp.rewards.copy(),
        "start": mdp.start.copy(),
    }


def changed(key: str, index: tuple[int, ...], value: float | list[float]) -> dict[str, Any]:
    arguments = parts()
    arguments[key][index] = value
    return arguments


BAD_MDPS = [
    (parts() | {"rewards": np.zeros((2, 3))}, "rewards must be a non-empty array of 3 dimensions"),
    (parts() | {"rewards": np.zeros((0, 3, 2))}, "rewards must be a non-empty array"),
    (parts() | {"rewards": np.zeros((2, 3, 4))}, "transitions must have shape"),
    (parts() | {"rewards": "many"}, "rewards must be an array of numbers, got str"),
    (parts() | {"transitions": [[1.0], [0.5, 0.5]]}, "transitions must be an array of numbers, got list"),
    (parts() | {"start": np.array([0.5, 0.5])}, "start must have shape"),
    (changed("rewards", (0, 0, 0), 1.5), "rewards must lie in [0, 1], got 1.5"),
    (changed("rewards", (0, 0, 0), -0.25), "rewards must lie in [0, 1], got -0.25"),
    (changed("rewards", (0, 0, 0), np.nan), "rewards must be finite"),
    (changed("transitions", (0, 0, 0, 0), np.inf), "transitions must be finite"),
    (
        changed("transitions", (0, 0, 0, 0), 0.5),
        "transitions must sum to 1 over the last axis, got a sum of 0.5",
    ),
    (changed("start", (0,), 2.0), "start must sum to 1 over the last axis, got a sum of 2"),
]
NEGATIVE = parts()
NEGATIVE["transitions"][0, 0, 0] = [1.5, -0.5, 0.0]
BAD_MDPS.append((NEGATIVE, "transitions must hold probabilities >= 0, got -0.5"))


@pytest.mark.parametrize(("arguments", "message"), BAD_MDPS, ids=[message for _, message in BAD_MDPS])
def test_bad_arrays_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole line is checked below
        FiniteMDP(**arguments)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value), "the remedy is missing"


BAD_POLICIES = [
    (np.zeros((3, 2), np.int64), "policy must have shape (2, 3) (actions) or (2, 3, 2) (probabilities)"),
    (np.zeros((2, 3)), "policy of shape [H, S] must hold integers, got float64"),
    (np.zeros((2, 3), bool), "policy of shape [H, S] must hold integers, got bool"),
    (np.full((2, 3), 2), "policy must hold actions in 0..1, got 2"),
    (np.array([[0, 1, 1], [0, 1, -1]]), "policy must hold actions in 0..1, got -1"),
    (np.full((2, 3, 2), 0.4), "policy must sum to 1 over the last axis, got a sum of 0.8"),
    (np.tile([1.5, -0.5], (2, 3, 1)), "policy must hold probabilities >= 0, got -0.5"),
    (np.full((2, 3, 2), np.nan), "policy must be finite"),
]


@pytest.mark.parametrize(("policy", "message"), BAD_POLICIES, ids=[message for _, message in BAD_POLICIES])
def test_bad_policies_are_refused_in_one_line(policy: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        RiverSwim(n_states=3, horizon=2).build().value(policy)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_arrays_are_copied_contiguous_and_read_only() -> None:
    arguments = parts()
    arguments["transitions"] = np.asfortranarray(arguments["transitions"].astype(np.float64))
    mdp = FiniteMDP(**arguments)
    arguments["rewards"][:] = 0.5
    assert mdp.rewards.max() == 1.0
    for array in (mdp.transitions, mdp.rewards, mdp.start, mdp.cdf, mdp.start_cdf):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 0.0


def test_steps_that_are_alike_are_stored_once() -> None:
    """With one stored step all values and episodes are, bit for bit, those of H equal ones."""
    once = RiverSwim(n_states=5, horizon=6).build()
    each = FiniteMDP("each", once.transitions.copy(), once.rewards, once.start)
    assert (once.layers, each.layers) == (1, 6)
    assert (once.transitions.strides[0], once.cdf.strides[0]) == (0, 0)
    assert len(pickle.dumps(once)) < len(pickle.dumps(each))
    assert pickle.loads(pickle.dumps(once)).layers == 1
    rng = np.random.default_rng(0)
    mixed = rng.dirichlet(np.ones(2), size=(6, 5))
    for one, other in zip(once.optimum(), each.optimum(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(once.value(mixed), each.value(mixed))
    found = []
    for mdp in (once, each):
        states, actions = np.zeros(7, np.int64), np.zeros(6, np.int64)
        uniforms = np.random.default_rng(1).random(13)
        cdf = mdp.cdf[: mdp.layers]
        assert cdf.flags.c_contiguous
        roll_out_stochastic(cdf, mdp.start_cdf, mixed, uniforms, states, actions)
        found.append((states.tolist(), actions.tolist()))
    assert found[0] == found[1]


def test_an_mdp_is_stationary_if_no_step_differs() -> None:
    assert FiniteMDP(**parts()).stationary
    assert not FiniteMDP(**changed("rewards", (1, 0, 0), 0.25)).stationary
    assert not FiniteMDP(**changed("transitions", (1, 0, 0), [0.0, 1.0, 0.0])).stationary


def test_a_pickled_mdp_comes_back_equal_and_read_only() -> None:
    mdp = RiverSwim().build()
    back = pickle.loads(pickle.dumps(mdp))
    assert back.name == mdp.name
    for key in ("transitions", "rewards", "start", "cdf", "start_cdf"):
        np.testing.assert_array_equal(getattr(back, key), getattr(mdp, key))
        assert not getattr(back, key).flags.writeable


def test_policies_of_any_integer_type_and_layout_have_one_value() -> None:
    mdp = RiverSwim().build()
    _, policy = mdp.optimum()
    expected = mdp.value(policy)
    for same in (policy.astype(np.uint8), np.asfortranarray(policy), policy.tolist()):
        np.testing.assert_array_equal(mdp.value(same), expected)
