"""Equilibria and the linear programs behind them, against linprog, fractions and games solved by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from dprl.envs.games.equilibria import (
    LARGEST_VIOLATION,
    TOLERANCE,
    _Dictionary,
    coarse_correlated_equilibrium,
    dictionary,
    equilibrium_scratch,
    exact_sum,
    matrix_game,
    precise_sum,
    solve,
    tie_weights,
)

# Equilibria against linear programming, enumeration of vertices and games solved by hand; the selection rule.

Floats = NDArray[np.float64]
Game = tuple[Floats, Floats]

SIZES = [(2, 2), (3, 3), (4, 4), (2, 5), (5, 3), (6, 6), (8, 8), (1, 4), (4, 1), (1, 1)]
KINDS = ["unrelated", "zero-sum", "near zero-sum", "clipped", "integers", "tiny gap", "rank 1", "negative", "constant"]


def random_game(rng: np.random.Generator, A: int, B: int, kind: str) -> Game:
    H = 10.0
    q = rng.random((A, B)) * H
    if kind == "unrelated":
        return q, rng.random((A, B)) * H
    if kind == "zero-sum":
        return q, q.copy()
    if kind in {"near zero-sum", "clipped"}:
        gap = rng.random((A, B)) * (0.3 if kind == "near zero-sum" else 8.0)
        return np.minimum(q + gap, H), np.maximum(q - gap, 0.0)
    if kind == "integers":
        return rng.integers(0, 3, (A, B)).astype(float), rng.integers(0, 3, (A, B)).astype(float)
    if kind == "tiny gap":
        width = 10.0 ** -rng.uniform(4, 13)
        return q + width * rng.random((A, B)), q - width * rng.random((A, B))
    if kind == "rank 1":
        q = np.outer(rng.normal(size=A), rng.normal(size=B))
        return q, q - rng.random()
    if kind == "negative":
        lower = 1e6 * rng.normal(size=(A, B))
        return lower + 1e5 * rng.random((A, B)), lower
    return np.full((A, B), 3.0), np.full((A, B), rng.integers(0, 3) + 0.5)


def nearly_tied_game(rng: np.random.Generator, A: int, B: int) -> Game:
    """Integers with noise of every size down to rounding: in doubles alone one in ten is solved wrongly."""
    q = rng.integers(0, 3, (A, B)) + 10.0 ** -rng.uniform(2, 16, (A, B)) * rng.normal(size=(A, B))
    return q, q.copy()


def solved(upper: Floats, lower: Floats) -> tuple[Floats, float]:
    policy = np.full(upper.shape, np.nan)
    violation = coarse_correlated_equilibrium(upper, lower, equilibrium_scratch(*upper.shape), policy)
    return policy, violation


def scale_of(upper: Floats, lower: Floats) -> float:
    return float(max(np.abs(upper).max(), np.abs(lower).max())) or 1.0


def largest_gain(upper: Floats, lower: Floats, policy: Floats) -> float:
    max_player, min_player = policy.sum(axis=1), policy.sum(axis=0)
    gained = (upper @ min_player).max() - (policy * upper).sum()
    saved = (policy * lower).sum() - (max_player @ lower).min()
    return float(max(gained, saved, 0.0))


def pure_equilibria(upper: Floats, lower: Floats) -> list[tuple[int, int]]:
    A, B = upper.shape
    return [
        (a, b)
        for a, b in itertools.product(range(A), range(B))
        if all(upper[c, b] <= upper[a, b] for c in range(A)) and all(lower[a, c] >= lower[a, b] for c in range(B))
    ]


def deviations(upper: Floats, lower: Floats) -> Floats:
    """Rows g with g @ policy <= 0 for every deviation of either player."""
    A, B = upper.shape
    gained = [(upper[a] - upper).ravel() for a in range(A)]
    saved = [(lower - lower[:, [b]]).ravel() for b in range(B)]
    return np.array(gained + saved)


def costs(upper: Floats, lower: Floats) -> Floats:
    scale = scale_of(upper, lower)
    return (upper - lower).ravel() / scale + 1e-7 * tie_weights(upper.size)


def smallest_cost(cost: Floats, upper: Floats, lower: Floats, extra: Floats | None = None, most: float = 0.0) -> Floats:
    """linprog's policy of the smallest cost, optionally with extra @ policy <= most."""
    bounded, limit = deviations(upper, lower), np.zeros(sum(upper.shape))
    if extra is not None:
        bounded, limit = np.vstack([bounded, extra]), np.append(limit, most)
    done = linprog(cost, bounded, limit, np.ones((1, cost.size)), [1.0], method="highs")
    assert done.status == 0
    return np.asarray(done.x)


def compare_with_linprog(seed: int, n_games: int) -> None:
    rng = np.random.default_rng(seed)
    mixed = 0
    for i in range(n_games):
        A, B = SIZES[rng.integers(len(SIZES))]
        upper, lower = random_game(rng, A, B, KINDS[i % len(KINDS)])
        policy, violation = solved(upper, lower)
        scale = scale_of(upper, lower)
        assert policy.min() >= 0.0
        assert policy.sum() == pytest.approx(1.0, abs=1e-12)
        assert violation <= LARGEST_VIOLATION
        assert largest_gain(upper, lower, policy) / scale == pytest.approx(violation, abs=1e-14)
        pure = pure_equilibria(upper, lower)
        if pure:
            best = min(pure, key=lambda pair: upper[pair] - lower[pair])
            assert policy[best] == 1.0
        else:
            mixed += 1
            cost = costs(upper, lower)
            optimum = cost @ smallest_cost(cost, upper / scale, lower / scale)
            assert cost @ policy.ravel() == pytest.approx(optimum, abs=2e-6)  # HiGHS's tolerance is 1e-7 a row
    assert mixed > n_games // 5


def test_random_games_against_linprog() -> None:
    compare_with_linprog(1, 1_500)


@pytest.mark.slow
def test_many_random_games_against_linprog() -> None:
    compare_with_linprog(2, 10_000)


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (5, 3), (4, 4), (8, 8)])
def test_nearly_tied_games_are_solved_to_rounding(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    for _ in range(1_000):
        upper, lower = nearly_tied_game(rng, *size)
        policy, violation = solved(upper, lower)
        assert violation <= LARGEST_VIOLATION
        assert largest_gain(upper, lower, policy) <= LARGEST_VIOLATION * scale_of(upper, lower)
        assert policy.sum() == pytest.approx(1.0, abs=1e-12)


def test_an_answer_in_doubles_that_a_deviation_improves_on_is_computed_again() -> None:
    """Doubles alone take no small pivot here, but leave a gain of 6e-10 of the scale."""
    upper = np.array([[-9e-11, 1e-7, 0.3, -3e-7], [0.0, -3e-6, 0.08, 5e-14], [-0.05, 3e-14, 4e-5, -0.09]])
    lower = upper - np.array([[7.0, 8.0, 1.0, 8.0], [0.0, 6.0, 7.0, 6.0], [3.0, 0.0, 8.0, 3.0]])
    policy, violation = solved(upper, lower)
    assert violation < 1e-15
    assert largest_gain(upper, lower, policy) < 1e-14


@pytest.mark.parametrize("zero_sum", [True, False])
def test_ties_are_broken_by_the_stated_numbers(zero_sum: bool) -> None:
    rng = np.random.default_rng(4)
    compared = 0
    while compared < 200:
        A, B = SIZES[rng.integers(2, 6)]
        upper = rng.integers(0, 4, (A, B)).astype(float)
        lower = upper.copy() if zero_sum else upper - rng.integers(0, 2, (A, B)).astype(float)
        if pure_equilibria(upper, lower):
            continue
        compared += 1
        # Among the policies with the smallest gap, the one with the smallest E w: two linear programs for HiGHS.
        gap, weights = (upper - lower).ravel(), tie_weights(upper.size)
        least = gap @ smallest_cost(gap, upper, lower)
        chosen = smallest_cost(weights, upper, lower, gap, least)
        assert solved(upper, lower)[0].ravel() == pytest.approx(chosen, abs=1e-5)


def test_tie_weights_are_fixed_and_tell_all_joint_actions_apart() -> None:
    weights = tie_weights(4096)
    assert weights[0] == (0xE220A8397B1DCDAF >> 11) / 2**53  # the first output of SplitMix64(0), as published
    assert np.array_equal(weights[:9], tie_weights(9))
    assert 0.0 <= weights.min() < weights.max() < 1.0
    assert np.diff(np.sort(weights)).min() > 0.0


def test_pure_equilibrium_of_the_smallest_gap_then_of_the_lowest_joint_action() -> None:
    upper = np.ones((2, 3))
    lower = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
    assert solved(upper, lower)[0].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert solved(upper, upper)[0].tolist() == [[1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("kind", KINDS)
def test_scale_does_not_matter(kind: str) -> None:
    rng = np.random.default_rng(6)
    for factor in (2.0**-900, 2.0**-30, 2.0**7, 2.0**900):
        for _ in range(20):
            upper, lower = random_game(rng, 3, 4, kind)
            policy, violation = solved(upper, lower)
            scaled = solved(factor * upper, factor * lower)
            assert scaled[0].tobytes() == policy.tobytes()
            assert scaled[1] == violation
    for _ in range(20):
        upper, lower = random_game(rng, 3, 4, "unrelated")
        assert solved(3e-7 * upper, 3e-7 * lower)[0] == pytest.approx(solved(upper, lower)[0], abs=1e-9)


def test_answers_do_not_depend_on_what_was_solved_before() -> None:
    rng = np.random.default_rng(8)
    games = [random_game(rng, 4, 3, kind) for kind in KINDS for _ in range(10)]
    games += [nearly_tied_game(rng, 4, 3) for _ in range(60)]
    fresh = [solved(*game)[0].tobytes() for game in games]
    scratch, policy = equilibrium_scratch(4, 3), np.zeros((4, 3))
    for i in rng.permutation(np.repeat(np.arange(len(games)), 3)):
        upper, lower = games[i]
        coarse_correlated_equilibrium(upper, lower, scratch, policy)
        assert policy.tobytes() == fresh[i]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e301])
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_not_a_number_gives_an_infinite_violation(bad: float, which: int) -> None:
    for place in itertools.product(range(3), range(3)):
        game = random_game(np.random.default_rng(9), 3, 3, "unrelated")
        game[which][place] = bad
        policy, violation = solved(*game)
        assert violation == np.inf
        assert np.all(policy == 1 / 9)


@pytest.mark.parametrize(
    ("payoff", "value", "row", "column"),
    [
        ([[1, -1], [-1, 1]], 0.0, [1 / 2, 1 / 2], [1 / 2, 1 / 2]),
        ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], 0.0, [1 / 3] * 3, [1 / 3] * 3),
        ([[0, -0.25, 0.5], [0.25, 0, -0.05], [-0.5, 0.05, 0]], 0.0, [1 / 16, 5 / 8, 5 / 16], [1 / 16, 5 / 8, 5 / 16]),
        ([[3, 0], [1, 2]], 1.5, [1 / 4, 3 / 4], [1 / 2, 1 / 2]),
        ([[4, 2, 5], [3, 1, 9]], 2.0, [1, 0], [0, 1, 0]),
        ([[7]], 7.0, [1], [1]),
        ([[2, -3, 4]], -3.0, [1], [0, 1, 0]),
    ],
)
def test_matrix_games_solved_by_hand(payoff: object, value: float, row: list[float], column: list[float]) -> None:
    found = matrix_game(np.array(payoff))
    assert found[0] == pytest.approx(value, abs=1e-12)
    assert found[1] == pytest.approx(row, abs=1e-12)
    assert found[2] == pytest.approx(column, abs=1e-12)


@pytest.mark.parametrize(
    "payoff", [[], [1.0, 2.0], [[[1.0]]], [[1.0], [1.0, 2.0]], [["a"]], [[np.nan]], [[1e301]], [[1j]]]
)
def test_matrix_game_refuses_what_is_no_matrix(payoff: object) -> None:
    with pytest.raises(ValueError, match=r"^payoff must") as caught:
        matrix_game(payoff)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# Double-double sums against fractions, solved programs against linprog.


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
