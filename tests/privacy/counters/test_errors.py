"""Error bounds of counters and reports: the recursion by brute force, tails by convolution, and all by simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, optimize, stats
from scipy.special import ndtr

from dprl.privacy.base import Float64Array
from dprl.privacy.counters import AnyCounter, BinaryTree, BufferedToeplitz, KaryTree, release_prefix
from dprl.privacy.counters.error import (
    UnaryCell,
    _FiniteLaw,
    _log_unary_moment,
    above_and_not_before,
    failure_of_a_cell,
    failure_probability,
    gaussian_bound,
    maximum_tail,
    report_error,
    running_sum_bound,
    tree_bound,
    unary_cell_bound,
    weighted_sum_bound,
    weighted_tree_bound,
    weighted_unary_bound,
    worst_block,
)
from dprl.privacy.mechanisms.base import INTEGER, Mechanism
from dprl.privacy.mechanisms.bounded import Uniform
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.tails import Lattice, laplace_sum_tail, lattice_sum_tail
from dprl.privacy.randomness.streams import Streams

# The error bounds against simulation: they hold, and are at most 10 % above the simulated quantile.

T, N_CELLS, BETA = 999, 100, 0.05
FAILURE = 1.0 - (1.0 - BETA) ** (1.0 / N_CELLS)
REFUTED, SHOWN = 1e-6, 1e-4
Draw = Callable[[int], npt.NDArray[np.float64]]

rng_of = np.random.default_rng


def lattice_draws(rng: np.random.Generator, weight: Callable[[Float64Array], Float64Array], reach: int) -> Draw:
    """Draws of P(z) proportional to weight(z), by inversion of its table."""
    z = np.arange(-reach, reach + 1).astype(np.float64)
    below = np.cumsum(weight(z)) / np.sum(weight(z))
    return lambda n: z[np.minimum(np.searchsorted(below, rng.random(n)), 2 * reach)]


def laws(rng: np.random.Generator) -> dict[str, tuple[Mechanism, Draw]]:
    return {
        "laplace": (Laplace(7.0), lambda n: rng.laplace(scale=7.0, size=n)),
        "gaussian": (Gaussian(3.0), lambda n: 3.0 * rng.standard_normal(n)),
        "discrete_laplace": (DiscreteLaplace(2.0), lattice_draws(rng, lambda z: np.exp(-np.abs(z) / 2.0), 80)),
        "discrete_gaussian": (DiscreteGaussian(1.5), lattice_draws(rng, lambda z: np.exp(-z * z / 4.5), 20)),
    }


def worst_of_sums(n_items: int, draw: Draw, n: int) -> Float64Array:
    total, worst = np.zeros(n), np.zeros(n)
    for _ in range(n_items):
        total += draw(n)
        np.maximum(worst, np.abs(total), out=worst)
    return worst


def check_holds(worst: Float64Array, bound: float, failure: float = FAILURE) -> None:
    assert np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], failure)


def check_tight(worst: Float64Array, bound: float, failure: float = FAILURE) -> None:
    assert np.sum(worst > bound / 1.1) > stats.binom.isf(SHOWN, worst.shape[0], failure)


@pytest.mark.parametrize("n_items", [1, 10, 32, 33, T])
@pytest.mark.parametrize("law", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_running_sum_bounds_hold_and_are_tight(n_items: int, law: str) -> None:
    mechanism, draw = laws(rng_of(n_items))[law]
    worst = worst_of_sums(n_items, draw, 100_000 if n_items < T else 40_000)
    bound = running_sum_bound(n_items, mechanism, N_CELLS, BETA)
    check_holds(worst, bound)
    if law.startswith("discrete") and n_items <= 10:
        # The bound is off by at most one integer, which is more than 10 % here.
        bound -= 1.0
    check_tight(worst, bound)


Q = 1.0 / (math.e + 1.0)
BOUNDS: dict[str, Callable[[int, int, float], float]] = {
    "binary": lambda t, n, beta: tree_bound(2, t, Laplace(1.0), failure_of_a_cell(n, beta)),
    "gaussian binary": lambda t, n, beta: tree_bound(2, t, Gaussian(1.0), failure_of_a_cell(n, beta)),
    "k-ary": lambda t, n, beta: tree_bound(5, t, Laplace(1.0), failure_of_a_cell(n, beta)),
    "sum": lambda t, n, beta: running_sum_bound(t, Laplace(1.0), n, beta),
    "discrete sum": lambda t, n, beta: running_sum_bound(t, DiscreteLaplace(20.0), n, beta),
    "unary": lambda t, n, beta: unary_cell_bound(t, UnaryCell(0.5, Q, 1, 1), n, beta),
    "gaussian": lambda t, n, beta: gaussian_bound(np.sqrt(np.arange(1, t + 1)), np.ones(t), failure_of_a_cell(n, beta)),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_grow_with_items_cells_and_certainty(name: str) -> None:
    bound = BOUNDS[name]
    assert bound(3, 10, 0.1) < bound(40, 10, 0.1) < bound(700, 10, 0.1)
    assert bound(700, 10, 0.99) < bound(700, 10, 0.1) < bound(700, 1000, 0.1) < bound(700, 1000, 1e-20)
    with pytest.raises(ValueError, match=r"beta must lie in .1e-30, 1\)"):
        bound(10, 10, 1e-31)
    with pytest.raises(ValueError, match="n_cells must be at least 1, got 0"):
        bound(10, 0, 0.1)


def test_what_cannot_be_bounded_is_refused() -> None:
    for n_items in (1, 1000):
        with pytest.raises(ValueError, match="law must be one with a known error bound, got uniform"):
            running_sum_bound(n_items, Uniform(1.0), 1, 0.1)
    with pytest.raises(ValueError, match="p and q must have"):
        unary_cell_bound(10, UnaryCell(0.3, 0.3, 1, 1), 1, 0.1)


@pytest.mark.parametrize("beta", [0.3, 1e-3, 1e-20])
def test_one_draw_of_one_cell_is_its_quantile(beta: float) -> None:
    for bound in (lambda n, law, cells, beta: BinaryTree(n, law).error_bound(cells, beta), running_sum_bound):
        assert bound(1, Laplace(2.0), 1, beta) == pytest.approx(-2.0 * math.log(beta), rel=5e-4)
        assert bound(1, Gaussian(2.0), 1, beta) == pytest.approx(2.0 * stats.norm.isf(beta / 2.0), rel=5e-4)
        smallest = next(e for e in range(200) if 2 * math.exp(-(e + 1) / 2) / (1 + math.exp(-0.5)) <= beta)
        assert bound(1, DiscreteLaplace(2.0), 1, beta) == smallest
    one, exact = np.array([2.0]), 2.0 * stats.norm.isf(beta / 2.0)
    assert gaussian_bound(one, one, beta) == pytest.approx(exact)


# Bounds on Gaussian processes: exact bivariate terms, coverage and tightness for a factorisation's noise.


def bound_of(std: Float64Array, steps: Float64Array, n_cells: int, beta: float) -> float:
    return gaussian_bound(std, steps, failure_of_a_cell(n_cells, beta))


def union_bound(std: Float64Array, n_cells: int, beta: float) -> float:
    """The bound that adds up the failures of all prefixes."""
    failure, noisy = 1.0 - (1.0 - beta) ** (1.0 / n_cells), std[std > 0.0]
    return float(optimize.brentq(lambda x: 2.0 * ndtr(-x / noisy).sum() - failure, 0.1, 100.0))


@pytest.mark.parametrize("h", [0.5, 2.0, 5.5, 12.0])
@pytest.mark.parametrize("ratio", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("distance", [1e-6, 1e-3, 0.14, 0.7, 1.6])
def test_terms_equal_direct_integration(h: float, ratio: float, distance: float) -> None:
    k, rho = h * ratio, 1.0 - distance

    def density(x: float) -> float:
        return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * float(ndtr((k - rho * x) / math.sqrt(1.0 - rho**2)))

    edges = h + np.linspace(0.0, 2.2, 60) ** 4
    exact = sum(integrate.quad(density, a, b, epsabs=0.0)[0] for a, b in itertools.pairwise(edges))
    term = above_and_not_before(np.array([h]), np.array([k]), np.array([distance]))
    assert term[0] == pytest.approx(exact, rel=2e-3, abs=1e-60)


@pytest.mark.parametrize("std", [1.0, 0.30001, 3.0003, 41.0])
def test_independent_noises_are_a_product_and_rounded_up(std: float) -> None:
    n = 50
    bound = bound_of(np.full(n, std), np.append(std, np.full(n - 1, math.sqrt(2.0) * std)), 1, 1e-3)
    exact = std * stats.norm.isf(0.5 * (1.0 - (1.0 - 1e-3) ** (1.0 / n)))
    assert exact * (1.0 - 1e-6) <= bound <= exact * (1.0 + 5e-4)


def test_prefixes_without_noise_add_nothing() -> None:
    std, steps = np.array([0.0, 1.0, 0.0, 3.0]), np.array([0.0, 1.0, 1.0, 3.0])
    assert bound_of(std, steps, 1, 0.01) == pytest.approx(union_bound(std, 1, 0.01), rel=3e-4)
    assert bound_of(np.zeros(3), np.zeros(3), 1, 0.01) == 0.0


# Exact tails of sums: Laplace by its characteristic function, discrete laws by convolution.


def characteristic_tail(x: float, m: int) -> float:
    """P(|sum of m Laplace(1)| > x) by inverting the characteristic function 1/(1+t^2)^m."""
    inside, _ = integrate.quad(
        lambda t: 2 / np.pi * np.sinc(x * t / np.pi) * x / (1 + t * t) ** m, 0, 60, limit=2000, epsabs=1e-12
    )
    return float(1 - inside)


@pytest.mark.parametrize(("x", "m"), [(0.5, 2), (3.0, 3), (5.0, 7), (10.0, 20), (25.0, 60)])
def test_tail_equals_the_inverted_characteristic_function(x: float, m: int) -> None:
    assert laplace_sum_tail(x, m) == pytest.approx(characteristic_tail(x, m), abs=1e-7)


def test_tail_of_one_draw_and_of_zero() -> None:
    assert laplace_sum_tail(7.0, 1) == pytest.approx(np.exp(-7.0), rel=1e-12)
    for m in (1, 5, 1000):
        assert laplace_sum_tail(0.0, m) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("m", [10**6, 10**8])
def test_tail_of_many_draws_is_nearly_normal(m: int) -> None:
    x = 4.0 * np.sqrt(2.0 * m)
    assert laplace_sum_tail(x, m) == pytest.approx(2 * stats.norm.sf(4.0), rel=1e-3)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_lattice_tails_equal_convolutions(scale: float, n: int) -> None:
    z = np.arange(-400, 401)
    laplace, gaussian = np.exp(-np.abs(z) / scale), np.exp(-0.5 * (z / scale) ** 2)
    for weight, law in ((laplace, DiscreteLaplace(scale)), (gaussian, DiscreteGaussian(scale))):
        one = weight / weight.sum()
        total = one
        for _ in range(n - 1):
            total = np.convolve(total, one)
        middle = total.shape[0] // 2
        for m in (1, 3, 10, 30, 100):
            exact = total[middle + m :].sum()
            if exact > 1e-60:
                assert lattice_sum_tail(m, n, law.log_transform, law.scale, law.moment_limit) == pytest.approx(
                    exact, rel=1e-6
                )


@pytest.mark.parametrize("n", [1000, 1_000_000])
def test_many_discrete_draws_are_bounded_as_gaussian_ones(n: int) -> None:
    for failure in (1e-4, 1e-23):
        gaussian = Gaussian(4.0).sum_bound(n, failure)
        assert gaussian == pytest.approx(4.0 * np.sqrt(n) * stats.norm.isf(failure / 4.0))
        assert DiscreteGaussian(4.0).sum_bound(n, failure) == pytest.approx(gaussian, abs=1.0)


def test_chains_and_levy_agree_where_they_meet() -> None:
    # Levy's factor of 2 is not reached by 33 summands.
    for law in (Laplace(1.0), Gaussian(1.0)):
        chain, levy = (running_sum_bound(n, law, 1, 1e-4) / np.sqrt(n) for n in (32, 33))
        assert chain < levy < 1.04 * chain


# The recursion over a tree's levels, against brute force and direct integration.

# A law on {-1, 0, 1} and one on {-2, .., 2}: few enough values to go through all nodes.
THREE = Lattice(np.array([0.4, 0.3]), 0.0)
FIVE = Lattice(np.array([0.5, 0.2, 0.05]), 0.0)


def exact(law: DiscreteLaplace | DiscreteGaussian) -> Lattice:
    lattice = law.lattice(1)
    assert lattice is not None
    return lattice


def both_sides(law: Lattice) -> Float64Array:
    return np.concatenate((law.mass[:0:-1], law.mass))


def brute_force(law: Lattice, prefixes: list[dict[int, int]], largest: int) -> float:
    """Go through all values of all nodes; a prefix is {node: sign}."""
    n_nodes, reach = 1 + max(node for prefix in prefixes for node in prefix), law.mass.shape[0] - 1
    values = np.array(list(itertools.product(range(-reach, reach + 1), repeat=n_nodes)))
    weights = np.prod(both_sides(law)[values + reach], axis=1)
    signs = np.array([[prefix.get(node, 0) for node in range(n_nodes)] for prefix in prefixes])
    return float(weights[np.any(np.abs(values @ signs.T) > largest, axis=1)].sum())


@pytest.mark.parametrize("n_items", range(1, 8))
@pytest.mark.parametrize("largest", [0, 1, 2])
@pytest.mark.parametrize("law", [THREE, FIVE])
def test_binary_trees_equal_brute_force(n_items: int, largest: int, law: Lattice) -> None:
    prefixes = []
    for t in range(1, n_items + 1):
        ends = [t]
        while ends[-1] & (ends[-1] - 1):
            ends.append(ends[-1] & (ends[-1] - 1))
        prefixes.append({end - 1: 1 for end in ends})
    exact = brute_force(law, prefixes, largest)
    assert failure_probability(2, n_items, law, largest) == pytest.approx(exact, rel=1e-12)


# Base 3: 1 = +a, 2 = +b - c, 3 = +b, 4 = +b + d; a = [0,1), b = [0,3), c = [2,3), d = [3,4).
TERNARY = [{0: 1}, {1: 1, 2: -1}, {1: 1}, {1: 1, 3: 1}]


@pytest.mark.parametrize(("n_items", "counted"), [(1, 1), (2, 3), (3, 3), (4, 4)])
@pytest.mark.parametrize("largest", [0, 1, 2])
def test_balanced_trees_equal_brute_force(n_items: int, counted: int, largest: int) -> None:
    # Prefix 2 is reached by subtraction from 3, which the bound therefore counts.
    exact = brute_force(FIVE, TERNARY[:counted], largest)
    assert failure_probability(3, n_items, FIVE, largest) == pytest.approx(exact, rel=1e-12)


# Base 5: 4 = 5 - d and 3 = 4 - e go back from 5; 8 and 9 from 10.
QUINARY = {1: (0, 0), 2: (1, 1), 5: (0, 2), 4: (5, -3), 3: (4, -4)}
QUINARY |= {6: (5, 5), 7: (6, 6), 10: (5, 7), 9: (10, -8), 8: (9, -9)}


def quinary(prefix: int) -> dict[int, int]:
    """Return the signs of the nodes of a prefix by their numbers: those of its parent, and one more."""
    if prefix == 0:
        return {}
    parent, node = QUINARY[prefix]
    return quinary(parent) | {abs(node): -1 if node < 0 else 1}


@pytest.mark.parametrize("n_items", [5, 7, 10])
@pytest.mark.parametrize("largest", [0, 1, 2])
def test_balanced_trees_of_two_digits_equal_brute_force(n_items: int, largest: int) -> None:
    exact = brute_force(THREE, [quinary(prefix) for prefix in range(1, n_items + 1)], largest)
    assert failure_probability(5, n_items, THREE, largest) == pytest.approx(exact, rel=1e-12)


def test_a_chain_is_a_tree_of_one_level() -> None:
    chain = [dict.fromkeys(range(t), 1) for t in range(1, 6)]
    for largest in (1, 3):
        exact = brute_force(FIVE, chain, largest)
        assert failure_probability(11, 5, FIVE, largest) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("failure", [0.1, 1e-4, 1e-12])
def test_two_prefixes_by_integration(failure: float) -> None:
    # T = 3: z1, z2, z2 + z3; the last two only share z2.
    laplace = tree_bound(2, 3, Laplace(1.0), failure)
    gaussian = tree_bound(2, 3, Gaussian(1.0), failure)
    for law, e in ((stats.laplace, laplace), (stats.norm, gaussian)):

        def leaves(z: float, law: stats.rv_continuous = law, e: float = e) -> float:
            return float(law.pdf(z) * (law.sf(e - z) + law.sf(e + z)))

        later = 2 * law.sf(e) + sum(
            integrate.quad(leaves, a, b, epsabs=0.0)[0] for a, b in itertools.pairwise(np.linspace(-e, e, 9))
        )
        one = 2 * law.sf(e)
        # The bound is rigorous for Laplace noise, and E is at most 1e-3 off (3 % of a failure probability of 1e-12).
        assert 0.95 * failure <= one + (1 - one) * later <= failure * 1.0001


def test_laws_sum_to_one_and_have_their_variance() -> None:
    for law, variance in (
        (exact(DiscreteGaussian(3.0)), 9.0),
        (Gaussian(1.0).rounded(1 / 32, 1), 32.0**2 + 1 / 12),
        (Laplace(1.0).rounded(0.1, 5), 1000.0 + 1 / 12),
    ):
        both = both_sides(law)
        z = np.arange(both.shape[0]) - both.shape[0] // 2
        assert both.sum() == pytest.approx(1.0, abs=1e-12)
        assert both @ z**2 == pytest.approx(variance, rel=1e-6)


@pytest.mark.parametrize("law", [exact(DiscreteLaplace(3.0)), Laplace(1.0).rounded(0.3, 1)])
def test_geometric_tails_spread_as_their_masses_do(law: Lattice) -> None:
    mass = np.append(law.mass[0], law.mass[1] * law.ratio ** np.arange(400))
    half = np.random.default_rng(0).random(21)
    inside = np.concatenate((half[:0:-1], half))
    assert 2 * mass.sum() - mass[0] == pytest.approx(1.0)
    np.testing.assert_allclose(law.spread(inside), Lattice(mass, 0.0).spread(inside), rtol=1e-12)


def test_large_discrete_bounds_are_the_last_whole_number_within_the_rounding() -> None:
    for scale in (70.0, 1e3, 5e3):
        # A draw is less than 1 away from the continuous one, and the deepest of 500 prefixes has 9 nodes.
        limit = tree_bound(2, 500, Laplace(scale), failure_of_a_cell(10, 0.05)) + 9
        assert limit - 1.0 < tree_bound(2, 500, DiscreteLaplace(scale), failure_of_a_cell(10, 0.05)) <= limit


# Bounds on sums of unary reports: they hold for all true values and are tight for hot cells; their parts are exact.

UNARY_FAILURE = BETA / N_CELLS


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
    assert np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], UNARY_FAILURE)
    assert np.sum(worst > bound / 1.1) > stats.binom.isf(SHOWN, worst.shape[0], UNARY_FAILURE)


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


# Bounds on weighted sums: they hold for weights in [0, 1], and for weights of 1 they are near the simulated quantile.

WEIGHTED_FAILURE = 1e-3
# Bounds by moment generating functions are too large by this factor at so large a failure probability; see below.
CHERNOFF = 1.5
USERS, SUMMANDS, N_SUMS = 40, 4, 30_000
# Weights of 1, one cell only, a staircase, fractions: the first is the worst case, and none may be worse.
WEIGHTS = np.array([[1.0] * 4, [1.0, 0, 0, 0], [1.0, 0.7, 0.3, 0.1], [0.9, 0.2, 0.6, 0.5]])
COUNTERS: list[AnyCounter] = [
    BinaryTree(USERS, Laplace(7.0)),
    BinaryTree(USERS, Gaussian(3.0)),
    BinaryTree(USERS, DiscreteLaplace(2.0)),
    BinaryTree(USERS, DiscreteGaussian(1.5)),
    KaryTree(USERS, Laplace(7.0), 5),
    KaryTree(USERS, Gaussian(3.0), 3),
    KaryTree(USERS, DiscreteLaplace(2.0), 3),
    KaryTree(USERS, DiscreteGaussian(4.0), 5),
    BufferedToeplitz(USERS, Gaussian(3.0)),
]
LAWS: list[Mechanism] = [DiscreteLaplace(2.0), DiscreteGaussian(1.5)]
ROWS = [UnaryCell(0.5, Q, 1, 4), UnaryCell(0.5, Q, 5, 4), UnaryCell(1.0 - SYMMETRIC, SYMMETRIC, 1, 4)]


def holds(worst: Float64Array, bound: float) -> bool:
    return bool(np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], WEIGHTED_FAILURE))


def near(worst: Float64Array, bound: float, share: float) -> bool:
    return bool(np.sum(worst > bound / share) > stats.binom.isf(SHOWN, worst.shape[0], WEIGHTED_FAILURE))


def weighted_bound_of(counter: AnyCounter, users: int) -> float:
    """The bound of sums of SUMMANDS cells, as `weighted_bound` chooses it."""
    node = counter.node
    if node is not None and node.arithmetic == INTEGER:
        depths = np.round(counter.profile()[:users] ** 2).astype(np.int64)
        return weighted_tree_bound(
            dict(zip(*np.unique(depths, return_counts=True), strict=True)), node, SUMMANDS, WEIGHTED_FAILURE
        )
    return counter.error_bound(1, WEIGHTED_FAILURE, SUMMANDS, users)


def worst_errors(counter: AnyCounter, users: tuple[int, ...]) -> dict[int, Float64Array]:
    """The largest weighted sums [weights, SUMS] of a counter's own noise at the first `users` prefixes."""
    n_cells = N_SUMS * SUMMANDS
    state = counter.open(n_cells, Streams(11, str(counter)).key("server_noise"))
    totals, released = np.zeros(n_cells), np.zeros(n_cells)
    worst, found = np.zeros((len(WEIGHTS), N_SUMS)), {}
    for item in range(1, max(users) + 1):
        release_prefix(released, totals, state, item)
        np.maximum(worst, np.abs(WEIGHTS @ released.reshape(SUMMANDS, N_SUMS)), out=worst)
        if item in users:
            found[item] = worst.copy()
    return found


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: f"{c.name}, {c.node.name}")
def test_counters_stay_within_the_bound_of_the_first_users_whatever_the_weights(counter: AnyCounter) -> None:
    users = (1, 11, USERS)
    bounds = [weighted_bound_of(counter, n) for n in users]
    worst = worst_errors(counter, users)
    integer = counter.node is not None and counter.node.arithmetic == INTEGER
    for n, bound in zip(users, bounds, strict=True):
        assert all(holds(errors, bound) for errors in worst[n])
        assert near(worst[n][0], bound, CHERNOFF if integer else 1.1)
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.9 * bounds[-1]


def exact_log_transform(row: UnaryCell, hot: int, weights: Float64Array, argument: float) -> float:
    """Log E e^(argument Y) of the error of one weighted row, by going through all its bits."""
    mean = 0.0
    truth = weights[hot] if hot >= 0 else 0.0
    p = np.where(np.arange(row.cells) == hot, row.p, row.q)
    for bits in itertools.product((0.0, 1.0), repeat=row.cells):
        b = np.array(bits)
        chance = float(np.prod(np.where(b == 1.0, p, 1.0 - p)))
        if row.exclusive:  # at most one of the sum's bits is 1
            chance = float(b @ p) if b.sum() == 1.0 else (b.sum() == 0.0) * float(1.0 - p.sum())
        estimate = row.sampled_steps * float(weights @ (b - row.q)) / (row.p - row.q)
        mean += chance * math.exp(argument * (estimate - truth)) / row.sampled_steps
    return math.log(mean + (1.0 - 1.0 / row.sampled_steps) * math.exp(-argument * truth))


EXCLUSIVE = [UnaryCell(p, q, n, 4, exclusive=True) for p, q, n in ((0.9, 0.02, 3), (0.3, 0.2, 1), (0.5, 0.1, 5))]


@pytest.mark.parametrize("row", [*ROWS, UnaryCell(0.9, 0.05, 3, 4), *EXCLUSIVE], ids=str)
@pytest.mark.parametrize("argument", [-0.5, -0.1, -1e-3, 1e-3, 0.1, 0.5])
def test_no_weights_have_a_larger_transform_than_the_worst_row(row: UnaryCell, argument: float) -> None:
    worst = _log_unary_moment(row, argument)
    rng = np.random.default_rng(0)
    tried = [*rng.random((40, 4)), *(np.array(corner) for corner in itertools.product((0.0, 1.0), repeat=4))]
    found = max(exact_log_transform(row, hot, weights, argument) for weights in tried for hot in (-1, 0))
    # Exact for independent bits; where one bit is 1, sums of a fraction of a cell are counted, too.
    assert found <= worst * (1 + 1e-8)
    assert found >= worst * (1 - (0.2 if row.exclusive else 1e-8))


def test_rows_and_draws_without_end_are_no_overflow() -> None:
    # One user, and encodings with almost no randomness: the largest error of one row is known.
    for numbers in ((0.5, Q, 5, 4), (1.0, math.exp(-50.0), 1, 4), (0.5, math.exp(-100.0), 20, 40)):
        row = UnaryCell(*numbers)
        largest = row.sampled_steps * (row.cells * (1.0 - row.q)) / (row.p - row.q)
        assert 0.0 < weighted_unary_bound(1, row, 1e-9) <= 1.01 * largest + 3.0
    assert weighted_sum_bound(100, DiscreteLaplace(1e-3), 4, 1e-9) < 1.0
    assert weighted_tree_bound(BinaryTree(100).depths(100), DiscreteLaplace(1e-3), 4, 1e-9) < 1.0


def test_the_transform_of_discrete_laplace_noise_is_its_own() -> None:
    z = np.arange(-10_000, 10_001).astype(np.float64)
    for scale, argument in itertools.product((0.3, 2.0, 30.0), (1e-9, 0.2, 0.9)):
        mass = np.exp(-np.abs(z) / scale)
        expected = math.log(float(np.sum(np.exp(argument / scale * z - np.abs(z) / scale)) / mass.sum()))
        assert DiscreteLaplace(scale).log_moment(argument / scale) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_long_sums_cost_a_few_per_cent(law: Mechanism) -> None:
    exact = running_sum_bound(50_000 * 6, law, 1, 1e-6)
    assert exact <= weighted_sum_bound(50_000, law, 6, 1e-6) <= 1.08 * exact
    tree = BinaryTree(50_000, law)
    assert weighted_tree_bound(tree.depths(50_000), law, 6, 1e-6) <= 1.1 * tree.error_bound(1, 1e-6, 6)
