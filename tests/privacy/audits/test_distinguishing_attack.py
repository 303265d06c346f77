"""The threshold attack: its bounds, its result for a right and a wrong scale, and its rate of errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from dprl.privacy import CountPrivacy
from dprl.privacy.audits.distinguishing_attack import (
    Probe,
    clopper_pearson_lower,
    clopper_pearson_upper,
    delta_lower_bound,
    draw,
    epsilon_lower_bound,
    largest_epsilon_bound,
    measure,
)
from dprl.privacy.audits.findings import NOTHING_PROVED, Claim, Measurement, NoiseProof
from dprl.privacy.audits.message_probes import changed_cells, floating_point_event, noisy_cells
from dprl.privacy.audits.privatizer_probes import counter_prefixes, local_reports
from dprl.privacy.counters import BinaryTree
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.count_layout import CountFamilies, CountFamily
from dprl.privacy.randomness.streams import Streams

# The threshold attack: its result for Laplace noise with a right and a wrong scale, and its rate of errors.

SEEDS = 200
STREAMS, TWO_CELLS = Streams(0, "audit"), CountFamilies(1, (CountFamily("cells", 2),))
EXACT = NoiseProof(1.0, None, 1.0, 0.0)


def laplace_probe(cells: int, scale: float) -> Probe:
    return noisy_cells(Laplace(scale), *changed_cells(cells), label=f"{cells} cells")


def attack_cells(cells: int, scale: float, runs: int = 200_000, seed: int = 3, alpha: float = 0.01) -> Measurement:
    proof = NoiseProof(cells / scale, None, cells / scale, 1.0)
    return measure(laplace_probe(cells, scale), Claim(1.0), proof, runs=runs, seed=seed, alpha=alpha)


def test_the_right_scale_is_not_refuted_and_nearly_reached_and_a_larger_one_is_not_refuted() -> None:
    assert not attack_cells(cells=1, scale=1.5).refutes
    measured = attack_cells(cells=1, scale=1.0)
    assert not measured.refutes
    assert 0.95 < measured.epsilon_lb < 1.0


@pytest.mark.parametrize("cells", [1, 4])
def test_a_scale_of_two_thirds_is_refuted(cells: int) -> None:
    measured = attack_cells(cells, scale=cells * 2.0 / 3.0)
    assert measured.refutes
    assert 1.0 < measured.epsilon_lb < 1.5
    assert measured.delta_lb > 0.0


def test_a_bound_that_only_more_runs_could_raise_is_marked() -> None:
    """At epsilon = 100, half as many runs lower the bound by about ln 2; at 1, no number of runs reaches epsilon."""
    of_100, half = (attack_cells(cells=1, scale=0.01, runs=runs) for runs in (50_000, 25_000))
    assert [one.limited_by_runs for one in (of_100, half)] == [True, True]
    assert of_100.epsilon_lb <= of_100.largest_epsilon_lb
    assert of_100.largest_epsilon_lb - half.largest_epsilon_lb == pytest.approx(np.log(2), abs=1e-3)
    assert not attack_cells(cells=1, scale=1.0, runs=50_000).limited_by_runs


def test_the_same_seed_gives_the_same_bound_and_another_another() -> None:
    first, again, other = (attack_cells(1, 1.0, runs=70_000, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.epsilon_lb != other.epsilon_lb


def test_scores_do_not_depend_on_how_many_more_are_drawn() -> None:
    probe = laplace_probe(2, 1.0)
    np.testing.assert_array_equal(draw(probe, 1, 1000, 0, "a")[:100], draw(probe, 1, 100, 0, "a"))
    assert not np.array_equal(draw(probe, 1, 100, 0, "a"), draw(probe, 1, 100, 0, "b"))
    assert not np.array_equal(draw(probe, 1, 100, 0, "a"), draw(probe, 0, 100, 0, "a"))


TREE = BinaryTree(3, Laplace(2.0))
UNARY = CountPrivacy("ldp", 1.0, mechanism="sampled_optimized_unary_encoding", families="one_hot")
EXACTLY_ONE: dict[str, Callable[[], Probe]] = {
    "one number": lambda: laplace_probe(1, 1.0),
    "four numbers": lambda: laplace_probe(4, 4.0),
    "discrete": lambda: noisy_cells(DiscreteLaplace(2.0), *changed_cells(2), label="two counts"),
    "tree": lambda: counter_prefixes(TREE, *changed_cells(1), label="tree"),
    "unary": lambda: local_reports(UNARY.build(TWO_CELLS, 1, STREAMS), "unary"),
}
"""Probes whose epsilon is exactly 1."""


@pytest.mark.parametrize("name", sorted(EXACTLY_ONE))
def test_bounds_exceed_the_proof_no_more_often_than_stated(name: str) -> None:
    """False alarm of this test: below 1e-4 if the confidence is as stated (binomial over 200 seeds)."""
    alpha, probe = 0.05, EXACTLY_ONE[name]()
    bounds = [measure(probe, Claim(1.0), EXACT, runs=2000, seed=seed, alpha=alpha).epsilon_lb for seed in range(SEEDS)]
    assert sum(bound > 1.0 for bound in bounds) <= binom.ppf(1 - 1e-4, SEEDS, alpha)
    # The attack is not vacuous.
    assert max(bounds) > 0.5


def test_the_floating_point_event_tells_a_count_from_float64_noise() -> None:
    event = floating_point_event(Laplace(10.0))
    measured = measure(event, Claim(0.1), NOTHING_PROVED, runs=100_000, seed=0, alpha=0.01)
    assert measured.epsilon_lb > 5.0
    assert measured.refutes


def test_log_ratios_are_those_of_the_densities() -> None:
    y = np.array([[-2.0, 0.25, 3.0]])
    one, zero = np.ones(3), np.zeros(3)
    expected = np.log(np.exp(-np.abs(y - 1) / 0.7) / np.exp(-np.abs(y) / 0.7))
    np.testing.assert_allclose(Laplace(0.7).log_ratios(y, one, zero), expected)


@pytest.mark.parametrize(("runs", "alpha"), [(0, 0.05), (100, 0.0), (100, 1.0)])
def test_an_attack_needs_runs_and_a_confidence(runs: int, alpha: float) -> None:
    with pytest.raises(ValueError, match=r"^(runs|alpha) must"):
        measure(laplace_probe(1, 1.0), Claim(1.0), EXACT, runs=runs, alpha=alpha)


# Clopper-Pearson's coverage by enumeration, and the bounds on epsilon and delta against cases solved by hand.


@pytest.mark.parametrize("runs", [1, 7, 40])
@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_clopper_pearson_covers_exactly(runs: int, alpha: float) -> None:
    lower = np.array([clopper_pearson_lower(k, runs, alpha) for k in range(runs + 1)])
    upper = np.array([clopper_pearson_upper(k, runs, alpha) for k in range(runs + 1)])
    worst = 0.0
    for p in np.linspace(0.001, 0.999, 999):
        mass = binom.pmf(np.arange(runs + 1), runs, p)
        too_high, too_low = mass[lower > p].sum(), mass[upper < p].sum()
        assert max(too_high, too_low) <= alpha + 1e-12
        worst = max(worst, too_high)
    # At the bound for k successes, k or more happen with probability alpha: the bound is tight.
    assert worst > 0.8 * alpha


def test_clopper_pearson_is_the_root_of_its_tail() -> None:
    assert binom.sf(6, 20, clopper_pearson_lower(7, 20, 0.03)) == pytest.approx(0.03, rel=1e-9)
    assert binom.cdf(7, 20, clopper_pearson_upper(7, 20, 0.03)) == pytest.approx(0.03, rel=1e-9)
    assert (clopper_pearson_lower(0, 20, 0.03), clopper_pearson_upper(20, 20, 0.03)) == (0.0, 1.0)
    assert clopper_pearson_upper(0, 20, 0.03) == pytest.approx(1 - 0.03 ** (1 / 20))


def test_epsilon_and_delta_bounds() -> None:
    assert epsilon_lower_bound(0.5, 0.1, 0.0) == pytest.approx(math.log(5))
    assert epsilon_lower_bound(0.5, 0.1, 0.2) == pytest.approx(math.log(3))
    assert epsilon_lower_bound(0.1, 0.5, 0.0) == epsilon_lower_bound(0.1, 0.5, 0.2) == 0.0
    assert delta_lower_bound(0.5, 0.1, math.log(2)) == pytest.approx(0.3)
    assert delta_lower_bound(0.5, 0.1, 5.0) == delta_lower_bound(0.5, 0.1, 5000.0) == 0.0


def test_the_largest_bound_is_that_of_worlds_without_a_common_output() -> None:
    # All of n runs on one data set, none on the other: (alpha^(1/n) - delta) / (1 - alpha^(1/n)).
    likely = 0.0125 ** (1 / 50_000)
    assert largest_epsilon_bound(50_000, 0.0125, 0.0) == pytest.approx(math.log(likely / (1 - likely)))
    assert largest_epsilon_bound(50_000, 0.0125, 0.0) == pytest.approx(math.log(50_000 / -math.log(0.0125)), abs=2e-4)
    assert largest_epsilon_bound(50_000, 0.0125, 0.5) == pytest.approx(math.log((likely - 0.5) / (1 - likely)))
    assert largest_epsilon_bound(1, 0.01, 0.0) == 0.0
