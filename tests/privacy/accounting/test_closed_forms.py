"""Closed forms of accounting against published numbers, brute force, 60 digits and dp-accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.stats import binom

from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    Unbounded,
    bounded_support_curve,
    composed_delta,
    gaussian_delta,
    gaussian_mu,
    largest_loss,
    worst_outside,
    zcdp_delta,
    zcdp_rho,
)
from dprl.privacy.accounting.composition import compose
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss
from dprl.privacy.accounting.root_finding import largest, smallest
from dprl.privacy.base import Sensitivity, quotient_up

# The closed forms of accounting, against published numbers, dp-accounting and brute force.


def brute_force_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    q = math.exp(epsilon_0) / (1 + math.exp(epsilon_0))
    total = 0.0
    for bits in itertools.product((0, 1), repeat=n):
        ones = sum(bits)
        p_here = q ** (n - ones) * (1 - q) ** ones
        p_there = q**ones * (1 - q) ** (n - ones)
        total += max(0.0, p_here - math.exp(epsilon) * p_there)
    return total


@pytest.mark.parametrize(("epsilon", "n", "epsilon_0"), [(0.0, 1, 0.7), (0.5, 4, 0.3), (1.0, 9, 0.25), (2.0, 6, 1.0)])
def test_composition_equals_brute_force(epsilon: float, n: int, epsilon_0: float) -> None:
    assert composed_delta(epsilon, n, epsilon_0) == pytest.approx(brute_force_delta(epsilon, n, epsilon_0), abs=1e-13)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 1e-6), (3.0, 1e-5), (0.3, 1e-9)])
@pytest.mark.parametrize("n", [1, 30, 600, 4000])
def test_loss_is_sufficient_and_largest(epsilon: float, delta: float, n: int) -> None:
    loss = largest_loss(epsilon, delta, n)
    if delta == 0:
        assert loss == pytest.approx(epsilon / n, rel=1e-15)
        return
    assert composed_delta(epsilon, n, loss) <= delta
    assert loss >= math.nextafter(epsilon / n, 0.0)
    if loss > epsilon / n:
        assert composed_delta(epsilon, n, 1.001 * loss) > delta


def precise_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    """The same sum in 60 digits."""
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.e ** -mpmath.mpf(epsilon_0))
        terms = (
            mpmath.binomial(n, i)
            * (q ** (n - i) * (1 - q) ** i - mpmath.e ** mpmath.mpf(epsilon) * q**i * (1 - q) ** (n - i))
            for i in range(n + 1)
        )
        return float(sum(term for term in terms if term > 0))


@pytest.mark.parametrize(
    ("epsilon", "n", "epsilon_0"),
    [(1e-9, 6, 1e-9), (1e-12, 600, 1e-13), (1.0, 600, 1e-3), (1.0, 4800, 0.02), (30.0, 6, 9.0), (5e-6, 30, 1e-6)],
)
def test_composition_keeps_its_digits_at_the_extremes(epsilon: float, n: int, epsilon_0: float) -> None:
    assert composed_delta(epsilon, n, epsilon_0) == pytest.approx(precise_delta(epsilon, n, epsilon_0), rel=1e-9)


def test_vectors_of_the_gaussian() -> None:
    for epsilon, delta, mu in [(1, 1e-6, 0.23670), (1, 1e-5, 0.26805), (2, 1e-6, 0.44833), (0.5, 1e-6, 0.12411)]:
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=1e-5)
        assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) == pytest.approx(delta, rel=1e-6)
        assert GaussianDP(mu).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


# Every curve: safe roundings, ends, and both of its directions.

CURVES: list[PrivacyCurve] = [
    RandomizedResponses(1, 1e-9),
    RandomizedResponses(1, 1.0),
    RandomizedResponses(1, 1e9),
    RandomizedResponses(1, 0.5, lost=1e-7),
    RandomizedResponses(20, 0.1),
    *(RandomizedResponses(n, 0.3, informative=0.5) for n in (1, 12, 500)),
    RandomizedResponses(600, 1e-11),
    RandomizedResponses(30, 0.5, cap=2.0),
    GaussianDP(1e-10),
    GaussianDP(0.2367),
    GaussianDP(60.0),
    ZCDP(1e-18),
    ZCDP(0.0244),
    ZCDP(1e6),
    DiscreteGaussianLoss(100, 42.25),
    compose([RandomizedResponses(20, 0.1), RandomizedResponses(1, 0.5), GaussianDP(0.1)]),
    compose([RandomizedResponses(20, 0.1), ZCDP(0.01), RandomizedResponses(1, 0.1, lost=1e-9)]),
]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.3, 0.999]


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_an_epsilon_holds_at_its_delta_and_falls_with_it(curve: PrivacyCurve) -> None:
    epsilons = [curve.epsilon(delta) for delta in DELTAS]
    for delta, epsilon in zip(DELTAS, epsilons, strict=True):
        assert 0 <= epsilon <= curve.pure_epsilon
        if math.isfinite(epsilon):
            assert curve.delta(epsilon) <= delta
    assert all(more >= less for more, less in itertools.pairwise(epsilons))
    assert curve.epsilon(0.0) == curve.pure_epsilon


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_deltas_are_probabilities_and_fall(curve: PrivacyCurve) -> None:
    most = curve.epsilon(1e-6)
    deltas = [curve.delta(epsilon) for epsilon in np.linspace(0.0, 1.2 * most, 25)]
    assert all(0 <= delta <= 1 for delta in deltas)
    assert np.all(np.diff(deltas) <= 1e-12 * np.array(deltas[:-1]))
    assert curve.delta(math.inf) <= 1e-7
    if math.isfinite(curve.pure_epsilon):
        assert curve.delta(curve.pure_epsilon) == 0


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_epsilons_are_not_rounded_up_by_much(curve: PrivacyCurve) -> None:
    for delta in (1e-12, 1e-6, 1e-3):
        epsilon = curve.epsilon(delta)
        if math.isfinite(epsilon) and 0 < epsilon < curve.pure_epsilon * (1 - 1e-6):
            assert curve.delta(epsilon * (1 - 1e-6)) > delta


def precise_gaussian(epsilon: float, mu: float) -> float:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return float(mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


@pytest.mark.parametrize("mu", [1e-10, 1e-6, 1e-3, 0.05, 0.3, 0.99, 1.0, 1.5, 4.0, 20.0, 60.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-4, 0.1, 1.0, 10.0, 300.0])
def test_gaussian_keeps_its_digits(epsilon: float, mu: float) -> None:
    assert gaussian_delta(epsilon, mu) == pytest.approx(precise_gaussian(epsilon, mu), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-6, 0.1, 0.999])
def test_gaussian_meets_every_request(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta
    assert gaussian_delta(GaussianDP(mu).epsilon(delta), mu) <= delta


def test_what_is_raw_is_unbounded() -> None:
    assert Unbounded().epsilon(0.9) == Unbounded().pure_epsilon == math.inf
    assert Unbounded().delta(1e9) == 1


def test_a_point_holds_at_its_delta() -> None:
    curve = RandomizedResponses(1, 1.0, lost=1e-6)
    assert curve.pure_epsilon == curve.epsilon(0.9e-6) == math.inf
    assert curve.epsilon(1e-6) == 1.0
    assert curve.epsilon(1e-3) < 1.0
    assert curve.delta(1.0) == curve.delta(50.0) == 1e-6
    assert RandomizedResponses(1, 1.0, lost=0.0).pure_epsilon == 1.0


def test_a_cap_is_kept() -> None:
    curve = RandomizedResponses(30, 0.5, cap=2.0)
    assert curve.pure_epsilon == 2.0
    assert curve.epsilon(1e-6) <= 2.0
    assert curve.delta(2.0) == 0


def test_nothing_costs_nothing() -> None:
    for curve in (RandomizedResponses(1, 0.0), GaussianDP(0.0), ZCDP(0.0), RandomizedResponses(3, 0.0)):
        assert curve.pure_epsilon == curve.epsilon(1e-6) == curve.delta(0.0) == 0


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_no_curve_of_nonsense(value: float) -> None:
    for name, kind in (("epsilon_0", partial(RandomizedResponses, 1)), ("mu", GaussianDP), ("rho", ZCDP)):
        with pytest.raises(ValueError, match=f"^{name} must be at least 0 and finite, got"):
            kind(value)
    with pytest.raises(ValueError, match=r"^lost must be at least 0 and below 1, got"):
        RandomizedResponses(1, 1.0, lost=value)
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0"):
        RandomizedResponses(0, 1.0)


# Zero-concentrated privacy against published numbers, a grid of orders, and its own inverses.

EPSILONS = [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9]
ZCDP_DELTAS = [1e-15, 1e-9, 1e-6, 0.1, 0.999]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", ZCDP_DELTAS)
def test_every_request_has_a_rho_that_meets_it_and_no_larger_one(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert rho > 0
    assert zcdp_delta(epsilon, rho) <= delta
    assert zcdp_delta(epsilon, rho * (1 + 1e-6)) > delta
    assert zcdp_delta(ZCDP(rho).epsilon(delta), rho) <= delta


@pytest.mark.parametrize(("epsilon", "rho"), [(1.0, 0.02), (0.0, 0.5), (3.0, 1.0), (1e-6, 1e-13), (200.0, 60.0)])
def test_the_best_order_is_found(epsilon: float, rho: float) -> None:
    t = np.exp(np.linspace(-40, 40, 400_001))
    log_delta = t * ((t + 1) * rho - epsilon) - t * np.log1p(1 / t) - np.log1p(t)
    best = math.exp(float(log_delta.min()))
    assert zcdp_delta(epsilon, rho) == pytest.approx(best, rel=1e-6)
    assert zcdp_delta(epsilon, rho) <= best * (1 + 2e-9)


@pytest.mark.parametrize(("rho", "delta"), [(0.02, 1e-6), (0.5, 1e-5), (1e-3, 1e-9)])
def test_agrees_with_renyi_accounting(rho: float, delta: float) -> None:
    orders = 1 + np.exp(np.linspace(-3, 9, 3000))
    peer, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, delta)
    # dp-accounting minimises over a grid of orders only.
    assert ZCDP(rho).epsilon(delta) <= peer * (1 + 2e-9)
    assert ZCDP(rho).epsilon(delta) == pytest.approx(peer, rel=1e-5)


def test_ends() -> None:
    assert zcdp_delta(1.0, 0.0) == zcdp_delta(math.inf, 1.0) == ZCDP(0.0).epsilon(1e-6) == ZCDP(3.0).epsilon(1.0) == 0
    assert zcdp_delta(1.0, math.inf) == 1
    assert ZCDP(1.0).epsilon(0.0) == math.inf
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"^delta must be above 0 and below 1"):
            zcdp_rho(1.0, delta)
    with pytest.raises(ValueError, match=r"^epsilon must be at least 0 and finite"):
        zcdp_rho(math.inf, 1e-6)


@pytest.mark.parametrize("gap", [700.0, 709.0, 715.0, 730.0, 744.0, 745.5, 800.0])
@pytest.mark.parametrize("epsilon", [0.0, 10.0, 50.0, 1000.0])
def test_no_order_is_too_small_for_a_bound(epsilon: float, gap: float) -> None:
    """Gaussian noise is rho-zCDP: its delta is the least that is possible."""
    rho = epsilon + gap
    assert zcdp_delta(epsilon, rho) >= gaussian_delta(epsilon, math.sqrt(2.0 * rho)) * (1.0 - 1e-9)


# The curve of optimised unary encodings: a binomial number of randomized responses; the rest reveals nothing.


@pytest.mark.parametrize("n", [1, 2, 5, 40, 200])
@pytest.mark.parametrize("epsilon_0", [0.05, 1.0, 30.0])
def test_it_is_a_binomial_mixture_of_randomized_responses(n: int, epsilon_0: float) -> None:
    curve = RandomizedResponses(n, epsilon_0, informative=0.5)
    for part in (0.0, 0.03, 0.4, 0.97):
        epsilon = part * n * epsilon_0
        mixture = sum(binom.pmf(k, n, 0.5) * composed_delta(epsilon, k, epsilon_0) for k in range(1, n + 1))
        assert curve.delta(epsilon) == pytest.approx(mixture, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("epsilon_0", [699.0, 701.0, 1e3, 1e9])
def test_an_encoding_that_never_lies_reveals_its_cell_half_of_the_time(epsilon_0: float) -> None:
    # e^epsilon_0 overflows from 709.8 on.
    assert RandomizedResponses(1, epsilon_0, informative=0.5).delta(1.0) == pytest.approx(0.5)
    assert RandomizedResponses(3, epsilon_0, informative=0.5).delta(epsilon_0 + 1.0) == pytest.approx(4 / 8)


# The worst shift of bounded noise: no other shift with the same norms has a larger loss, for any log-concave law.

LogCommon = Callable[[float], float]


def uniform_common(shift: float) -> float:
    """Of the uniform law on [-1, 1]."""
    return math.log1p(-shift / 2) if shift < 2 else -math.inf


def triangle_common(shift: float) -> float:
    """Of the triangular law on [-1, 1]: the mass above shift - 1."""
    if shift >= 2:
        return -math.inf
    tail = shift**2 / 2 if shift <= 1 else 1 - (2 - shift) ** 2 / 2
    return math.log1p(-tail)


@pytest.mark.parametrize("log_common", [uniform_common, triangle_common])
@pytest.mark.parametrize(
    ("l1", "linf", "cells"), [(1.0, 1.0, 3), (2.3, 0.7, 5), (9.0, 0.3, 4), (0.2, 1.5, 2), (2.9, 1.9, 3)]
)
def test_no_shift_with_these_norms_loses_more(log_common: LogCommon, l1: float, linf: float, cells: int) -> None:
    rng, stated = np.random.default_rng(0), worst_outside(Sensitivity(l1, l1, linf, cells), log_common)
    for _ in range(2000):
        shift = np.minimum(rng.dirichlet(np.full(cells, rng.choice([0.1, 0.5, 3.0]))) * l1, linf)
        assert 1 - math.exp(sum(log_common(float(v)) for v in shift)) <= stated + 1e-12


def test_the_worst_shift_is_the_concentrated_one() -> None:
    assert worst_outside(Sensitivity(2.3, 2.3, 1.0, 9), uniform_common) == pytest.approx(1 - 0.5 * 0.5 * 0.85)
    assert worst_outside(Sensitivity(7 * 0.1, 7 * 0.1, 0.1, 7), uniform_common) == pytest.approx(1 - 0.95**7)
    assert worst_outside(Sensitivity(9.0, 9.0, 0.5, 2), uniform_common) == pytest.approx(1 - 0.75**2)
    assert worst_outside(Sensitivity(0.4, 0.4, 1.0, 5), uniform_common) == pytest.approx(0.2)


def test_curve_is_a_point_and_nothing_in_common_is_no_guarantee() -> None:
    curve = bounded_support_curve(1e-4, 0.5)
    assert (curve.delta(0.5), curve.delta(7.0)) == (1e-4, 1e-4)
    assert curve.delta(0.2) > 1e-3
    assert (curve.epsilon(0.9e-4), curve.pure_epsilon) == (math.inf, math.inf)
    assert curve.epsilon(1e-4) == 0.5
    assert isinstance(bounded_support_curve(1.0, 0.5), Unbounded)


# Roots: on the safe side, also at jumps and at the ends.


@pytest.mark.parametrize("target", [1e-300, 1e-15, 0.3])
@pytest.mark.parametrize("start", [1e-9, 1.0, 1e9])
def test_smallest_is_just_above_the_root(target: float, start: float) -> None:
    x = smallest(lambda x: math.exp(-min(x, 800.0)), target, start)
    assert math.exp(-x) <= target
    assert x == pytest.approx(-math.log(target), rel=1e-8)


def test_jumps_and_missing_roots() -> None:
    assert smallest(lambda x: 0.5 if x < 3.0 else 0.0, 0.1, 1.0) == pytest.approx(3.0, rel=1e-8)
    assert smallest(lambda x: 0.5 if x < 3.0 else 0.0, 0.1, 1.0) >= 3.0
    assert smallest(lambda _: 0.5, 0.1, 1.0) == math.inf
    assert smallest(lambda _: 0.0, 0.1, 1.0) < 1e-290


def test_largest_is_just_below_the_root() -> None:
    x = largest(lambda x: 1 - math.exp(-x), 0.25, 1.0)
    assert 1 - math.exp(-x) <= 0.25
    assert x == pytest.approx(-math.log(0.75), rel=1e-8)


def test_quotients_are_the_nearest_on_the_safe_side() -> None:
    rng, inexact = np.random.default_rng(0), 0
    for numerator, denominator in np.exp(rng.uniform(-30, 30, (500, 2))).tolist():
        exact = Fraction(numerator) / Fraction(denominator)
        up, down = quotient_up(numerator, denominator), -quotient_up(-numerator, denominator)
        assert Fraction(math.nextafter(up, 0.0)) < exact <= Fraction(up)
        assert Fraction(down) <= exact < Fraction(math.nextafter(down, math.inf))
        inexact += up > numerator / denominator
    assert inexact > 100
    assert quotient_up(6.0, 1.5) == -quotient_up(-6.0, 1.5) == 4.0


def test_quotients_at_the_ends() -> None:
    assert quotient_up(1.0, 1e-320) == math.inf
    assert quotient_up(1e-320, 1e10) == 5e-324
    assert -quotient_up(-1e-320, 1e10) == 0.0
    assert quotient_up(1.0, math.inf) == 0.0
