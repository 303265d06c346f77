"""The binary tree: algebra of the Fenwick recursion against the explicit dyadic sum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import COUNTERS, BinaryTree, Laplace, Streams
from dprl.privacy.counters.binary_tree import release_prefix
from dprl.privacy.mechanisms.laplace import fill_laplace

KEY = Streams(3, "tree").key("server_noise")


def prefix_noise(n_items: int, n_cells: int, scale: float, key: np.uint64 = KEY) -> np.ndarray:
    """Noise of prefixes 1..n_items, float64[n_items, n_cells]."""
    tree = BinaryTree(n_items, Laplace(scale))
    noise, totals = np.zeros((tree.noise_rows(), n_cells)), np.zeros(n_cells)
    out = np.empty((n_items, n_cells))
    for item in range(1, n_items + 1):
        release_prefix(out[item - 1], totals, noise, item, scale, key)
    return out


@pytest.mark.parametrize("n_items", [1, 2, 3, 7, 8, 100, 300])
def test_noise_of_a_prefix_is_the_sum_over_its_dyadic_blocks(n_items: int) -> None:
    n_cells, scale = 3, 2.0
    noise = prefix_noise(n_items, n_cells, scale)
    draws = np.empty((n_items + 1) * n_cells)
    fill_laplace(draws, KEY, np.uint64(0), scale)
    for prefix in range(1, n_items + 1):
        blocks, end = [], prefix
        while end:
            blocks.append(end)
            end &= end - 1
        for cell in range(n_cells):
            explicit = sum(draws[block * n_cells + cell] for block in blocks)
            assert noise[prefix - 1, cell] == pytest.approx(explicit, abs=1e-9)
        assert len(blocks) == prefix.bit_count()


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 7, 8, 9, 999, 1000])
def test_an_item_enters_at_most_the_stated_number_of_nodes_and_item_one_attains_it(n_items: int) -> None:
    nodes = dict.fromkeys(range(1, n_items + 1), 0)
    for end in range(1, n_items + 1):
        for item in range(end - (end & -end) + 1, end + 1):
            nodes[item] += 1
    assert max(nodes.values()) == nodes[1] == BinaryTree.nodes(n_items)


def test_levels_equal_the_ceiling_of_log2_of_the_episodes() -> None:
    assert [BinaryTree.nodes(k - 1) for k in (2, 3, 4, 5, 33, 100, 1000, 100_000)] == [1, 2, 2, 3, 6, 7, 10, 17]


def test_variance_is_popcount_times_the_nodes_variance() -> None:
    # Sample variance of 4000 sums of Laplace draws: relative standard deviation below sqrt(5/4000) = 3.6 %; 5 of them.
    noise = prefix_noise(23, 4000, 1.5)
    for prefix in (1, 2, 3, 7, 16, 22, 23):
        expected = prefix.bit_count() * 2 * 1.5**2
        assert np.var(noise[prefix - 1]) == pytest.approx(expected, rel=0.18)


def test_nodes_are_fresh_laplace_draws() -> None:
    # Prefix 2^i is one node. Kolmogorov-Smirnov over all powers; false-alarm rate 1e-3.
    noise = prefix_noise(64, 2000, 1.5)
    nodes = np.concatenate([noise[2**i - 1] for i in range(7)])
    assert stats.kstest(nodes, stats.laplace(scale=1.5).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(nodes, stats.laplace(scale=1.5 * factor).cdf).pvalue < 1e-30


def test_counts_are_added_exactly() -> None:
    tree = BinaryTree(5, Laplace(1.0))
    totals, released = np.arange(4.0), np.empty(4)
    noise, again = np.zeros((tree.noise_rows(), 4)), np.zeros((tree.noise_rows(), 4))
    shifted = np.empty(4)
    for item in range(1, 6):
        release_prefix(released, totals, noise, item, 1.0, KEY)
        release_prefix(shifted, totals + 100.0, again, item, 1.0, KEY)
        assert shifted - released == pytest.approx(np.full(4, 100.0), abs=1e-9)


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_registry_names_are_the_classes_names_and_have_a_description(name: str) -> None:
    assert COUNTERS[name].name == name
    assert COUNTERS[name].__doc__
