"""The buffered Toeplitz factorisation: the recursion, its fit, and its errors compared with the square root."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.base import Sensitivity
from dprl.privacy.counters import BufferedToeplitz, release_prefix
from dprl.privacy.counters.buffered_toeplitz import (
    _charged,
    exponential_sums,
    fitted,
)
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams
from tests.privacy.counters.test_gaussian_bounds import normalised_square_root

KEY = Streams(8, "buffered").key("server_noise")
ONE = Sensitivity.of_cells(1)


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
