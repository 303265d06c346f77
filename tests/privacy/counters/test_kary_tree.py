"""The k-ary tree: digits, nodes and bases against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.counters import KaryTree, release_prefix
from dprl.privacy.counters.release import last_step
from dprl.privacy.counters.trees import best_base, height, mean_blocks
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

KEY = Streams(4, "k-ary").key("server_noise")


def digits(t: int, k: int) -> list[int]:
    """Balanced base-k digits, least significant first."""
    out = []
    while t > 0:
        rest = t % k
        rest -= k if rest > (k - 1) // 2 else 0
        out.append(rest)
        t = (t - rest) // k
    return out


def nodes(t: int, k: int) -> list[tuple[int, int, int]]:
    """(level, start, sign) of the blocks that make prefix t, from the highest digit down."""
    out, position, d = [], 0, digits(t, k)
    for level in range(len(d) - 1, -1, -1):
        for _ in range(abs(d[level])):
            if d[level] > 0:
                out.append((level, position, +1))
                position += k**level
            else:
                position -= k**level
                out.append((level, position, -1))
    assert position == t
    return out


@pytest.mark.parametrize(("k", "n_items"), [(3, 1), (3, 40), (3, 41), (5, 62), (5, 130), (7, 200), (13, 170), (41, 20)])
def test_noise_of_a_prefix_is_the_signed_sum_over_its_blocks(k: int, n_items: int) -> None:
    n_cells, node = 3, DiscreteLaplace(9.0)
    state, released, totals = KaryTree(n_items, node, k).open(n_cells, KEY), np.empty(n_cells), np.zeros(n_cells)
    draw: dict[tuple[int, int], np.ndarray] = {}
    for t in range(1, n_items + 1):
        blocks = nodes(t, k)
        for level, start, sign in blocks:
            # A block belongs to the prefix at its end if that adds it, at its start if that subtracts it.
            owner = start + k**level if sign > 0 else start
            drawn = np.empty(n_cells)
            fill_noise(drawn, node.noise(KEY), np.uint64(owner * n_cells))
            assert np.array_equal(draw.setdefault((level, start), drawn), drawn)
        release_prefix(released, totals, state, t)
        assert np.array_equal(released, sum(sign * draw[level, start] for level, start, sign in blocks))
        # Nodes drawn ahead are kept; otherwise a step would cost more than one draw on average.
        parent, _, digit = last_step(t, k)
        assert t in state.held
        assert digit > 0 or parent in state.held
    owners = {start + k**level if (start // k**level) % k < k // 2 else start for level, start in draw}
    assert len(owners) == len(draw)


@pytest.mark.parametrize(("k", "n_items"), [(3, 1), (3, 2), (3, 40), (5, 62), (5, 130), (7, 200), (13, 999), (41, 20)])
def test_item_one_is_in_the_most_used_blocks(k: int, n_items: int) -> None:
    used = {(level, start) for t in range(1, n_items + 1) for level, start, _ in nodes(t, k)}
    entered = np.zeros(n_items, dtype=int)
    for level, start in used:
        entered[start : start + k**level] += 1
    tree = KaryTree(n_items, base=k)
    assert entered.max() == entered[0] == tree.levels == height(n_items, k)
    blocks = [len(nodes(t, k)) for t in range(1, n_items + 1)]
    assert tree.profile() == pytest.approx(np.sqrt(blocks))
    assert mean_blocks(n_items, k) == pytest.approx(np.mean(blocks), rel=1e-12)


def test_the_charge_is_known_to_be_attained_in_full_trees_only() -> None:
    assert [n for n in range(1, 122) if KaryTree(n, base=3).attained] == [1, 4, 13, 40, 121]
    assert [n for n in range(1, 63) if KaryTree(n, base=5).attained] == [2, 12, 62]


def test_best_bases() -> None:
    assert [best_base(n, norm) for n in (999, 99_999) for norm in ("l1", "l2")] == [13, 7, 23, 5]
    blocks = KaryTree(999).profile() ** 2
    assert [KaryTree(999).levels, round(float(blocks.mean()), 3), round(float(blocks.max()))] == [3, 9.465, 18]
    assert [KaryTree(99_999).base, KaryTree(99_999).levels] == [23, 4]
    assert KaryTree(99_999, Gaussian(1.0)).base == KaryTree(99_999).suited("l2").base == 5


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 5, 12, 13, 14, 40, 121, 122, 1000])
@pytest.mark.parametrize(("norm", "power"), [("l1", 2), ("l2", 1)])
def test_best_base_is_best_among_all(n_items: int, norm: str, power: int) -> None:
    def error(k: int) -> float:
        return float(height(n_items, k) ** power * np.mean(KaryTree(n_items, base=k).profile() ** 2))

    assert error(best_base(n_items, norm)) == pytest.approx(
        min(error(k) for k in range(3, min(2 * n_items, 200) + 2, 2))
    )


@pytest.mark.parametrize("base", [-3, 1, 2, 4])
def test_even_bases_are_refused(base: int) -> None:
    with pytest.raises(ValueError, match=f"base must be odd and at least 3, got {base}"):
        KaryTree(10, base=base)
