"""Pursuit: transitions and values of small tori by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.envs.games.pursuit import Pursuit

NORTH, SOUTH, EAST, WEST, STAND = range(5)


def test_rows_of_three_by_three_cells() -> None:
    """The evader is one column east; state 3 r + c is r rows south and c columns east of the pursuer."""
    law = Pursuit(slip=0.25).build().transitions[0, 1]
    both, one, none = 0.75**2, 0.75 * 0.25, 0.25**2
    expected: dict[tuple[int, int], dict[int, float]] = {
        (STAND, STAND): {1: 1.0},
        (EAST, STAND): {0: 0.75, 1: 0.25},
        (WEST, STAND): {2: 0.75, 1: 0.25},
        (STAND, WEST): {0: 0.75, 1: 0.25},
        (STAND, SOUTH): {4: 0.75, 1: 0.25},
        (NORTH, STAND): {4: 0.75, 1: 0.25},
        (STAND, NORTH): {7: 0.75, 1: 0.25},
        (EAST, EAST): {1: both + none, 0: one, 2: one},
        (EAST, SOUTH): {3: both, 0: one, 4: one, 1: none},
        (WEST, EAST): {0: both, 2: 2 * one, 1: none},
        (SOUTH, NORTH): {4: both, 7: 2 * one, 1: none},
    }
    for actions, cells in expected.items():
        row = np.zeros(9)
        row[list(cells)] = list(cells.values())
        np.testing.assert_allclose(law[actions], row, rtol=1e-14)


def test_the_reward_is_one_where_the_pursuer_has_the_evader_alone() -> None:
    game = Pursuit(n_rows=2, n_columns=4, horizon=3).build()
    assert (game.horizon, game.n_states, game.n_max_actions, game.n_min_actions) == (3, 8, 5, 5)
    np.testing.assert_array_equal(game.rewards[:, 0], 1.0)
    np.testing.assert_array_equal(game.rewards[:, 1:], 0.0)
    np.testing.assert_array_equal(game.start, 1 / 8)


@pytest.mark.parametrize("slip", [0.0, 0.1, 0.37, 1.0])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (3, 3), (2, 5)])
def test_rows_are_distributions_and_the_same_at_every_step(rows: int, columns: int, slip: float) -> None:
    game = Pursuit(n_rows=rows, n_columns=columns, slip=slip).build()
    np.testing.assert_allclose(game.transitions.sum(axis=-1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(game.transitions, np.broadcast_to(game.transitions[0], game.transitions.shape))


def test_both_moving_alike_changes_nothing_and_all_states_look_alike() -> None:
    """The law of the change of position is that of state 0, moved along the torus."""
    game = Pursuit(n_rows=3, n_columns=4, slip=0.2).build()
    law = game.transitions[0].reshape(3, 4, 5, 5, 3, 4)
    for row in range(3):
        for column in range(4):
            moved = np.roll(law[0, 0], (row, column), axis=(2, 3))
            np.testing.assert_allclose(law[row, column], moved, atol=1e-16)
    still = Pursuit(n_rows=3, n_columns=4, slip=0.0).build().transitions[0]
    for action in range(5):
        np.testing.assert_array_equal(still[:, action, action], np.eye(12))


@pytest.mark.parametrize("slip", [0.0, 0.25, 0.45])
def test_two_cells_are_matching_pennies(slip: float) -> None:
    """Changing cells with probability 1/2 makes both next states equally likely; slips below 1/2 permit it."""
    values, max_player, min_player = (game := Pursuit(n_rows=1, n_columns=2, horizon=4, slip=slip).build()).nash()
    for h in range(4):
        np.testing.assert_allclose(values[h], [1 + (3 - h) / 2, (3 - h) / 2], atol=1e-12)
    changes = [EAST, WEST]
    for policy in (max_player, min_player):
        np.testing.assert_allclose(policy[:3, :, changes].sum(axis=-1) * (1 - slip), 0.5, atol=1e-12)
    assert game.exploitability(max_player, min_player) == pytest.approx(0.0, abs=1e-12)


def test_a_ring_of_three_cells_is_rock_paper_scissors() -> None:
    """Each of three shifts catches one other shift, and from any state the next one is uniform."""
    values, _, _ = Pursuit(n_rows=1, n_columns=3, horizon=5, slip=0.0).build().nash()
    for h in range(5):
        np.testing.assert_allclose(values[h], [1 + (4 - h) / 3, (4 - h) / 3, (4 - h) / 3], atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns", "shifts"), [(1, 4, 3), (1, 5, 3), (2, 2, 3), (2, 3, 4), (3, 3, 5), (3, 4, 5), (4, 4, 5)]
)
def test_without_slips_a_free_evader_stays_free(rows: int, columns: int, shifts: int) -> None:
    """A caught evader picks a distinct shift at random, and is caught again if the pursuer guesses it."""
    values, _, _ = Pursuit(n_rows=rows, n_columns=columns, horizon=6, slip=0.0).build().nash()
    for h in range(6):
        assert values[h, 0] == pytest.approx(sum(shifts**-k for k in range(6 - h)), abs=1e-12)
        np.testing.assert_allclose(values[h, 1:], 0.0, atol=1e-12)


def test_if_all_slip_nobody_moves() -> None:
    values, _, _ = Pursuit(horizon=4, slip=1.0).build().nash()
    np.testing.assert_array_equal(values[0], [4.0] + [0.0] * 8)


def test_values_have_the_symmetries_of_the_torus() -> None:
    values, max_player, min_player = (game := Pursuit(n_rows=4, n_columns=4, horizon=5).build()).nash()
    table = values.reshape(6, 4, 4)
    np.testing.assert_allclose(table, table.transpose(0, 2, 1), atol=1e-12)
    np.testing.assert_allclose(table[:, 1], table[:, 3], atol=1e-12)
    assert game.exploitability(max_player, min_player) == pytest.approx(0.0, abs=1e-12)
    assert (table[0] > 0.0).all()


def test_equal_specs_build_equal_bits() -> None:
    one, two = Pursuit().build(), Pursuit().build()
    for key in ("transitions", "rewards", "start"):
        assert getattr(one, key).tobytes() == getattr(two, key).tobytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_rows": 0}, "n_rows must be an integer of at least 1, got 0; set n_rows: 1 or more"),
        ({"n_columns": 3.0}, "n_columns must be an integer of at least 1, got 3.0; set n_columns: 1 or more"),
        ({"horizon": True}, "horizon must be an integer of at least 1, got True; set horizon: 1 or more"),
        ({"slip": 1.5}, "slip must be a number in [0, 1], got 1.5; set e.g. slip: 0.1"),
        ({"slip": float("nan")}, "slip must be a number in [0, 1], got nan; set e.g. slip: 0.1"),
        ({"slip": "0.1"}, "slip must be a number in [0, 1], got '0.1'; set e.g. slip: 0.1"),
        ({"n_rows": 50, "n_columns": 50}, "pursuit needs transitions of at most 100000000 entries"),
    ],
)
def test_bad_fields_are_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole line is checked below
        Pursuit(**fields)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
