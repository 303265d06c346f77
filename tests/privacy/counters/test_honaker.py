"""Honaker's estimates against least squares on the explicit tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from numpy.testing import assert_array_equal

from dprl.privacy.counters import Honaker, release_prefix
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

KEY = Streams(5, "honaker").key("server_noise")


def block_estimate(node_noise: dict[tuple[int, int], np.ndarray], level: int, start: int) -> npt.NDArray[np.float64]:
    """The best linear unbiased estimate of a block's error from all noisy nodes in it, by least squares."""
    leaves = 2**level
    rows, seen = [], []
    for i in range(level + 1):
        for s in range(start, start + leaves, 2**i):
            row = np.zeros(leaves)
            row[s - start : s - start + 2**i] = 1.0
            rows.append(row)
            seen.append(node_noise[i, s])
    estimates: npt.NDArray[np.float64] = np.linalg.lstsq(np.array(rows), np.array(seen), rcond=None)[0]
    total: npt.NDArray[np.float64] = estimates.sum(axis=0)
    return total


def test_a_prefix_is_the_sum_of_least_squares_estimates_of_its_left_blocks() -> None:
    n_items, n_cells, node = 21, 3, Gaussian(2.0)
    noise: dict[tuple[int, int], np.ndarray] = {}
    for level in range(5):
        for start in range(0, n_items - 2**level + 1, 2**level):
            drawn = np.empty(n_cells)
            number = 2 * (start + 2**level) - 2**level
            fill_noise(drawn, node.noise(KEY), np.uint64(number * n_cells))
            noise[level, start] = drawn
    state, released, totals = Honaker(n_items, node).open(n_cells, KEY), np.empty(n_cells), np.zeros(n_cells)
    for t in range(1, n_items + 1):
        expected, start = np.zeros(n_cells), 0
        for level in range(4, -1, -1):
            if t >> level & 1:
                expected += block_estimate(noise, level, start)
                start += 2**level
        release_prefix(released, totals, state, t)
        assert released == pytest.approx(expected, abs=1e-10)


def test_variances_of_left_blocks_are_the_papers() -> None:
    profile = Honaker(2**12).profile()
    for i in range(13):
        assert profile[2**i - 1] ** 2 == pytest.approx(1 / (2 * (1 - 2.0 ** -(i + 1))))


@pytest.mark.parametrize("n_items", [1, 2, 3, 6, 8, 33, 100])
def test_losses_count_complete_blocks(n_items: int) -> None:
    entered = np.zeros(n_items, dtype=int)
    for level in range(10):
        for start in range(0, n_items - 2**level + 1, 2**level):
            entered[start : start + 2**level] += 1
    assert_array_equal(Honaker(n_items).losses(), np.unique(entered, return_counts=True))
    assert entered.max() == entered[0] == Honaker(n_items).levels
