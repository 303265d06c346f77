"""DeepSea against a step-by-step reading of its source, and values by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprl.envs import DeepSea

COST = 0.01


def source_step(size: int, column: int, moves_right: bool) -> tuple[float, int]:
    """Reward and next column as published: costs are negative, and moves do not fail."""
    if not moves_right:
        return 0.0, max(column - 1, 0)
    return -COST / size + (column == size - 1), min(column + 1, size - 1)


def source_return(size: int, moves_right: tuple[bool, ...]) -> float:
    column, total = 0, 0.0
    for right in moves_right:
        reward, column = source_step(size, column, right)
        total += reward
    return total


def test_arrays_of_three_columns_by_hand() -> None:
    mdp = DeepSea(size=3, randomize_actions=False).build()
    left = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    right = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    for h in range(3):
        np.testing.assert_array_equal(mdp.transitions[h, :, 0], left)
        np.testing.assert_array_equal(mdp.transitions[h, :, 1], right)
        np.testing.assert_allclose(mdp.rewards[h], [[COST / 3, 0], [COST / 3, 0], [COST / 3, 1]], rtol=1e-15)


def test_right_fails_with_probability_one_over_n() -> None:
    law = DeepSea(size=4, randomize_actions=False, deterministic=False).build().transitions
    right = [[0.25, 0.75, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0.25, 0.75], [0, 0, 0, 1.0]]
    for h in range(4):
        np.testing.assert_allclose(law[h, :, 1], right, rtol=1e-15)
        np.testing.assert_array_equal(law[h, :, 0], np.eye(4)[[0, 0, 1, 2]])


def test_every_sequence_of_moves_has_the_source_s_return_plus_the_whole_cost() -> None:
    """All 2^N deterministic paths, with randomized actions: the shift does not change regret."""
    size = 5
    plain, mdp = DeepSea(size=size, randomize_actions=False).build(), DeepSea(size=size, seed=3).build()
    # Where the moves of both differ, the actions are exchanged.
    exchanged = (plain.transitions != mdp.transitions).any(axis=(2, 3))
    assert 0 < exchanged.sum() < size * size
    for moves in itertools.product([False, True], repeat=size):
        policy = np.repeat(np.array(moves, dtype=np.int64)[:, None], size, axis=1)
        expected = source_return(size, moves) + COST
        assert plain.start_value(policy) == pytest.approx(expected, rel=1e-13)
        assert mdp.start_value(policy ^ exchanged) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("randomize_actions", [False, True])
@pytest.mark.parametrize("size", [2, 3, 10, 50])
def test_the_optimum_is_one_and_only_the_way_right_reaches_it(size: int, randomize_actions: bool) -> None:
    mdp = DeepSea(size=size, randomize_actions=randomize_actions).build()
    values, policy = mdp.optimum()
    assert values[0, 0] == 1.0
    diagonal = np.arange(size)
    np.testing.assert_array_equal(
        mdp.transitions[diagonal, diagonal, policy[diagonal, diagonal]].argmax(axis=1),
        np.minimum(diagonal + 1, size - 1),
    )
    # One wrong move on the way leaves the costs of the remaining steps, all of them saved.
    wrong = policy.copy()
    wrong[0, 0] = 1 - policy[0, 0]
    assert mdp.start_value(wrong) == pytest.approx(COST, rel=1e-12)


@pytest.mark.parametrize("size", [2, 4, 12])
def test_the_optimum_of_failing_moves_by_hand(size: int) -> None:
    """On the diagonal with n steps left: right, or give up and save the costs of the n steps."""
    value = 1.0
    for left in range(2, size + 1):
        failed = (left - 1) * COST / size
        value = max((1 - 1 / size) * value + failed / size, left * COST / size)
    mdp = DeepSea(size=size, deterministic=False).build()
    assert mdp.optimal_start_value() == pytest.approx(value, rel=1e-13)
    assert value == pytest.approx((1 - 1 / size) ** (size - 1), abs=COST)


def test_the_coins_of_seed_42_are_pinned() -> None:
    """Those of the source's mapping_seed 42; a change here means that published seeds name other MDPs."""
    mdp = DeepSea(size=4, seed=42).build()
    right = (mdp.rewards[:, :3] == 0.0).argmax(axis=2)
    np.testing.assert_array_equal(right, [[0, 1, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(mdp.rewards[:, 3].argmax(axis=1), [1, 1, 1, 0])


def test_without_randomized_actions_the_seed_has_no_effect() -> None:
    one, two = (DeepSea(randomize_actions=False, seed=seed).build() for seed in (1, 2))
    np.testing.assert_array_equal(one.transitions, two.transitions)
