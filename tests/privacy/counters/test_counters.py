"""Every counter: its noise as a linear map, the charge of that map, trees by definition, and what runs compiled."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprl.privacy.base import Sensitivity
from dprl.privacy.counters import COUNTERS, AnyCounter, BinaryTree, CounterState, ExactCounter, KaryTree, release_prefix
from dprl.privacy.counters.release import last_step
from dprl.privacy.counters.trees import best_base, height, mean_blocks
from dprl.privacy.mechanisms.base import NODE
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams
from tests.without_compiler import printed_both_ways

# Every counter: its noise as a linear map, Lemma A on that map, variance, resuming, compiled and uncompiled.

Matrix = npt.NDArray[np.float64]
KEY = Streams(7, "counters").key("server_noise")
ROW = Sensitivity(6.0, 3.0, 2.0, 4)
SMALL = (1, 2, 3, 4, 5, 8, 13, 14, 20)


def with_node(name: str, n_items: int, scale: float = 1.0) -> AnyCounter:
    return COUNTERS[name](n_items, Gaussian(scale))


def prefix_noise(counter: AnyCounter | ExactCounter, n_cells: int) -> Matrix:
    """Noise of prefixes 1..T, float64[T, cells]."""
    state, totals = counter.open(n_cells, KEY), np.zeros(n_cells)
    out = np.empty((counter.n_items, n_cells))
    for item in range(1, counter.n_items + 1):
        release_prefix(out[item - 1], totals, state, item)
    return out


def linear_map(counter: AnyCounter) -> Matrix:
    """B float64[T, nodes] as it ran: noise = B w, w the draws of nodes 0, 1, ...; from more cells than nodes."""
    n_nodes = 4 * counter.n_items + 4
    n_cells = n_nodes + 4
    assert counter.node is not None
    draws, noise = np.empty((n_nodes, n_cells)), counter.node.noise(KEY)
    for node in range(n_nodes):
        fill_noise(draws[node], noise, np.uint64(node * n_cells))
    return prefix_noise(counter, n_cells) @ np.linalg.pinv(draws)


def entered_nodes(counter: AnyCounter, b: Matrix) -> Matrix:
    """C float64[nodes, T] with B C = A: the nodes that each item enters."""
    n_items, n_nodes = counter.n_items, b.shape[1]
    ones = np.tril(np.ones((n_items, n_items)))
    c = np.zeros((n_nodes, n_items))
    if counter.name not in ("binary_tree", "kary_tree"):
        c[1 : n_items + 1] = np.linalg.solve(b[:, 1 : n_items + 1], ones)
        return c
    for node in range(1, n_nodes):
        if not np.any(np.abs(b[:, node]) > 1e-9):
            continue
        start, end = block_of(counter, node)
        c[node, start : min(end, n_items)] = 1.0
    return c


def block_of(counter: AnyCounter, node: int) -> tuple[int, int]:
    """The items start+1..end of node number `node`, by the definition of each tree."""
    if counter.name == "binary_tree":
        return node - (node & -node), node
    k, size = counter.base, 1  # type: ignore[union-attr]
    while node // size % k == 0:
        size *= k
    return (node - size, node) if node // size % k <= k // 2 else (node, node + size)


@pytest.mark.parametrize("name", sorted(COUNTERS))
@pytest.mark.parametrize("n_items", [*SMALL, 61])
def test_what_is_charged_is_the_dearest_column_of_the_map_that_ran(name: str, n_items: int) -> None:
    counter = with_node(name, n_items)
    b = linear_map(counter)
    c = entered_nodes(counter, b)
    # Lemma A holds for any C with B C = A.
    assert b @ c == pytest.approx(np.tril(np.ones((n_items, n_items))), abs=1e-8)
    worst = counter.sensitivity(ROW)
    assert worst.l2 == pytest.approx(ROW.l2 * np.linalg.norm(c, axis=0).max(), rel=1e-7)
    assert worst.l1 == pytest.approx(ROW.l1 * np.abs(c).sum(axis=0).max(), rel=1e-7)
    # A k-ary tree can reveal differences of a user's nodes beforehand, so the nodes of a cell count as one release.
    together = np.abs(c).sum(axis=0).max() if name == "kary_tree" else np.abs(c).max()
    assert worst.linf == pytest.approx(ROW.linf * together, rel=1e-7)
    most = 1 if name == "kary_tree" else np.count_nonzero(np.abs(c) > 1e-9, axis=0).max()
    assert worst.cells == ROW.cells * most


@pytest.mark.parametrize("name", sorted(COUNTERS))
@pytest.mark.parametrize("n_items", SMALL)
def test_exact_distance_of_two_worlds_is_what_is_charged(name: str, n_items: int) -> None:
    # Gaussian outputs with covariance B B^T whose mean moves by column k of A: mu is a Mahalanobis distance.
    counter = with_node(name, n_items)
    b = linear_map(counter)
    shifts = np.tril(np.ones((n_items, n_items)))
    distances = np.linalg.norm(np.linalg.pinv(b, rcond=1e-9) @ shifts, axis=0)
    charged = counter.sensitivity(Sensitivity.of_cells(1)).l2
    assert distances.max() <= charged * (1 + 1e-7)
    if counter.attained:
        assert distances.max() == pytest.approx(charged, rel=1e-7)
    else:
        assert name == "kary_tree"


@pytest.mark.parametrize("name", sorted(COUNTERS))
@pytest.mark.parametrize("n_items", SMALL)
def test_profile_is_the_norm_of_the_rows_of_the_map(name: str, n_items: int) -> None:
    counter = with_node(name, n_items, scale=2.5)
    assert counter.profile() == pytest.approx(np.linalg.norm(linear_map(counter), axis=1), rel=1e-7)


@pytest.mark.parametrize("name", [*sorted(COUNTERS), "exact"])
def test_totals_are_added_and_nothing_else_is_kept(name: str) -> None:
    counter = ExactCounter(9) if name == "exact" else with_node(name, 9)
    noise, n_cells = prefix_noise(counter, 5), 5
    state, rng = counter.open(n_cells, KEY), np.random.default_rng(1)
    for item in range(1, 10):
        totals, released = rng.normal(size=n_cells), np.empty(n_cells)
        release_prefix(released, totals, state, item)
        assert released == pytest.approx(totals + noise[item - 1], abs=1e-9)


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_a_copied_state_continues_bit_for_bit(name: str) -> None:
    counter, n_cells = with_node(name, 40), 300
    expected, state, totals = prefix_noise(counter, n_cells), counter.open(n_cells, KEY), np.zeros(n_cells)
    out = np.empty(n_cells)
    for item in range(1, 41):
        if item in (2, 9, 23):
            arrays = {field: getattr(state, field).copy() for field in ("rows", "held", "coefficients")}
            state = CounterState(state.kind, state.base, counter.node.noise(KEY.copy()), **arrays)  # type: ignore[union-attr]
        release_prefix(out, totals, state, item)
        assert np.array_equal(out, expected[item - 1])


@pytest.mark.parametrize("name", sorted(COUNTERS))
@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
def test_prefixes_may_be_left_out_and_released_again(name: str, share: float) -> None:
    # More cells than a block; k-ary trees draw parents ahead.
    counter, n_cells, rng = with_node(name, 130), 2100, np.random.default_rng(round(100 * share))
    variants = [replace(counter, base=base) for base in (3, 5, 13)] if isinstance(counter, KaryTree) else [counter]
    for variant in variants:
        expected, state, totals = prefix_noise(variant, n_cells), variant.open(n_cells, KEY), np.zeros(n_cells)
        out = np.empty(n_cells)
        for item in [*np.flatnonzero(rng.random(130) < share) + 1, 130, 130]:
            release_prefix(out, totals, state, int(item))
            assert np.array_equal(out, expected[item - 1])


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_integer_noise_stays_integer_where_a_counter_says_so(name: str) -> None:
    if COUNTERS[name].place == NODE:
        noise = prefix_noise(COUNTERS[name](30, DiscreteLaplace(7.0)), 40)
        assert np.array_equal(noise, np.rint(noise))
        assert np.std(noise) > 7.0
    else:
        with pytest.raises(ValueError, match=f"^counter: {name} takes gaussian noise only, got mechanism disc"):
            COUNTERS[name](30, DiscreteLaplace(7.0))


UNCOMPILED = """
import numpy as np
from dprl.privacy.counters import COUNTERS, release_prefix
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
key = np.array([0, 11, 22, 33, 44], dtype=np.uint64)
for name in sorted(COUNTERS):
    for law in (Gaussian, Laplace):
        if COUNTERS[name].place in law.places:
            counter, out = COUNTERS[name](15, law(2.0)), np.empty(4)
            state = counter.open(4, key)
            for item in range(1, 16):
                release_prefix(out, np.arange(4.0), state, item)
                print(name, law.name, item, *[x.hex() for x in out])
            print(*[x.hex() for x in counter.profile()])
"""


def test_compiled_and_uncompiled_release_the_same_bits() -> None:
    assert printed_both_ways(UNCOMPILED, "ignore::RuntimeWarning").count("\n") == 5 * 16


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_bad_input_is_refused_in_one_line(name: str) -> None:
    counter = COUNTERS[name](10)
    for call, start in (
        (lambda: COUNTERS[name](0), rf"counter: {name} takes 1 to [\d,]+ releases, got 0"),
        (lambda: counter.open(3, KEY), "node must be a mechanism, got None"),
        (lambda: counter.error_bound(3, 0.1), "node must be a mechanism, got None"),
    ):
        with pytest.raises(ValueError, match=start) as error:
            call()
        assert "\n" not in str(error.value)
    if COUNTERS[name].place != NODE:
        with pytest.raises(ValueError, match=f"^counter: {name} takes gaussian noise only, got mechanism lap"):
            COUNTERS[name](10, Laplace(1.0))


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_error_bound_holds(name: str) -> None:
    # 400 runs of 20 cells at beta = 0.1: at most 0.1 + 5 standard deviations = 0.175 fail; one-sided rate 3e-7.
    counter, n_runs, n_cells = with_node(name, 30, 2.0), 400, 20
    worst = np.abs(prefix_noise(counter, n_runs * n_cells)).reshape(30, n_runs, n_cells).max(axis=(0, 2))
    bound = counter.error_bound(n_cells, 0.1)
    assert np.mean(worst > bound) <= 0.175
    assert bound <= 1.25 * np.quantile(worst, 0.9)
    assert counter.error_bound(n_cells, 0.01) > bound
    # A sum of four independent cells is off by twice as much.
    assert counter.error_bound(n_cells, 0.1, summands=4) == pytest.approx(2 * bound, rel=1e-3)
    assert replace(counter, node=Gaussian(4.0)).error_bound(n_cells, 0.1) == pytest.approx(2 * bound, rel=1e-3)


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 7, 8, 13, 31, 100, 127, 128, 1000, 1093, 5003])
@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_errors_are_those_of_the_profile(name: str, n_items: int) -> None:
    profile = COUNTERS[name](n_items).profile()
    expected = math.sqrt(np.mean(profile**2)), profile.max()
    assert COUNTERS[name](n_items).errors() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("counter", [BinaryTree(1000), KaryTree(1000), KaryTree(1000, base=3), KaryTree(60, base=121)])
def test_depths_are_those_of_the_first_prefixes(counter: BinaryTree | KaryTree) -> None:
    depths = np.round(counter.profile() ** 2).astype(np.int64)
    for users in (1, 2, 3, counter.n_items // 3, counter.n_items - 1, counter.n_items):
        assert counter.depths(users) == dict(zip(*np.unique(depths[:users], return_counts=True), strict=True))


@pytest.mark.parametrize("name", ["binary_tree", "kary_tree"])
def test_the_largest_run_is_described_without_an_array_over_users(name: str) -> None:
    counter = with_node(name, 10**9, 2.0)
    tracemalloc.start()
    rms, largest = counter.errors()
    assert counter.sensitivity(ROW).l2 > 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1.0 < rms < largest
    assert peak < 1e7


def test_error_bound_is_given_the_deviations_of_prefixes_and_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []

    def bound(*args: Any) -> float:
        given.append(args)
        return 1.0

    counter = with_node("buffered_toeplitz", 20, 2.0)
    monkeypatch.setattr("dprl.privacy.counters.buffered_toeplitz.gaussian_bound", bound)
    b = 2.0 * linear_map(counter)
    assert counter.error_bound(7, 0.1) == 1.0
    std, steps, failure = given[0]
    assert failure == pytest.approx(1.0 - 0.9 ** (1.0 / 7.0))
    assert std == pytest.approx(np.linalg.norm(b, axis=1), rel=1e-7)
    assert steps == pytest.approx(np.linalg.norm(np.diff(b, axis=0, prepend=0.0), axis=1), rel=1e-7)


@pytest.mark.parametrize("name", [*sorted(COUNTERS), "exact"])
def test_memory_is_what_is_kept_and_a_state_does_not_print_noise(name: str) -> None:
    counter = ExactCounter(20) if name == "exact" else with_node(name, 20)
    state = counter.open(1000, KEY)
    assert counter.memory(1000) == pytest.approx(state.rows.nbytes + state.coefficients.nbytes, rel=0.02)
    assert repr(state) == f"CounterState(kind={state.kind}, base={state.base})"


def test_exact_counter_charges_rows_as_they_are() -> None:
    counter = ExactCounter(5)
    assert counter.sensitivity(ROW) == ROW
    assert counter.node is None
    assert counter.suited("l1") == counter
    assert not counter.profile().any()
    assert counter.error_bound(10, 0.1) == 0.0


# The k-ary tree: digits, nodes and bases against the definition.


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

    assert error(best_base(n_items, norm)) == pytest.approx(min(map(error, range(3, min(2 * n_items, 200) + 2, 2))))


@pytest.mark.parametrize("base", [-3, 1, 2, 4])
def test_even_bases_are_refused(base: int) -> None:
    with pytest.raises(ValueError, match=f"base must be odd and at least 3, got {base}"):
        KaryTree(10, base=base)
