"""Normalised square-root factorisation: coefficients, noise by its definition, unequal columns, errors, memory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprl.privacy.counters import NormalizedSquareRoot, release_prefix
from dprl.privacy.counters.normalized_square_root import (
    _normalized_profile,
    convolve_columns,
    inverse_root_coefficients,
    root_coefficients,
    root_slack,
    row_norms,
    summing_slack,
)
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

KEY = Streams(6, "square root").key("server_noise")


def lower_toeplitz(first_column: np.ndarray) -> np.ndarray:
    n = len(first_column)
    return np.array([[first_column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def test_coefficients_are_those_of_the_two_series() -> None:
    c, e = [Fraction(1)], [Fraction(1)]
    for j in range(1, 60):
        c.append(c[-1] * Fraction(2 * j - 1, 2 * j))
        e.append(e[-1] * Fraction(2 * j - 3, 2 * j))
    assert root_coefficients(60) == pytest.approx([float(x) for x in c], rel=3e-16)
    assert inverse_root_coefficients(60) == pytest.approx([float(x) for x in e], rel=3e-16)
    assert [sum(c[i] * c[n - i] for i in range(n + 1)) for n in range(60)] == [1] * 60
    assert all(sum(c[i] * e[n - i] for i in range(n + 1)) == 0 for n in range(1, 60))


@pytest.mark.parametrize("n_items", [1, 7, 100])
def test_noise_is_the_printed_recipe(n_items: int) -> None:
    # The definition, applied to the draws of the stream.
    n_cells, node = 11, Gaussian(3.0)
    w = np.empty((n_items, n_cells))
    for j in range(n_items):
        fill_noise(w[j], node.noise(KEY), np.uint64((j + 1) * n_cells))
    c, e = root_coefficients(n_items), inverse_root_coefficients(n_items)
    g = np.sqrt(np.cumsum(c * c))[::-1]
    noise = np.cumsum(g[:, None] * (lower_toeplitz(e) @ w), axis=0)
    state, released = NormalizedSquareRoot(n_items, node).open(n_cells, KEY), np.empty(n_cells)
    for item in range(1, n_items + 1):
        release_prefix(released, np.zeros(n_cells), state, item)
        assert released == pytest.approx(noise[item - 1], abs=1e-11)


def test_the_shortcut_would_not_be_what_is_charged() -> None:
    # sum_j c_{t-j} g_j w_j implies a C with columns longer than 1; the definition does not.
    n = 60
    c, e = root_coefficients(n), inverse_root_coefficients(n)
    g, ones = np.sqrt(np.cumsum(c * c))[::-1], np.tril(np.ones((n, n)))
    shortcut = np.linalg.solve(lower_toeplitz(c) * g[None, :], ones)
    assert np.linalg.norm(shortcut, axis=0).max() > 1.02
    recipe = np.linalg.solve(ones @ np.diag(g) @ lower_toeplitz(e), ones)
    assert np.linalg.norm(recipe, axis=0) == pytest.approx(np.ones(n), abs=1e-10)


def test_what_is_charged_follows_the_coefficients_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Sensitivity.of_cells(1)
    assert NormalizedSquareRoot(50).sensitivity(row).l2 == pytest.approx(1.0, rel=1e-9)
    norms = NormalizedSquareRoot(50).column_norms()
    monkeypatch.setattr(NormalizedSquareRoot, "column_norms", lambda _: np.append(norms[:-1], norms[-1] / 1.1))
    assert NormalizedSquareRoot(50).sensitivity(row).l2 == pytest.approx(1.1, rel=1e-9)


@pytest.mark.parametrize("n_items", [3, 1000, 1_000_000])
def test_rounding_up_covers_the_rounding_of_coefficients_and_stays_small(n_items: int) -> None:
    assert 0.0 < summing_slack(n_items) < 2e-9
    assert 1.0 < root_slack(n_items) < 1.0 + 1e-8
    # If all coefficients of e have a relative error, so has the column (1/e, the first of C); the slack covers it.
    share, n = 1e-6, 400
    rng = np.random.default_rng(0)
    e = inverse_root_coefficients(n) * (1.0 + share * rng.choice([-1.0, 1.0], n))
    off = np.linalg.norm(np.linalg.solve(lower_toeplitz(e), np.eye(n)[0])) / np.linalg.norm(root_coefficients(n))
    assert abs(off - 1.0) < 2.0 * share * (2.0 * np.sqrt(n / np.pi) + 1.0)


@pytest.mark.parametrize("n_items", [5001, 12_345])
def test_interpolated_profile_agrees_with_all_rows(n_items: int) -> None:
    norms = np.ascontiguousarray(NormalizedSquareRoot(n_items).column_norms())
    exact = row_norms(inverse_root_coefficients(n_items), norms)
    assert _normalized_profile(n_items) == pytest.approx(exact, rel=1e-7)


def test_the_normalised_error_is_at_most_the_square_roots() -> None:
    for n_items in (1, 2, 3, 17, 999, 20_000):
        counter, c = NormalizedSquareRoot(n_items), root_coefficients(n_items)
        plain = np.sqrt(np.cumsum(c * c)) * np.linalg.norm(c) * (1.0 + 1e-9)
        assert np.all(counter.profile() <= plain)
        rms, largest = counter.errors_at_most()
        assert (rms, largest) == pytest.approx((np.sqrt(np.mean(plain**2)), plain[-1]), rel=1e-8)
        assert counter.errors() <= (rms, largest)


def test_convolution_of_columns_for_any_number_of_columns() -> None:
    rng = np.random.default_rng(2)
    for n_cells in (1, 8, 19):
        rows, coefficients = rng.normal(size=(30, n_cells)), rng.normal(size=30)
        expected = lower_toeplitz(coefficients) @ rows
        convolve_columns(rows, coefficients)
        assert rows == pytest.approx(expected, abs=1e-12)


def test_too_much_memory_is_refused_with_the_remedy() -> None:
    message = "n_items = 1000000 with 10000 cells needs 80000000000 bytes .* choose counter: buffered_toeplitz"
    with pytest.raises(ValueError, match=message):
        NormalizedSquareRoot(1_000_000, Gaussian(1.0)).open(10_000, KEY)
