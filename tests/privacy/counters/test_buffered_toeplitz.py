"""The buffered Toeplitz factorisation: the recursion, its fit, and its errors compared with the square root."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.base import Float64Array
from dprl.privacy.counters import RETIRED, BufferedToeplitz, NormalizedSquareRoot, release_prefix
from dprl.privacy.counters.buffered_toeplitz import (
    N_BUFFERS,
    _charged,
    _starts,
    exponential_sums,
    fitted,
    prefix_variances,
)
from dprl.privacy.counters.normalized_square_root import root_coefficients
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

KEY = Streams(8, "buffered").key("server_noise")
ONE = Sensitivity.of_cells(1)


def rms(counter: BufferedToeplitz | NormalizedSquareRoot) -> float:
    return float(np.sqrt(np.mean(counter.profile() ** 2))) * counter.sensitivity(ONE).l2


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


def retired_errors(n_items: int) -> dict[str, Float64Array]:
    """Standard deviations of the prefixes of retired counters at sensitivity / mu = 1, by their published formulas."""
    c, prefix = root_coefficients(n_items), np.arange(1, n_items + 1)
    levels, honaker = n_items.bit_length(), np.zeros(n_items)
    for level in range(levels):
        honaker += (prefix >> level & 1) / (2.0 - 2.0**-level)
    return {
        # Honaker 2015: the estimate of a complete block of 2^i items has variance 1 / (2 - 2^-i); users enter L blocks.
        "honaker": np.sqrt(levels * honaker),
        # Fichtenberger, Henzinger, Upadhyay 2023: rows and columns of the square root.
        "square_root": np.sqrt(np.cumsum(c * c)) * np.linalg.norm(c),
    }


@pytest.mark.parametrize("n_items", [*range(1, 34), 63, 64, 100, 513, 999, 20_000, 99_999, 1_000_000])
def test_error_is_at_most_that_of_every_retired_counter_and_nearly_the_normalised_square_roots(n_items: int) -> None:
    counter = BufferedToeplitz(n_items)
    cost = counter.sensitivity(ONE).l2 * (1.0 - 1e-9)
    retired = retired_errors(n_items)
    assert retired.keys() == RETIRED.keys()
    assert set(RETIRED.values()) == {counter.name}
    for deviations in retired.values():
        assert cost * counter.errors()[0] <= np.sqrt(np.mean(deviations**2))
        assert cost * counter.errors()[1] <= deviations.max()
    if n_items <= 20_000:
        assert rms(counter) == pytest.approx(rms(NormalizedSquareRoot(n_items)), rel=0.005)


def test_profile_follows_from_the_recursions_impulses() -> None:
    n_items = 30
    omega, theta = fitted(n_items)
    _, norms = BufferedToeplitz(n_items).columns()
    prefixes, steps = prefix_variances(omega, theta, norms, np.zeros((N_BUFFERS + 1, N_BUFFERS + 1)))
    b, v = np.zeros((n_items, n_items)), np.zeros((n_items, n_items))
    for j in range(n_items):
        s, total = np.zeros(N_BUFFERS), 0.0
        for t in range(n_items):
            v[t, j] = float(t == j) - omega @ s
            s = theta * s + v[t, j]
            total += norms[t] * v[t, j]
            b[t, j] = total
    assert prefixes == pytest.approx(np.sum(b * b, axis=1), rel=1e-12)
    assert steps == pytest.approx(np.sum(v * v, axis=1), rel=1e-12)


def test_coefficients_are_sums_of_exponentials_near_the_square_roots() -> None:
    omega, theta = fitted(5000)
    c = exponential_sums(omega.copy(), theta, 5000, 1.0)
    j = np.arange(4999)
    assert c[0] == 1.0
    assert c[1:] == pytest.approx((omega[:, None] * theta[:, None] ** j).sum(axis=0), rel=1e-12)
    assert c == pytest.approx(root_coefficients(5000), rel=0.1)
    assert np.all((theta > 0) & (theta < 1) & (omega > 0))


def test_a_fit_is_the_same_again() -> None:
    first = fitted(4321)
    fitted.cache_clear()
    assert all(np.array_equal(a, b) for a, b in zip(first, fitted(4321), strict=True))


def test_what_is_charged_follows_the_coefficients_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients, norms = BufferedToeplitz(50).columns()
    # The last ones are larger than in the norms, so the longest column is the worst.
    running = coefficients * np.repeat([1.0, 1.1], [20, 30])
    pieces = [(running[:20], norms[::-1][:20]), (running[20:], norms[::-1][20:])]
    monkeypatch.setattr(BufferedToeplitz, "pieces", lambda _: iter(pieces))
    _charged.cache_clear()
    assert BufferedToeplitz(50).sensitivity(ONE).l2 == pytest.approx(np.linalg.norm(running) / norms[0], rel=1e-9)
    _charged.cache_clear()


def test_piece_by_piece_every_number_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> list[object]:
        counter = BufferedToeplitz(1000, Gaussian(2.0))
        _charged.cache_clear()
        _starts.cache_clear()
        found = [counter.sensitivity(ONE), counter.error_bound(5, 0.1), counter.error_bound(5, 0.1, users=437)]
        return [*found, counter.open(3, KEY).coefficients.tolist(), counter.profile().tolist(), counter.errors()[1]]

    at_once = numbers()
    monkeypatch.setattr("dprl.privacy.counters.buffered_toeplitz._PIECE", 64)
    assert numbers() == at_once
    _starts.cache_clear()
