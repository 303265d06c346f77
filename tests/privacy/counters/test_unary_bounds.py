"""Bounds on sums of unary reports: they hold for all true values and are tight for hot cells; their parts are exact.

How simulated cells decide: see test_error_bounds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.error import UnaryCell, _FiniteLaw, maximum_tail, report_error, unary_cell_bound, worst_block

N_CELLS, BETA = 100, 0.05
FAILURE = BETA / N_CELLS
REFUTED, SHOWN = 1e-6, 1e-4

rng_of = np.random.default_rng


def unary_errors(rng: np.random.Generator, cell: UnaryCell, hot: npt.NDArray[np.bool_]) -> Float64Array:
    """Errors of reports of cells that are hot or not."""
    if cell.exclusive:
        one = np.where(hot, cell.p + (cell.cells - 1) * cell.q, cell.cells * cell.q)
        ones = (rng.random(hot.shape) < one).astype(np.float64)
    else:
        ones = (rng.random(hot.shape) < np.where(hot, cell.p, cell.q)).astype(np.float64)
        for _ in range(cell.cells - 1):
            ones += rng.random(hot.shape) < cell.q
    reported = rng.random(hot.shape) * cell.sampled_steps < 1.0
    return reported * cell.sampled_steps * (ones - cell.cells * cell.q) / (cell.p - cell.q) - hot


Q = 1.0 / (math.e + 1.0)
SYMMETRIC = 1.0 / (math.exp(0.5) + 1.0)
CELLS = [UnaryCell(0.5, Q, 1, 1), UnaryCell(0.5, Q, 5, 1), UnaryCell(1 - SYMMETRIC, SYMMETRIC, 1, 1)]
SUMS = [UnaryCell(0.5, Q, 5, 4), UnaryCell(0.3, 0.1, 1, 3, exclusive=True), UnaryCell(0.5, 0.05, 5, 4, exclusive=True)]


@pytest.mark.parametrize("cell", [*CELLS, *SUMS])
def test_unary_bounds_hold_and_are_tight_for_hot_cells(cell: UnaryCell) -> None:
    rng = rng_of(cell.sampled_steps)
    hot = np.ones(100_000, dtype=bool)
    total, worst = np.zeros(hot.shape), np.zeros(hot.shape)
    for _ in range(300):
        total += unary_errors(rng, cell, hot)
        np.maximum(worst, np.abs(total), out=worst)
    bound = unary_cell_bound(300, cell, N_CELLS, BETA)
    assert np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], FAILURE)
    assert np.sum(worst > bound / 1.1) > stats.binom.isf(SHOWN, worst.shape[0], FAILURE)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("n_items", [4, 60])
def test_unary_bounds_hold_whatever_is_hot(cell: UnaryCell, n_items: int) -> None:
    # Also if the hot cell is chosen after seeing the errors so far.
    rng = rng_of(n_items)
    bound = unary_cell_bound(n_items, cell, N_CELLS, BETA)
    for rule in (lambda s: s > 0.0, lambda s: s < 0.0, lambda s: s < 0.8 * bound, lambda s: np.zeros(s.shape, bool)):
        total, worst = np.zeros(40_000), np.zeros(40_000)
        for _ in range(n_items):
            total += unary_errors(rng, cell, rule(total))
            worst = np.maximum(worst, np.abs(total))
        assert np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], FAILURE)


def brute_force_excess(laws: tuple[_FiniteLaw, _FiniteLaw], steps: int, x: float) -> float:
    """Return the largest mean of (x + S)+ over all ways to choose laws as the sum evolves."""
    if steps == 0:
        return max(x, 0.0)
    return max(
        math.fsum(mass * brute_force_excess(laws, steps - 1, x + value) for value, mass in zip(*law, strict=True))
        for law in laws
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps", [1, 3])
def test_worst_block_is_above_every_choice_and_hardly_more(cell: UnaryCell, steps: int) -> None:
    laws = (report_error(cell, 1), report_error(cell, 0))
    block = worst_block(*laws, steps)
    assert block.values @ block.mass == pytest.approx(0.0, abs=1e-12)
    deviation = math.sqrt(laws[0].variance * steps)
    for x in np.linspace(-4.0, 4.0, 17) * deviation:
        exact = brute_force_excess(laws, steps, float(x))
        excess = np.maximum(x + block.values, 0.0) @ block.mass
        assert exact - 1e-9 <= excess <= exact + 0.03 * deviation


def test_maximum_tail_is_above_the_exact_maximum_and_within_three_times() -> None:
    # All paths of 12 fair +-1 steps.
    law = _FiniteLaw(np.array([-1.0, 1.0]), np.array([0.5, 0.5]))
    largest = np.array([max(itertools.accumulate(path)) for path in itertools.product((-1, 1), repeat=12)])
    for x in (3, 5, 8, 10):
        exact = np.mean(largest >= x)
        assert exact <= maximum_tail(law, 12, float(x)) <= 3.0 * exact


def test_tails_of_many_steps_are_the_gaussian_ones() -> None:
    # inf over a of E(Z - a)+ / (z - a) for normal Z, by search.
    law, z = _FiniteLaw(np.array([-1.0, 1.0]), np.array([0.5, 0.5])), 4.0
    a = np.linspace(2.0, 3.99, 2000)
    expected = np.min((stats.norm.pdf(a) - a * stats.norm.sf(a)) / (z - a))
    assert maximum_tail(law, 10**8, z * 1e4) == pytest.approx(expected, rel=0.02)
    assert expected < 1.5 * 2.0 * stats.norm.sf(z)


@pytest.mark.parametrize("cell", [*CELLS, *SUMS])
@pytest.mark.parametrize("truth", [0, 1])
def test_report_errors_are_unbiased_and_vary_as_reports_do(cell: UnaryCell, truth: int) -> None:
    law = report_error(cell, truth)
    assert law.mass.sum() == pytest.approx(1.0)
    assert law.values @ law.mass == pytest.approx(0.0, abs=1e-12)
    bits = (cell.cells - truth) * cell.q * (1 - cell.q) + truth * cell.p * (1 - cell.p)
    if cell.exclusive:
        one = (cell.cells - truth) * cell.q + truth * cell.p
        bits = one * (1 - one)
    expected = cell.sampled_steps * bits / (cell.p - cell.q) ** 2 + truth * (cell.sampled_steps - 1)
    assert law.variance == pytest.approx(expected)


def test_few_reports_are_never_further_off_than_they_can_be() -> None:
    cell = UnaryCell(0.5, Q, 5, 1)
    largest = np.abs(report_error(cell, 0).values).max(), np.abs(report_error(cell, 1).values).max()
    assert unary_cell_bound(2, cell, 100, 1e-20) == pytest.approx(2 * max(largest))


def test_means_that_are_0_by_rounding_give_no_warning() -> None:
    cell = UnaryCell(0.5, 1.0 / (math.exp(5.0) + 1.0), 1, 6)
    one = cell._replace(cells=1)
    assert unary_cell_bound(29_999, cell, 24, 0.03) > unary_cell_bound(29_999, one, 24, 0.03) > 0.0
