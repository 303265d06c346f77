"""The binary tree: the Fenwick recursion against the explicit dyadic sum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.counters import BinaryTree, release_prefix
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

KEY = Streams(3, "tree").key("server_noise")


def prefix_noise(n_items: int, n_cells: int, node: Mechanism) -> np.ndarray:
    """Noise of prefixes 1..n_items, float64[n_items, n_cells]."""
    state, totals = BinaryTree(n_items, node).open(n_cells, KEY), np.zeros(n_cells)
    out = np.empty((n_items, n_cells))
    for item in range(1, n_items + 1):
        release_prefix(out[item - 1], totals, state, item)
    return out


@pytest.mark.parametrize("node", [Laplace(2.0), DiscreteGaussian(3.0)])
@pytest.mark.parametrize("n_items", [1, 2, 3, 7, 8, 100, 300])
def test_noise_of_a_prefix_is_the_sum_over_its_dyadic_blocks(n_items: int, node: Mechanism) -> None:
    n_cells = 3
    noise = prefix_noise(n_items, n_cells, node)
    draws = np.empty((n_items + 1) * n_cells)
    fill_noise(draws, node.noise(KEY), np.uint64(0))
    for prefix in range(1, n_items + 1):
        blocks, end = [], prefix
        while end:
            blocks.append(end)
            end &= end - 1
        explicit = draws.reshape(-1, n_cells)[blocks].sum(axis=0)
        assert noise[prefix - 1] == pytest.approx(explicit, abs=1e-9)
        assert len(blocks) == prefix.bit_count()


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 7, 8, 9, 999, 1000])
def test_an_item_enters_at_most_the_stated_number_of_nodes_and_item_one_attains_it(n_items: int) -> None:
    entered = np.zeros(n_items, dtype=int)
    for end in range(1, n_items + 1):
        entered[end - (end & -end) : end] += 1
    tree = BinaryTree(n_items)
    assert entered.max() == entered[0] == tree.levels


def test_levels_equal_the_ceiling_of_log2_of_the_episodes() -> None:
    episodes = (2, 3, 4, 5, 33, 100, 1000, 100_000)
    assert [BinaryTree(k - 1).levels for k in episodes] == [1, 2, 2, 3, 6, 7, 10, 17]


def test_nodes_are_fresh_laplace_draws() -> None:
    # Prefix 2^i is one node. Kolmogorov-Smirnov over all powers; false-alarm rate 1e-3.
    noise = prefix_noise(64, 2000, Laplace(1.5))
    nodes = np.concatenate([noise[2**i - 1] for i in range(7)])
    assert stats.kstest(nodes, stats.laplace(scale=1.5).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(nodes, stats.laplace(scale=1.5 * factor).cdf).pvalue < 1e-30
