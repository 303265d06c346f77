"""Double-double sums against fractions, solved programs against linprog."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dprl.envs.games.equilibria import TOLERANCE, _Dictionary, dictionary, exact_sum, precise_sum, solve


def filled(table: np.ndarray) -> _Dictionary:
    """A dictionary whose variables 0.. are the columns' and whose later ones are the rows'."""
    n_rows, n_columns = table.shape[0] - 1, table.shape[1]
    entries = dictionary(n_rows, n_columns)
    entries.table[:, :n_columns] = table
    entries.nonbasic[1:n_columns] = np.arange(n_columns - 1)
    entries.basic[:] = n_columns - 1 + np.arange(n_rows)
    return entries


@pytest.mark.parametrize("precise", [False, True])
def test_random_programs_against_linprog(precise: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        n_rows, n = rng.integers(1, 9, 2)
        coefficients = rng.normal(size=(n_rows, n))
        constants = -coefficients @ (rng.random(n) * rng.integers(0, 2, n)) + 0.1 * rng.random(n_rows)  # feasible
        cost = rng.random(n) * rng.integers(0, 2, n)
        entries = filled(np.vstack([np.column_stack([constants, coefficients]), np.append(1.5, cost)]))
        assert solve(entries, precise)
        values = np.zeros(n + n_rows)
        values[entries.basic] = entries.table[:-1, 0]
        assert values.min() >= -TOLERANCE
        assert constants + coefficients @ values[:n] == pytest.approx(values[n:], abs=1e-9)
        done = linprog(cost, -coefficients, constants, method="highs")
        assert entries.table[-1, 0] == pytest.approx(1.5 + done.fun, abs=1e-6)


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("names", [range(7), (0, 2, 3, 1, 5, 4, 6), (0, 2, 4, 1, 5, 3, 6)])
def test_programs_on_which_the_usual_rule_cycles_are_solved(names: Sequence[int], precise: bool) -> None:
    """The dual of Chvatal's example of cycling, whatever its variables are called: the names decide Bland's rule."""
    table = [[-10.0, 0.5, 0.5, 1.0], [57.0, -5.5, -1.5, 0.0], [9.0, -2.5, -0.5, 0.0], [24.0, 9.0, 1.0, 0.0]]
    entries = filled(np.array([*table, [0.0, 0.0, 0.0, 1.0]]))
    entries.nonbasic[1:4], entries.basic[:] = names[:3], names[3:]
    assert solve(entries, precise)
    assert entries.table[:-1, 0].min() >= -TOLERANCE
    assert entries.table[-1, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("precise", [False, True])
def test_what_has_no_solution_is_said_to_be_unsolved(precise: bool) -> None:
    assert not solve(filled(np.array([[-1.0, -2.0, 0.0], [0.0, 1.0, 1.0]])), precise)
    assert not solve(filled(np.array([[-1.0, np.nan, np.nan], [0.0, np.nan, 1.0]])), precise)


def test_a_small_pivot_is_reported() -> None:
    assert solve(filled(np.array([[-1.0, 1e-6], [0.0, 1.0]])), False)
    assert not solve(filled(np.array([[-1.0, 1e-8], [0.0, 1.0]])), False)
    # Also if a later pivot is large.
    assert not solve(filled(np.array([[-2.0, 1e-8, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])), False)


def exact_constants(table: np.ndarray, entries: _Dictionary) -> list[Fraction]:
    """Column 0 of the final dictionary, from the first one and the final basis, by elimination of fractions."""
    rows = [[Fraction(x) for x in row] for row in table]
    basic = list(range(table.shape[1] - 1, table.shape[1] - 1 + len(rows) - 1))
    nonbasic = [-1, *range(table.shape[1] - 1)]
    for leaving in [x for x in basic if x not in entries.basic]:
        r = basic.index(leaving)
        e = next(k for k, x in enumerate(nonbasic) if x in entries.basic and rows[r][k] != 0)
        pivot = [x / -rows[r][e] for x in rows[r]]
        pivot[e] = 1 / rows[r][e]
        rows = [[(k != e) * x + row[e] * pivot[k] for k, x in enumerate(row)] for row in rows]
        rows[r] = pivot
        basic[r], nonbasic[e] = nonbasic[e], leaving
    return [rows[basic.index(x)][0] for x in entries.basic] + [rows[-1][0]]


def test_double_doubles_have_twice_the_digits() -> None:
    rng = np.random.default_rng(3)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(60):
        coefficients = rng.normal(size=(8, 8)) * 10.0 ** -rng.integers(0, 3, (8, 8))
        constants = -coefficients @ rng.random(8) + 1e-3
        table = np.vstack([np.column_stack([constants, coefficients]), np.append(0.0, rng.random(8))])
        for precise, found in errors.items():
            entries = filled(table)
            solve(entries, precise)
            pairs = zip(entries.table[:, 0], entries.remainder[:, 0], exact_constants(table, entries), strict=True)
            found.append(max(float(abs(Fraction(x) + Fraction(y) - exact)) for x, y, exact in pairs))
    assert max(errors[False]) > 1e-15
    assert max(errors[True]) < 1e-26


def test_sums_are_exact() -> None:
    rng = np.random.default_rng(2)
    for _ in range(500):
        x, y = rng.normal(size=2) * 10.0 ** rng.integers(-12, 12, 2)
        high, low = exact_sum(x, y)
        assert Fraction(high) + Fraction(low) == Fraction(x) + Fraction(y)
        assert high == x + y
        x_low, y_low = 1e-17 * x, -1e-17 * y
        high, low = precise_sum(x, x_low, y, y_low)
        exact = Fraction(x) + Fraction(x_low) + Fraction(y) + Fraction(y_low)
        assert abs(Fraction(high) + Fraction(low) - exact) <= abs(exact) * Fraction(2) ** -100
