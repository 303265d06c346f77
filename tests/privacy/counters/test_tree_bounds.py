"""The recursion over a tree's levels, against brute force and direct integration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.error import failure_of_a_cell, failure_probability, tree_bound
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.tails import Lattice

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
QUINARY = {
    1: (0, 0),
    2: (1, 1),
    5: (0, 2),
    4: (5, -3),
    3: (4, -4),
    6: (5, 5),
    7: (6, 6),
    10: (5, 7),
    9: (10, -8),
    8: (9, -9),
}


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
