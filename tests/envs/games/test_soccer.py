"""Soccer: the rules by hand, symmetries, and the reduced game against the full one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from dprl.envs.games.base import MarkovGame
from dprl.envs.games.soccer import Soccer, _Configuration

NORTH, SOUTH, EAST, WEST, STAND = range(5)
MAX, MIN = 0, 1


def mirrored(seen: _Configuration, spec: Soccer) -> _Configuration:
    """The configuration with top and bottom exchanged."""
    (row, column), (other_row, other_column), ball = seen
    return _Configuration((spec.n_rows - 1 - row, column), (spec.n_rows - 1 - other_row, other_column), ball)


def exchanged(seen: _Configuration, spec: Soccer) -> _Configuration:
    """The configuration with exchanged players, each seen from its own goal."""
    (row, column), (other_row, other_column), ball = seen
    last = spec.n_columns - 1
    return _Configuration((other_row, last - other_column), (row, last - column), 1 - ball)


def state_of(spec: Soccer) -> Callable[[_Configuration], int]:
    numbers = {seen: s for s, seen in enumerate(spec.configurations())}
    return lambda seen: numbers[seen if seen in numbers else mirrored(seen, spec)]


@pytest.fixture(scope="module")
def littman() -> MarkovGame:
    return Soccer().build()


def test_the_default_is_four_by_five_cells_up_to_reflection(littman: MarkovGame) -> None:
    spec = Soccer()
    seen = spec.configurations()
    assert (littman.horizon, littman.n_states, littman.n_max_actions, littman.n_min_actions) == (8, 380, 5, 5)
    assert len(set(seen)) == 380
    assert len({*seen, *(mirrored(one, spec) for one in seen)}) == 20 * 19 * 2
    np.testing.assert_array_equal(np.unique(littman.rewards), [0.0, 0.25, 0.5, 0.75, 1.0])


def test_kick_off_is_symmetric_with_random_possession(littman: MarkovGame) -> None:
    start = np.zeros(380)
    start[[state_of(Soccer())(_Configuration((1, 3), (2, 1), ball)) for ball in (MAX, MIN)]] = 0.5
    np.testing.assert_array_equal(littman.start, start)


# (max-player's cell, min-player's cell, ball), actions, and the equally likely outcomes.
MOVES: list[tuple[_Configuration, tuple[int, int], list[_Configuration]]] = [
    # Each to a free cell.
    (_Configuration((1, 3), (2, 1), MAX), (WEST, EAST), [_Configuration((1, 2), (2, 2), MAX)]),
    (_Configuration((1, 3), (1, 1), MIN), (NORTH, SOUTH), [_Configuration((0, 3), (2, 1), MIN)]),
    # Off the grid: nothing happens, also beside the goal and in the wrong goal.
    (_Configuration((0, 0), (3, 4), MAX), (NORTH, SOUTH), [_Configuration((0, 0), (3, 4), MAX)]),
    (_Configuration((0, 0), (3, 4), MAX), (WEST, EAST), [_Configuration((0, 0), (3, 4), MAX)]),
    (_Configuration((1, 4), (2, 2), MAX), (EAST, STAND), [_Configuration((1, 4), (2, 2), MAX)]),
    (_Configuration((1, 2), (2, 0), MIN), (STAND, WEST), [_Configuration((1, 2), (2, 0), MIN)]),
    # Into the goal, but without the ball.
    (_Configuration((1, 0), (2, 2), MIN), (WEST, STAND), [_Configuration((1, 0), (2, 2), MIN)]),
    # Into a standing player: that player gets the ball.
    (_Configuration((1, 2), (1, 1), MAX), (WEST, STAND), [_Configuration((1, 2), (1, 1), MIN)]),
    (_Configuration((1, 2), (1, 1), MAX), (STAND, EAST), [_Configuration((1, 2), (1, 1), MAX)]),
    # Into a player who walks away: in time, or too early.
    (
        _Configuration((1, 2), (1, 1), MAX),
        (WEST, SOUTH),
        [_Configuration((1, 1), (2, 1), MAX), _Configuration((1, 2), (2, 1), MIN)],
    ),
    # Both to the same cell: the first one gets the cell and the ball.
    (
        _Configuration((1, 3), (1, 1), MAX),
        (WEST, EAST),
        [_Configuration((1, 2), (1, 1), MAX), _Configuration((1, 3), (1, 2), MIN)],
    ),
    # Into each other: whoever is second loses the ball.
    (
        _Configuration((1, 2), (1, 1), MAX),
        (WEST, EAST),
        [_Configuration((1, 2), (1, 1), MAX), _Configuration((1, 2), (1, 1), MIN)],
    ),
]


@pytest.mark.parametrize(("before", "actions", "after"), MOVES)
def test_moves_without_a_goal(
    littman: MarkovGame, before: _Configuration, actions: tuple[int, int], after: list[_Configuration]
) -> None:
    state = state_of(Soccer())
    law = np.zeros(380)
    law[[state(seen) for seen in after]] = 1.0 / len(after)
    swapped = tuple({NORTH: SOUTH, SOUTH: NORTH}.get(action, action) for action in actions)
    own = actions if before in Soccer().configurations() else swapped
    np.testing.assert_array_equal(littman.transitions[0, state(before), *own], law)
    assert littman.rewards[0, state(before), *own] == 0.5


@pytest.mark.parametrize(
    ("before", "actions", "reward"),
    [
        (_Configuration((1, 0), (0, 3), MAX), (WEST, EAST), 1.0),
        (_Configuration((1, 0), (1, 1), MAX), (WEST, WEST), 1.0),
        (_Configuration((0, 1), (1, 4), MIN), (NORTH, EAST), 0.0),
    ],
)
def test_a_goal_pays_and_play_restarts(
    littman: MarkovGame, before: _Configuration, actions: tuple[int, int], reward: float
) -> None:
    s = state_of(Soccer())(before)
    assert littman.rewards[0, s, *actions] == reward
    np.testing.assert_array_equal(littman.transitions[0, s, *actions], littman.start)


def test_a_ball_lost_in_front_of_the_goal_costs_one_in_half_of_the_orders(littman: MarkovGame) -> None:
    """The min-player walks into the max-player before that one moves west; after it, the ball comes too late."""
    state = state_of(Soccer())
    s = state(_Configuration((1, 0), (1, 1), MIN))
    assert littman.rewards[0, s, WEST, WEST] == 0.75
    law = littman.start / 2
    law[state(_Configuration((1, 0), (1, 1), MAX))] += 0.5
    np.testing.assert_array_equal(littman.transitions[0, s, WEST, WEST], law)


def test_nash_values_are_fair_at_kick_off_and_favour_the_ball(littman: MarkovGame) -> None:
    spec, state = Soccer(), state_of(Soccer())
    values, max_player, min_player = littman.nash()
    assert littman.start @ values[0] == pytest.approx(4.0, abs=1e-12)
    assert littman.exploitability(max_player, min_player) == pytest.approx(0.0, abs=1e-12)
    seen = spec.configurations()
    others = [state(exchanged(one, spec)) for one in seen]
    with_ball = np.array([one.ball == MAX for one in seen])
    for h in range(spec.horizon + 1):
        np.testing.assert_allclose(values[h] + values[h, others], spec.horizon - h, atol=1e-12)
        assert (values[h, with_ball] >= (spec.horizon - h) / 2 - 1e-12).all()
    assert (values[0, with_ball] > 4.02).all()


def least_gain(payoff: NDArray[np.float64]) -> float:
    """The value of a matrix game by linear programming."""
    rows, columns = payoff.shape
    if payoff.min(axis=1).max() == payoff.max(axis=0).min():
        return float(payoff.min(axis=1).max())
    found = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.column_stack([-payoff.T, np.ones(columns)]),
        b_ub=np.zeros(columns),
        A_eq=[np.append(np.ones(rows), 0.0)],
        b_eq=[1.0],
        bounds=[(0.0, None)] * rows + [(None, None)],
    )
    return -float(found.fun)


def whole_game(rows: int, columns: int, kick_off: tuple[complex, complex]) -> Callable[..., float]:
    """Nash value in goals (steps left, cells as column + row * i, ball) of the unreduced game."""
    goal_rows = {(rows - 1) // 2, rows // 2}

    def play(left: int, cells: tuple[complex, complex], ball: int, steps: tuple[complex, complex], first: int) -> float:
        now, owner = list(cells), ball
        for who in (first, 1 - first):
            to = now[who] + steps[who]
            if owner == who and to.imag in goal_rows and to.real == (-1, columns)[who]:
                return (1, -1)[who] + (value(left, kick_off, MAX) + value(left, kick_off, MIN)) / 2
            if to == now[1 - who]:
                owner = 1 - who
            elif 0 <= to.real < columns and 0 <= to.imag < rows:
                now[who] = to
        return value(left, (now[0], now[1]), owner)

    @cache
    def value(left: int, cells: tuple[complex, complex], ball: int) -> float:
        if left == 0:
            return 0.0
        steps = (-1j, 1j, 1, -1, 0)
        gains = [[sum(play(left - 1, cells, ball, (a, b), who) for who in (0, 1)) / 2 for b in steps] for a in steps]
        return least_gain(np.array(gains))

    return value


@pytest.mark.parametrize(
    ("rows", "columns", "kick_off"),
    [(1, 4, (3 + 0j, 0j)), (2, 3, (2 + 0j, 1j)), (3, 3, (2 + 1j, 1j)), (4, 2, (1 + 1j, 2j))],
)
def test_values_are_those_of_the_game_without_folding(
    rows: int, columns: int, kick_off: tuple[complex, complex]
) -> None:
    spec = Soccer(n_rows=rows, n_columns=columns, horizon=4)
    values, _, _ = spec.build().nash()
    whole, state = whole_game(rows, columns, kick_off), state_of(spec)
    cells = list(product(range(rows), range(columns)))
    for mine, theirs, ball in product(cells, cells, (MAX, MIN)):
        if mine != theirs:
            expected = whole(4, (complex(*mine[::-1]), complex(*theirs[::-1])), ball)
            found = values[0, state(_Configuration(mine, theirs, ball))]
            assert found == pytest.approx(0.5 * 4 + 0.5 * expected, abs=1e-9)


@pytest.mark.parametrize(("rows", "columns", "states"), [(1, 2, 4), (2, 2, 12), (3, 3, 78), (5, 2, 92)])
def test_number_of_states(rows: int, columns: int, states: int) -> None:
    """Half of 2 n (n - 1), and half of those that are their own mirror image on top; n cells."""
    spec = Soccer(n_rows=rows, n_columns=columns, horizon=1)
    assert spec.build().n_states == states
    assert len(spec.configurations()) == states
