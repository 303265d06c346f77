"""Buffered Toeplitz counters, on real numbers and on a grid: recursion, fit, errors and exact releases."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.counters import BufferedToeplitz, GridToeplitz, release_prefix
from dprl.privacy.counters.buffered_toeplitz import _charged, exponential_sums, fitted
from dprl.privacy.counters.selection import calibrate
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

# The buffered Toeplitz factorisation: the recursion, its fit, and its errors compared with the square root.

KEY = Streams(8, "buffered").key("server_noise")
ONE = Sensitivity.of_cells(1)


def normalised_square_root(n_items: int) -> Float64Array:
    """Row t: the weights of w_1..w_T in the noise of prefix t, in the normalised square-root factorisation."""
    j = np.arange(1, n_items)
    c, e = np.cumprod(np.append(1.0, 1 - 1 / (2 * j))), np.cumprod(np.append(1.0, 1 - 3 / (2 * j)))
    norms = np.sqrt(np.cumsum(c * c))[::-1]
    inverse_root = np.array([np.append(e[: t + 1][::-1], np.zeros(n_items - 1 - t)) for t in range(n_items)])
    return np.cumsum(norms[:, None] * inverse_root, axis=0)


@pytest.mark.parametrize("n_items", [1, 2, 37])
def test_noise_is_the_sum_of_g_times_the_solution_of_the_triangular_system(n_items: int) -> None:
    n_cells, node = 5, Gaussian(1.5)
    counter = BufferedToeplitz(n_items, node)
    coefficients, norms = counter.columns()
    matrix = np.array([[coefficients[i - j] if i >= j else 0.0 for j in range(n_items)] for i in range(n_items)])
    assert norms == pytest.approx(np.linalg.norm(matrix, axis=0), rel=1e-12)
    w = np.empty((n_items, n_cells))
    for j in range(n_items):
        fill_noise(w[j], node.noise(KEY), np.uint64((j + 1) * n_cells))
    expected = np.cumsum(norms[:, None] * np.linalg.solve(matrix, w), axis=0)
    state, released = counter.open(n_cells, KEY), np.empty(n_cells)
    for item in range(1, n_items + 1):
        release_prefix(released, np.zeros(n_cells), state, item)
        assert released == pytest.approx(expected[item - 1], abs=1e-11)


@pytest.mark.parametrize("n_items", [1, 2, 3, 17, 100, 513, 999])
def test_error_is_nearly_that_of_the_normalised_square_root(n_items: int) -> None:
    root = np.linalg.norm(normalised_square_root(n_items), axis=1)
    errors = np.array(BufferedToeplitz(n_items).errors()) * BufferedToeplitz(n_items).sensitivity(ONE).l2
    assert errors == pytest.approx((np.sqrt(np.mean(root**2)), root.max()), rel=0.002)


def test_coefficients_are_sums_of_exponentials_near_the_square_roots() -> None:
    omega, theta = fitted(5000)
    c = exponential_sums(omega, theta, 5000)
    j = np.arange(4999)
    assert c[0] == 1.0
    assert c[1:] == pytest.approx((omega[:, None] * theta[:, None] ** j).sum(axis=0), rel=1e-12)
    root = np.cumprod(np.append(1.0, 1.0 - 0.5 / np.arange(1, 5000)))  # (1-x)^(-1/2)
    assert c == pytest.approx(root, rel=0.1)
    assert np.all((theta > 0) & (theta < 1) & (omega > 0))


def test_what_is_charged_follows_the_coefficients_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients, norms = BufferedToeplitz(50).columns()
    # The last ones are larger than in the norms, so the longest column is the worst.
    running = coefficients * np.repeat([1.0, 1.1], [20, 30])
    monkeypatch.setattr(BufferedToeplitz, "columns", lambda _: (running, norms))
    _charged.cache_clear()
    assert BufferedToeplitz(50).sensitivity(ONE).l2 == pytest.approx(np.linalg.norm(running) / norms[0], rel=1e-9)
    _charged.cache_clear()


# Exact releases of buffered Toeplitz: a function of noisy integers only, its charge, its map, its noise, refusals.

Integers = npt.NDArray[np.int64]
ROW = Sensitivity(6.0, 3.0, 2.0, 4)
GRIDS = st.sampled_from([2.0**-1, 2.0**-3, 2.0**-8, 2.0**-10, 2.0**-16])


def whole_matrix(counter: GridToeplitz) -> list[list[int]]:
    """C in units of the grid by its definition: c_{t-i} / (g_i grid), rounded, g_i the norm of (c_0 ... c_{T-i})."""
    n, c = counter.n_items, BufferedToeplitz(counter.n_items).columns()[0]
    norms = [math.sqrt(math.fsum(c[: n - i] ** 2)) for i in range(n)]
    return [[round(c[t - i] / norms[i] / counter.grid) if t >= i else 0 for i in range(n)] for t in range(n)]


def noised(counter: GridToeplitz, x: Integers, w: Integers) -> list[int]:
    """z = C x + w of one cell, in Python's integers."""
    return [
        sum(c * int(v) for c, v in zip(row, x, strict=True)) + int(noise)
        for row, noise in zip(whole_matrix(counter), w, strict=True)
    ]


def literal_release(counter: GridToeplitz, z: list[int]) -> list[Fraction]:
    """All prefixes of one cell from z alone, in exact arithmetic."""
    grid, matrix, found = Fraction(counter.grid), whole_matrix(counter), list[int]()
    for t, row in enumerate(matrix):
        rest = z[t] / grid - sum(c * v for c, v in zip(row, found, strict=False))
        found.append(math.floor(rest / row[t] + Fraction(1, 2)))
    return [grid * int(total) for total in np.cumsum(np.array(found, dtype=object))]


def released(counter: GridToeplitz, x: npt.NDArray[np.float64], key: np.ndarray) -> npt.NDArray[np.float64]:
    """All releases of rows x float64[T, cells]."""
    state, totals, out = counter.open(x.shape[1], key), np.cumsum(x, axis=0), np.empty(x.shape)
    for item in range(1, counter.n_items + 1):
        release_prefix(out[item - 1], totals[item - 1], state, item)
    return out


def drawn(counter: GridToeplitz, n_cells: int, key: np.ndarray) -> npt.NDArray[np.float64]:
    assert counter.node is not None
    rows, node = np.empty((counter.n_items, n_cells)), counter.node.noise(key)
    for j in range(counter.n_items):
        fill_noise(rows[j], node, np.uint64((j + 1) * n_cells))
    return rows


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), GRIDS, st.sampled_from([1.0, 20.0, 700.0]), st.integers(0, 2**32))
def test_releases_are_a_function_of_the_noised_whole_numbers_bit_for_bit(
    n_items: int, grid: float, scale: float, seed: int
) -> None:
    counter, key = GridToeplitz(n_items, DiscreteGaussian(scale), grid), Streams(seed, "grid").key("server_noise")
    x = np.random.default_rng(seed).integers(-50, 1000, (n_items, 3))
    out, w = released(counter, x.astype(np.float64), key), drawn(counter, 3, key).astype(np.int64)
    for cell in range(3):
        assert [Fraction(y) for y in out[:, cell]] == literal_release(counter, noised(counter, x[:, cell], w[:, cell]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), GRIDS, st.integers(0, 2**32))
def test_two_streams_with_equal_noised_numbers_give_equal_bits(n_items: int, grid: float, seed: int) -> None:
    # More rows than are solved at a time; x with noise w releases the same as x' with noise w + C (x - x').
    counter, rng = GridToeplitz(n_items, grid=grid), np.random.default_rng(seed)
    x, other = rng.integers(0, 4, (2, n_items, 2))
    w = np.rint(rng.normal(0.0, 3000.0, (n_items, 2)))
    moved = w + np.array(whole_matrix(counter), dtype=np.float64) @ (x - other)
    counter.prefix_noise(w)
    counter.prefix_noise(moved)
    assert_array_equal(np.cumsum(x, axis=0) + w, np.cumsum(other, axis=0) + moved)
    # B C = A, without an error: noise that is C x gives the prefix sums of x.
    shift = np.array(whole_matrix(counter), dtype=np.float64) @ x
    counter.prefix_noise(shift)
    assert_array_equal(shift, np.cumsum(x, axis=0))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), GRIDS)
def test_the_charge_is_at_least_the_exact_column_norms(n_items: int, grid: float) -> None:
    counter = GridToeplitz(n_items, DiscreteGaussian(100.0), grid)
    columns = list(zip(*whole_matrix(counter), strict=True))
    worst, one = counter.sensitivity(ROW), counter.sensitivity(Sensitivity.of_cells(1))
    square = max(sum(c * c for c in column) for column in columns)
    assert 9 * square <= Fraction(worst.l2) ** 2 <= Fraction(1 + 1e-12) * 9 * square
    assert Fraction(one.l2) ** 2 >= square
    assert (worst.l1, worst.linf) == pytest.approx((6 * max(map(sum, columns)), 2 * max(map(max, columns))), rel=1e-12)


@pytest.mark.parametrize(("n_items", "bits", "loss"), [(1, 8, 0.0), (50, 10, 2e-3), (999, 10, 2e-3), (999, 6, 0.05)])
def test_error_is_nearly_that_of_real_numbers_and_of_the_square_root(n_items: int, bits: int, loss: float) -> None:
    counter, real = GridToeplitz(n_items, grid=2.0**-bits), BufferedToeplitz(n_items)
    unit = Sensitivity.of_cells(1)
    ratios = np.array(counter.errors()) * counter.sensitivity(unit).l2 / np.array(real.errors())
    root = np.linalg.norm(normalised_square_root(n_items), axis=1)
    assert np.array(real.errors()) == pytest.approx((np.sqrt(np.mean(root**2)), root.max()), rel=2e-3)
    assert ratios == pytest.approx(1.0, abs=loss + 1e-12)
    matrix = np.array(whole_matrix(GridToeplitz(min(n_items, 50), grid=2.0**-bits)), dtype=np.float64)
    rows = np.linalg.norm(np.tril(np.ones(matrix.shape)) @ np.linalg.inv(matrix), axis=1)
    assert GridToeplitz(len(matrix), grid=2.0**-bits).profile() == pytest.approx(rows, rel=1e-9)


def test_released_noise_has_the_profiles_variance_and_stays_below_the_bound() -> None:
    # 8000 cells: the relative standard deviation of a sample variance is 1.6 %; 6 of them, 5 prefixes. Rows of 400 runs
    # of 20 cells at beta = 0.1: at most 0.1 + 5 standard deviations = 0.175 fail; one-sided rate 3e-7.
    counter = calibrate(GridToeplitz(45), DiscreteGaussian, 1.0, 1e-6, Sensitivity.of_cells(10))
    assert isinstance(counter, GridToeplitz)
    assert counter.node is not None
    noise = released(counter, np.zeros((45, 8000)), Streams(3, "grid").key("server_noise"))
    for prefix in (1, 7, 22, 40, 45):
        ratio = np.var(noise[prefix - 1]) / (counter.node.scale * counter.profile()[prefix - 1]) ** 2
        assert ratio == pytest.approx(1.0, abs=0.1)
        assert not any(abs(ratio * wrong**2 - 1.0) < 0.1 for wrong in (2 / 3, 3 / 2))
    worst = np.abs(noise).reshape(45, 400, 20).max(axis=(0, 2))
    bound = counter.error_bound(20, 0.1)
    assert np.mean(worst > bound) <= 0.175
    assert bound <= 1.25 * np.quantile(worst, 0.9)
    assert counter.error_bound(20, 0.1, summands=4) == pytest.approx(2 * bound, rel=0.01)
    assert bound > counter.error_bound(20, 0.1, users=10)


@pytest.mark.parametrize(("epsilon", "scale", "bits"), [(0.1, 117.0, 7), (1.0, 13.37, 10), (10.0, 1.72, 13)])
def test_calibration_takes_the_finest_grid_of_the_sampler(epsilon: float, scale: float, bits: int) -> None:
    row = Sensitivity.of_cells(10)
    counter = calibrate(GridToeplitz(999), DiscreteGaussian, epsilon, 1e-6, row)
    assert isinstance(counter, GridToeplitz)
    assert counter.node is not None
    assert counter.grid == 2.0**-bits
    assert counter.node.scale * counter.grid == pytest.approx(scale, rel=0.02)
    curve = counter.node.curve(counter.sensitivity(row))
    assert epsilon * (1 - 1e-4) <= curve.epsilon(1e-6) <= epsilon * (1 + 1e-9)


def test_what_has_no_exact_release_is_refused_in_one_line() -> None:
    row = Sensitivity.of_cells(10)
    for call, start in (
        (lambda: GridToeplitz(4097), "counter: buffered_toeplitz .* up to 4096 releases, got 4097; write"),
        (lambda: GridToeplitz(9, grid=0.3), "grid must be a power of two in"),
        (lambda: GridToeplitz(9, grid=1.0), "grid must be a power of two in"),
        (lambda: GridToeplitz(9, DiscreteGaussian(0.9)), "scale must be at least 1"),
        (lambda: GridToeplitz(9, Gaussian(2.0)), "counter: buffered_toeplitz takes discrete_gaussian noise"),
        (lambda: GridToeplitz(9, DiscreteLaplace(2.0)), "counter: buffered_toeplitz takes discrete_gaussian"),
        (lambda: BufferedToeplitz(9, DiscreteGaussian(2.0)), "counter: buffered_toeplitz takes gaussian noise only"),
        (lambda: GridToeplitz(9).calibrated(DiscreteGaussian, 1.0, 0.0, row), "delta must be above 0"),
        (lambda: GridToeplitz(9).calibrated(DiscreteGaussian, 1e-4, 1e-6, row), r"scale must lie in \[1/16, 2\^15\]"),
    ):
        with pytest.raises(ValueError, match=f"^{start}") as error:
            call()
        assert "\n" not in str(error.value)


def test_sums_that_float64_cannot_hold_are_refused() -> None:
    rows = np.full((3, 2), 2.0**40)
    with pytest.raises(ArithmeticError, match="must be below 2\\^51 units"):
        GridToeplitz(3, grid=2.0**-16).prefix_noise(rows)
