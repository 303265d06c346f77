"""Soccer, rock-paper-scissors and random games: rules, symmetries, laws and equilibria."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import linprog

from dprl.envs.games.base import MarkovGame
from dprl.envs.games.random_game import RandomGame
from dprl.envs.games.rock_paper_scissors import RockPaperScissors
from dprl.envs.games.soccer import Soccer, _Configuration

# Soccer: the rules by hand, symmetries, and the reduced game against the full one.

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
def test_values_are_those_of_a_game_without_folding(rows: int, columns: int, kick_off: tuple[complex, complex]) -> None:
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


# Rock-paper-scissors: payoffs and equilibria by hand, with and without memory.

ROCK, PAPER, SCISSORS = range(3)
DRAW, WON, LOST = range(3)
EQUILIBRIA = {"standard": [1 / 3, 1 / 3, 1 / 3], "biased": [1 / 16, 10 / 16, 5 / 16]}
PAYOFFS, MEMORIES = sorted(EQUILIBRIA), ["none", "outcome"]


@pytest.mark.parametrize(
    ("payoffs", "rewards"),
    [
        ("standard", [[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]]),
        ("biased", [[0.5, 0.25, 1.0], [0.75, 0.5, 0.45], [0.0, 0.55, 0.5]]),
    ],
)
@pytest.mark.parametrize("memory", MEMORIES)
def test_rewards_are_the_same_in_every_round_and_state(payoffs: Any, memory: Any, rewards: list[list[float]]) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory=memory).build()
    np.testing.assert_array_equal(game.rewards, np.broadcast_to(rewards, game.rewards.shape))
    # Zero-sum and symmetric: swapping the players swaps their rewards.
    np.testing.assert_allclose(game.rewards + game.rewards.swapaxes(2, 3), 1.0, rtol=1e-15)


@pytest.mark.parametrize("payoffs", PAYOFFS)
def test_the_state_is_the_last_outcome(payoffs: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, horizon=2).build()
    assert game.transitions.shape == (2, 3, 3, 3, 3)
    np.testing.assert_array_equal(game.start, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(game.transitions.sum(axis=-1), 1.0)
    outcomes = {
        (ROCK, SCISSORS): WON,
        (PAPER, ROCK): WON,
        (SCISSORS, PAPER): WON,
        (SCISSORS, ROCK): LOST,
        (ROCK, PAPER): LOST,
        (PAPER, SCISSORS): LOST,
        **{(action, action): DRAW for action in range(3)},
    }
    for actions, outcome in outcomes.items():
        np.testing.assert_array_equal(game.transitions[:, :, *actions, outcome], 1.0)


@pytest.mark.parametrize("payoffs", PAYOFFS)
def test_without_memory_there_is_one_state(payoffs: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory="none").build()
    np.testing.assert_array_equal(game.transitions, np.ones((5, 1, 3, 3, 1)))
    np.testing.assert_array_equal(game.start, [1.0])


@pytest.mark.parametrize("payoffs", PAYOFFS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_nash_is_the_equilibrium_of_one_round_in_every_round(payoffs: Any, memory: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory=memory, horizon=7).build()
    values, max_player, min_player = game.nash()
    np.testing.assert_allclose(values, np.broadcast_to(0.5 * np.arange(7, -1, -1)[:, None], values.shape), atol=1e-12)
    for policy in (max_player, min_player):
        np.testing.assert_allclose(policy, np.broadcast_to(EQUILIBRIA[payoffs], policy.shape), atol=1e-12)


# Random games: seeds, sizes, the laws they are drawn from, and their exact solution.

FIRST_ROW = [0.39546198954297845, 0.5930180594914135, 0.011519950965607977]
FIRST_REWARD = 0.48553513877958776


def test_sizes_of_the_default_and_of_the_larger_one() -> None:
    for size, game in ((3, RandomGame().build()), (6, RandomGame(6, 6, 6, 6).build())):
        assert (game.horizon, game.n_states, game.n_max_actions, game.n_min_actions) == (size,) * 4
        np.testing.assert_allclose(game.transitions.sum(axis=-1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(game.start, 1 / size)


def test_players_may_have_different_numbers_of_actions() -> None:
    game = RandomGame(n_states=4, n_max_actions=2, n_min_actions=5, horizon=3).build()
    assert game.transitions.shape == (3, 4, 2, 5, 4)
    assert game.rewards.shape == (3, 4, 2, 5)


def test_the_first_numbers_of_seed_0_stay_as_they_are() -> None:
    """Recorded values, so that results of old runs can be reproduced by name and seed."""
    game = RandomGame().build()
    np.testing.assert_allclose(game.transitions[0, 0, 0, 0], FIRST_ROW, rtol=1e-12)
    np.testing.assert_allclose(game.rewards[0, 0, 0, 0], FIRST_REWARD, rtol=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 0.1])
def test_entries_follow_their_laws(concentration: float) -> None:
    """Parts of a Dirichlet row are beta variables, rewards uniform; a false alarm has probability 1e-6 each."""
    game = RandomGame(n_states=4, n_max_actions=5, n_min_actions=5, horizon=40, concentration=concentration).build()
    law = stats.beta(concentration, 3 * concentration)
    assert stats.kstest(game.transitions[..., 2].ravel(), law.cdf).pvalue > 1e-6
    assert stats.kstest(game.transitions[..., 2].ravel(), stats.beta(0.5, 1.5).cdf).pvalue < 1e-6
    assert stats.kstest(game.rewards.ravel(), "uniform").pvalue > 1e-6
