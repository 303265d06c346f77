"""Bounds on weighted sums: they hold for weights in [0, 1], and for weights of 1 they are near the simulated quantile.

M simulated sums decide: more errors above E than Binomial(M, FAILURE) allows refute the bound, at 1e-6; as
many at a share of E show that it is near, at 1e-4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprl.privacy.base import Float64Array
from dprl.privacy.counters import (
    AnyCounter,
    BinaryTree,
    BufferedToeplitz,
    KaryTree,
    release_prefix,
)
from dprl.privacy.counters.error import (
    UnaryCell,
    _log_unary_moment,
    running_sum_bound,
    weighted_sum_bound,
    weighted_tree_bound,
    weighted_unary_bound,
)
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.randomness.streams import Streams

FAILURE, REFUTED, SHOWN = 1e-3, 1e-6, 1e-4
# Bounds by moment generating functions are too large by this factor at so large a failure probability; see below.
CHERNOFF = 1.5
USERS, SUMMANDS, SUMS = 40, 4, 30_000
# Weights of 1, one cell only, a staircase, fractions: the first is the worst case, and none may be worse.
WEIGHTS = np.array([[1.0] * 4, [1.0, 0, 0, 0], [1.0, 0.7, 0.3, 0.1], [0.9, 0.2, 0.6, 0.5]])
COUNTERS: list[AnyCounter] = [
    BinaryTree(USERS, Laplace(7.0)),
    BinaryTree(USERS, Gaussian(3.0)),
    BinaryTree(USERS, DiscreteLaplace(2.0)),
    BinaryTree(USERS, DiscreteGaussian(1.5)),
    KaryTree(USERS, Laplace(7.0), 5),
    KaryTree(USERS, Gaussian(3.0), 3),
    KaryTree(USERS, DiscreteLaplace(2.0), 3),
    KaryTree(USERS, DiscreteGaussian(4.0), 5),
    BufferedToeplitz(USERS, Gaussian(3.0)),
]
LAWS: list[Mechanism] = [DiscreteLaplace(2.0), DiscreteGaussian(1.5)]
Q, SYMMETRIC = 1.0 / (math.e + 1.0), 1.0 / (math.exp(0.5) + 1.0)
ROWS = [UnaryCell(0.5, Q, 1, 4), UnaryCell(0.5, Q, 5, 4), UnaryCell(1.0 - SYMMETRIC, SYMMETRIC, 1, 4)]


def holds(worst: Float64Array, bound: float) -> bool:
    return bool(np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], FAILURE))


def near(worst: Float64Array, bound: float, share: float) -> bool:
    return bool(np.sum(worst > bound / share) > stats.binom.isf(SHOWN, worst.shape[0], FAILURE))


def bound_of(counter: AnyCounter, users: int) -> float:
    """The bound of sums of SUMMANDS cells, as `weighted_bound` chooses it."""
    node = counter.node
    if node is not None and node.arithmetic == INTEGER:
        depths = np.round(counter.profile()[:users] ** 2).astype(np.int64)
        return weighted_tree_bound(
            dict(zip(*np.unique(depths, return_counts=True), strict=True)), node, SUMMANDS, FAILURE
        )
    return counter.error_bound(1, FAILURE, SUMMANDS, users)


def worst_errors(counter: AnyCounter, users: tuple[int, ...]) -> dict[int, Float64Array]:
    """The largest weighted sums [weights, SUMS] of a counter's own noise at the first `users` prefixes."""
    n_cells = SUMS * SUMMANDS
    state = counter.open(n_cells, Streams(11, str(counter)).key("server_noise"))
    totals, released = np.zeros(n_cells), np.zeros(n_cells)
    worst, found = np.zeros((len(WEIGHTS), SUMS)), {}
    for item in range(1, max(users) + 1):
        release_prefix(released, totals, state, item)
        np.maximum(worst, np.abs(WEIGHTS @ released.reshape(SUMMANDS, SUMS)), out=worst)
        if item in users:
            found[item] = worst.copy()
    return found


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: f"{c.name}, {c.node.name}")
def test_counters_stay_within_the_bound_of_the_first_users_whatever_the_weights(counter: AnyCounter) -> None:
    users = (1, 11, USERS)
    bounds = [bound_of(counter, n) for n in users]
    worst = worst_errors(counter, users)
    integer = counter.node is not None and counter.node.arithmetic == INTEGER
    for n, bound in zip(users, bounds, strict=True):
        assert all(holds(errors, bound) for errors in worst[n])
        assert near(worst[n][0], bound, CHERNOFF if integer else 1.1)
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.9 * bounds[-1]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("n_items", [1, 100])
def test_whole_number_reports_stay_within_the_bound(law: Mechanism, n_items: int) -> None:
    rng = np.random.default_rng(n_items)
    z = np.arange(-80, 81).astype(np.float64)
    mass = np.exp(-np.abs(z) / 2.0) if law.name == "discrete_laplace" else np.exp(-0.5 * (z / 1.5) ** 2)
    below = np.cumsum(mass / mass.sum())
    total = np.zeros((SUMMANDS, SUMS))
    worst = np.zeros((len(WEIGHTS), SUMS))
    for _ in range(n_items):
        total += z[np.searchsorted(below[:-1], rng.random(total.shape))]
        np.maximum(worst, np.abs(WEIGHTS @ total), out=worst)
    bound = weighted_sum_bound(n_items, law, SUMMANDS, FAILURE)
    assert all(holds(errors, bound) for errors in worst)
    if n_items > 1:
        assert near(worst[0], bound, CHERNOFF)


def row_errors(
    rng: np.random.Generator, row: UnaryCell, hot: npt.NDArray[np.int64], weights: Float64Array
) -> Float64Array:
    """Errors of weighted rows whose hot cell is hot[i], or none if it is -1."""
    is_hot = np.arange(row.cells)[:, None] == hot
    bits = rng.random(is_hot.shape) < np.where(is_hot, row.p, row.q)
    reported = rng.random(hot.shape) * row.sampled_steps < 1.0
    estimates = row.sampled_steps * reported * (bits - row.q) / (row.p - row.q)
    errors: Float64Array = weights @ (estimates - is_hot)
    return errors


HOT: dict[str, Callable[[Float64Array], npt.NDArray[np.int64]]] = {
    "always the first": lambda s: np.zeros(s.shape, dtype=np.int64),
    "never": lambda s: np.full(s.shape, -1),
    "the first when above 0": lambda s: np.where(s > 0.0, 0, -1),
    "the first when below 0": lambda s: np.where(s < 0.0, 0, -1),
    "the last when above 0": lambda s: np.where(s > 0.0, 3, 0),
}


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("rule", HOT)
def test_unary_rows_stay_within_the_bound_whatever_is_hot(row: UnaryCell, rule: str) -> None:
    # Also when a row's hot cell is chosen knowing the sum so far.
    rng = np.random.default_rng(7)
    bound = weighted_unary_bound(60, row, FAILURE)
    for weights in WEIGHTS:
        total, worst = np.zeros(10_000), np.zeros(10_000)
        for _ in range(60):
            total += row_errors(rng, row, HOT[rule](total), weights)
            np.maximum(worst, np.abs(total), out=worst)
        assert holds(worst, bound)
        if rule == "always the first" and weights.min() == 1.0:
            assert near(worst, bound, CHERNOFF)


def exact_log_transform(row: UnaryCell, hot: int, weights: Float64Array, argument: float) -> float:
    """Log E e^(argument Y) of the error of one weighted row, by going through all its bits."""
    mean = 0.0
    truth = weights[hot] if hot >= 0 else 0.0
    p = np.where(np.arange(row.cells) == hot, row.p, row.q)
    for bits in itertools.product((0.0, 1.0), repeat=row.cells):
        b = np.array(bits)
        chance = float(np.prod(np.where(b == 1.0, p, 1.0 - p)))
        if row.exclusive:  # at most one of the sum's bits is 1
            chance = float(b @ p) if b.sum() == 1.0 else (b.sum() == 0.0) * float(1.0 - p.sum())
        estimate = row.sampled_steps * float(weights @ (b - row.q)) / (row.p - row.q)
        mean += chance * math.exp(argument * (estimate - truth)) / row.sampled_steps
    return math.log(mean + (1.0 - 1.0 / row.sampled_steps) * math.exp(-argument * truth))


EXCLUSIVE = [
    UnaryCell(p, q, steps, 4, exclusive=True) for p, q, steps in ((0.9, 0.02, 3), (0.3, 0.2, 1), (0.5, 0.1, 5))
]


@pytest.mark.parametrize("row", [*ROWS, UnaryCell(0.9, 0.05, 3, 4), *EXCLUSIVE], ids=str)
@pytest.mark.parametrize("argument", [-0.5, -0.1, -1e-3, 1e-3, 0.1, 0.5])
def test_no_weights_have_a_larger_transform_than_the_worst_row(row: UnaryCell, argument: float) -> None:
    worst = _log_unary_moment(row, argument)
    rng = np.random.default_rng(0)
    tried = [*rng.random((40, 4)), *(np.array(corner) for corner in itertools.product((0.0, 1.0), repeat=4))]
    found = max(exact_log_transform(row, hot, weights, argument) for weights in tried for hot in (-1, 0))
    # Exact for independent bits; where one bit is 1, sums of a fraction of a cell are counted, too.
    assert found <= worst * (1 + 1e-8)
    assert found >= worst * (1 - (0.2 if row.exclusive else 1e-8))


def test_rows_and_draws_without_end_are_no_overflow() -> None:
    # One user, and encodings with almost no randomness: the largest error of one row is known.
    for row in (
        UnaryCell(0.5, Q, 5, 4),
        UnaryCell(1.0, math.exp(-50.0), 1, 4),
        UnaryCell(0.5, math.exp(-100.0), 20, 40),
    ):
        largest = row.sampled_steps * (row.cells * (1.0 - row.q)) / (row.p - row.q)
        assert 0.0 < weighted_unary_bound(1, row, 1e-9) <= 1.01 * largest + 3.0
    assert weighted_sum_bound(100, DiscreteLaplace(1e-3), 4, 1e-9) < 1.0
    assert weighted_tree_bound(BinaryTree(100).depths(100), DiscreteLaplace(1e-3), 4, 1e-9) < 1.0


def test_the_transform_of_discrete_laplace_noise_is_its_own() -> None:
    z = np.arange(-10_000, 10_001).astype(np.float64)
    for scale, argument in itertools.product((0.3, 2.0, 30.0), (1e-9, 0.2, 0.9)):
        mass = np.exp(-np.abs(z) / scale)
        expected = math.log(float(np.sum(np.exp(argument / scale * z - np.abs(z) / scale)) / mass.sum()))
        assert DiscreteLaplace(scale).log_moment(argument / scale) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_long_sums_cost_a_few_per_cent(law: Mechanism) -> None:
    exact = running_sum_bound(50_000 * 6, law, 1, 1e-6)
    assert exact <= weighted_sum_bound(50_000, law, 6, 1e-6) <= 1.08 * exact
    tree = BinaryTree(50_000, law)
    assert weighted_tree_bound(tree.depths(50_000), law, 6, 1e-6) <= 1.1 * tree.error_bound(1, 1e-6, 6)
