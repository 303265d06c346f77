"""GridWorld: rows by hand, values by hand, shortest paths by search."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dprl.envs import FiniteMDP, GridWorld

LEFT, RIGHT, UP, DOWN = range(4)


def steps_to_last(mdp: FiniteMDP) -> NDArray[np.int64]:
    """Fewest moves from each state to the last one, by breadth-first search over possible successors."""
    linked = mdp.transitions[0].max(axis=1) > 0.0
    distance = np.full(mdp.n_states, -1)
    distance[-1] = 0
    queue = deque([mdp.n_states - 1])
    while queue:
        target = queue.popleft()
        for s in np.flatnonzero(linked[:, target] & (distance < 0)):
            distance[s] = distance[target] + 1
            queue.append(int(s))
    return distance


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


@pytest.mark.parametrize("slip", [0.0, 0.1, 0.4])
def test_optimum_of_two_by_two_cells_by_hand(slip: float) -> None:
    """Both neighbours of the start are one step away from the goal; a slip there leads back to the start."""
    from_start = {1: 0.0, 2: 0.0, 3: 1 - slip, 4: 2 * (1 - slip), 5: (1 - slip) * (3 + slip)}
    for horizon, value in from_start.items():
        mdp = GridWorld(width=2, height=2, horizon=horizon, slip=slip).build()
        assert mdp.optimal_start_value() == pytest.approx(value, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("layout", ["open", "four_rooms"])
@pytest.mark.parametrize(("width", "height"), [(3, 3), (5, 5), (4, 7), (11, 11)])
@pytest.mark.parametrize("horizon", [1, 30])
def test_without_slips_the_optimum_is_the_time_left_after_a_shortest_path(
    width: int, height: int, horizon: int, layout: Any
) -> None:
    mdp = GridWorld(width=width, height=height, horizon=horizon, slip=0.0, layout=layout).build()
    values, _ = mdp.optimum()
    distance = steps_to_last(mdp)
    assert distance.min() == 0, "a cell cannot reach the goal"
    assert distance[0] == width + height - 2
    for h in range(horizon + 1):
        np.testing.assert_array_equal(values[h], np.maximum(horizon - h - distance, 0))


def test_walls_and_doors_of_six_by_nine_cells() -> None:
    rooms = [
        "....#....",
        ".........",
        "....#....",
        "#.####.##",
        ".........",
        "....#....",
    ]
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
