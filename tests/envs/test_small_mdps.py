"""RiverSwim, Garnet, random MDPs, DeepSea and GridWorld against their sources, laws, and values by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprl.envs import DeepSea, Garnet, GridWorld, RandomMDP, RiverSwim
from dprl.envs.random_mdp import dirichlet_rows

# RiverSwim against the numbers of its sources.

# Effect of `right`: first (stay, right), middle (left, stay, right), last (left, stay).
FIRST, MIDDLE, LAST, SMALL = (0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6), 0.005


def test_optimal_value_of_the_default() -> None:
    assert RiverSwim().build().optimal_start_value() == pytest.approx(3.3973, abs=5e-5)


def test_numbers_of_the_source() -> None:
    mdp = RiverSwim().build()
    for transitions in mdp.transitions:
        left, right = transitions[:, 0], transitions[:, 1]
        np.testing.assert_array_equal(left, np.eye(6)[[0, 0, 1, 2, 3, 4]])
        np.testing.assert_array_equal(right[0], [*FIRST, 0, 0, 0, 0])
        np.testing.assert_array_equal(right[5], [0, 0, 0, 0, *LAST])
        for s in range(1, 5):
            expected = np.zeros(6)
            expected[s - 1 : s + 2] = MIDDLE
            np.testing.assert_array_equal(right[s], expected)
    rewards = np.zeros((6, 2))
    rewards[0, 0], rewards[5, 1] = SMALL, 1.0
    np.testing.assert_array_equal(mdp.rewards, np.tile(rewards, (20, 1, 1)))
    np.testing.assert_array_equal(mdp.start, np.eye(6)[0])


# Garnet: the number of successors and the distribution of the cut points.


@pytest.mark.parametrize("branching", [1, 2, 5])
def test_every_pair_has_exactly_b_successors(branching: int) -> None:
    mdp = Garnet(n_states=5, n_actions=4, branching=branching).build()
    np.testing.assert_array_equal((mdp.transitions > 0.0).sum(axis=-1), branching)


def test_dynamics_and_rewards_are_the_same_at_every_step() -> None:
    mdp = Garnet().build()
    np.testing.assert_array_equal(mdp.transitions, np.broadcast_to(mdp.transitions[0], mdp.transitions.shape))
    np.testing.assert_array_equal(mdp.rewards, np.broadcast_to(mdp.rewards[0], mdp.rewards.shape))


def test_law_of_successors_and_probabilities() -> None:
    """Parts of [0, 1] cut at 2 uniform points have mean 1/3 and variance 1/18, each state is a successor with
    probability b / S; five standard errors, a false alarm in about 1e-6 of the seeds."""
    transitions = Garnet(n_states=30, n_actions=100, branching=3, horizon=1).build().transitions[0]
    parts = transitions[transitions > 0.0]
    pairs = 3000
    # Parts of one pair sum to 1, so their squares carry the information on the spread.
    spread = ((parts.reshape(pairs, 3) - 1 / 3) ** 2).mean(axis=1)
    assert abs(spread.mean() - 1 / 18) < 5 * spread.std() / np.sqrt(pairs)
    hits = (transitions > 0.0).reshape(pairs, 30).sum(axis=0)
    assert np.abs(hits - pairs * 0.1).max() < 5.7 * np.sqrt(pairs * 0.1 * 0.9)


def test_branching_beyond_the_states_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^branching must be at most n_states = 3, got 4; lower branching"):
        Garnet(n_states=3, branching=4)


def test_the_stream_of_seed_zero_is_pinned() -> None:
    """A change here means that published seeds no longer name the MDPs that they named."""
    mdp = Garnet().build()
    row = [0.0, 0.0, 0.49253013945547286, 0.0, 0.4603553288673248, 0.0, 0.047114531677202365, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(mdp.transitions[0, 0, 0], row, rtol=1e-12)
    assert mdp.optimal_start_value() == pytest.approx(7.942451466919258, rel=1e-12)


# The random MDP has the distribution of its paper, also if gamma variables underflow.


@pytest.mark.parametrize("concentration", [0.1, 1e-3])
def test_moments_of_the_rows(concentration: float) -> None:
    """Mean and second moment within five standard errors: a false alarm in about 1e-6 of the seeds."""
    n, size = 40_000, 4
    rows = dirichlet_rows(np.random.default_rng(0), concentration, (n, size))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-14)
    assert rows.min() >= 0.0
    moments = {1: 1 / size, 2: (concentration + 1) / (size * (size * concentration + 1))}
    for power, expected in moments.items():
        sample = rows[:, 0] ** power
        assert abs(sample.mean() - expected) < 5 * sample.std() / np.sqrt(n)


def test_rows_that_underflow_are_drawn_again() -> None:
    naive = np.random.default_rng(1).standard_gamma(1e-3, size=(1000, 2))
    assert (naive.sum(axis=1) == 0.0).any(), "the case under test no longer occurs"
    rows = dirichlet_rows(np.random.default_rng(1), 1e-3, (1000, 2))
    assert np.isfinite(rows).all()
    assert not ((rows > 0.0) & (rows < np.finfo(np.float64).tiny)).any()


def test_transitions_depend_on_the_step() -> None:
    mdp = RandomMDP().build()
    assert not np.array_equal(mdp.transitions[0], mdp.transitions[1])
    assert not np.array_equal(mdp.rewards[0], mdp.rewards[1])


def test_rewards_are_sparse_and_uniform() -> None:
    """Share of zeros and mean of the others within five standard errors (about 1e-6 of the seeds)."""
    rewards = RandomMDP(n_states=20, n_actions=20, horizon=100).build().rewards.ravel()
    paid = rewards[rewards > 0.0]
    assert abs(paid.size / rewards.size - 0.15) < 5 * np.sqrt(0.15 * 0.85 / rewards.size)
    assert abs(paid.mean() - 0.5) < 5 * np.sqrt(1 / 12 / paid.size)


def test_the_random_mdp_of_seed_zero_is_pinned() -> None:
    """A change here means that published seeds no longer name the MDPs that they named."""
    mdp = RandomMDP().build()
    row = [0.07500333044917905, 9.098726542586106e-14, 0.863567404681269, 0.046049787412465584]
    np.testing.assert_allclose(mdp.transitions[0, 0, 0, :4], row, rtol=1e-12)
    assert mdp.optimal_start_value() == pytest.approx(1.7302687326740915, rel=1e-12)


# DeepSea against a step-by-step reading of its source, and values by hand.

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


def test_the_coins_of_seed_42_are_pinned() -> None:
    """Those of the source's mapping_seed 42; a change here means that published seeds name other MDPs."""
    mdp = DeepSea(size=4, seed=42).build()
    right = (mdp.rewards[:, :3] == 0.0).argmax(axis=2)
    np.testing.assert_array_equal(right, [[0, 1, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(mdp.rewards[:, 3].argmax(axis=1), [1, 1, 1, 0])


# GridWorld: rows by hand, values by hand, shortest paths by search.

LEFT, RIGHT, UP, DOWN = range(4)


def test_rows_of_corner_edge_and_middle() -> None:
    """3 x 3 cells, numbered row by row; slips are shared by the other free neighbours."""
    law = GridWorld(width=3, height=3, slip=0.3).build().transitions[0]
    expected: dict[tuple[int, int], dict[int, float]] = {
        (0, RIGHT): {1: 0.7, 3: 0.3},
        (0, DOWN): {3: 0.7, 1: 0.3},
        (0, LEFT): {0: 1.0},
        (0, UP): {0: 1.0},
        (1, LEFT): {0: 0.7, 2: 0.15, 4: 0.15},
        (1, UP): {1: 1.0},
        (4, LEFT): {3: 0.7, 5: 0.1, 1: 0.1, 7: 0.1},
        (4, RIGHT): {5: 0.7, 3: 0.1, 1: 0.1, 7: 0.1},
        (4, UP): {1: 0.7, 3: 0.1, 5: 0.1, 7: 0.1},
        (4, DOWN): {7: 0.7, 3: 0.1, 5: 0.1, 1: 0.1},
        (8, RIGHT): {8: 1.0},
        (8, UP): {5: 0.7, 7: 0.3},
    }
    for (state, action), cells in expected.items():
        row = np.zeros(9)
        row[list(cells)] = list(cells.values())
        np.testing.assert_allclose(law[state, action], row, rtol=1e-14)


def test_the_reward_is_one_in_the_last_cell_alone() -> None:
    mdp = GridWorld(width=4, height=3, horizon=2).build()
    assert (mdp.horizon, mdp.n_states, mdp.n_actions) == (2, 12, 4)
    np.testing.assert_array_equal(mdp.rewards[:, -1], 1.0)
    np.testing.assert_array_equal(mdp.rewards[:, :-1], 0.0)
    np.testing.assert_array_equal(mdp.start, np.eye(12)[0])


def test_walls_and_doors_of_six_by_nine_cells() -> None:
    rooms = ["....#....", ".........", "....#....", "#.####.##", ".........", "....#...."]
    cells = [(r, c) for r, line in enumerate(rooms) for c, sign in enumerate(line) if sign == "."]
    law = GridWorld(width=9, height=6, layout="four_rooms", slip=0.0).build().transitions[0]
    assert law.shape == (len(cells), 4, len(cells))
    for s, (row, column) in enumerate(cells):
        for action, (down, right) in enumerate([(0, -1), (0, 1), (-1, 0), (1, 0)]):
            there = (row + down, column + right)
            assert law[s, action].argmax() == (cells.index(there) if there in cells else s)


def test_whole_numbers_are_slips_too() -> None:
    np.testing.assert_array_equal(GridWorld(slip=0).build().transitions, GridWorld(slip=0.0).build().transitions)
    # With certainty to the other neighbour.
    assert GridWorld(width=2, height=2, slip=1).build().transitions[0, 0, RIGHT].tolist() == [0.0, 0.0, 1.0, 0.0]
