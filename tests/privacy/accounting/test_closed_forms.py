"""The closed forms of accounting, against published numbers, dp-accounting and brute force."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dprl.privacy.accounting.closed_forms import (
    GaussianDP,
    composed_delta,
    composed_epsilon,
    gaussian_delta,
    gaussian_mu,
    largest_loss,
)


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


def test_vectors_of_the_composition() -> None:
    assert composed_delta(1.0, 20, 0.1) == pytest.approx(2.3967e-3, rel=1e-4)
    assert composed_epsilon(1e-6, 20, 0.1) == pytest.approx(1.7886, abs=1e-4)
    assert composed_epsilon(0.0, 20, 0.1) == pytest.approx(2.0)


def test_composition_dominates_continuous_laplace_as_dp_accounting_sees_it() -> None:
    scale, n, delta = 10.0, 20, 1e-6
    pld = privacy_loss_distribution.from_laplace_mechanism(scale, sensitivity=1, value_discretization_interval=1e-4)
    peer = pld.self_compose(n).get_epsilon_for_delta(delta)
    ours = composed_epsilon(delta, n, 1 / scale)
    # dp-accounting rounds up by at most n times half its grid; here it is 0.83 % below ours.
    assert peer <= ours + n * 1e-4
    assert ours == pytest.approx(peer, rel=1e-2)


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


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 1.0, 30.0, 1e4, 1e9])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 0.1, 0.999])
@pytest.mark.parametrize("n", [6, 600, 24_000])
def test_every_accepted_request_has_a_loss_that_meets_it(epsilon: float, delta: float, n: int) -> None:
    loss = largest_loss(epsilon, delta, n)
    assert math.nextafter(epsilon / n, 0.0) <= loss < math.inf
    assert composed_delta(epsilon, n, loss) <= delta
    assert composed_epsilon(delta, n, loss) <= epsilon * (1 + 1e-6) or composed_delta(epsilon, n, loss) == 0


def test_vectors_of_the_gaussian() -> None:
    for epsilon, delta, mu in [(1, 1e-6, 0.23670), (1, 1e-5, 0.26805), (2, 1e-6, 0.44833), (0.5, 1e-6, 0.12411)]:
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=1e-5)
        assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) == pytest.approx(delta, rel=1e-6)
        assert GaussianDP(mu).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_curves_fall_with_epsilon() -> None:
    grid = np.linspace(0, 3, 40)
    for values in (
        np.array([composed_delta(e, 50, 0.1) for e in grid]),
        np.array([gaussian_delta(e, 0.5) for e in grid]),
    ):
        assert np.all(np.diff(values) <= 0)
        assert np.all((values >= 0) & (values <= 1))


@pytest.mark.parametrize(
    ("n", "scale", "epsilon"),
    [
        (200, 10 * math.log(1000), 0.8494),
        (200, 10 * math.log2(1000), 0.574),
        (300, 15 * math.log(1000), 0.685),
        (20, 10.0, 1.7886),
        (30, 15.0, 1.501),
    ],
)
def test_vectors_of_the_papers_noise_at_a_delta(n: int, scale: float, epsilon: float) -> None:
    digits = 5e-5 if round(epsilon, 3) != epsilon else 5.1e-4
    assert composed_epsilon(1e-6, n, 1 / scale) == pytest.approx(epsilon, abs=digits)


def test_vectors_of_the_papers_local_noise_at_epsilon_1() -> None:
    assert composed_delta(1.0, 20, 1 / 10) == pytest.approx(2.4e-3, rel=2e-2)
    assert composed_delta(1.0, 30, 1 / 15) == pytest.approx(4.8e-4, rel=2e-2)


def test_ten_million_losses_take_milliseconds_and_keep_their_digits() -> None:
    # The sum of so many small losses is nearly Gaussian.
    assert composed_epsilon(1e-6, 10**7, 1e-4) == pytest.approx(
        GaussianDP(1e-4 * math.sqrt(10**7)).epsilon(1e-6), rel=1e-4
    )
